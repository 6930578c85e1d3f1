//! Client side: files to fetch, or one small request repeatedly.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Instant;

use peer_common::latency::Latencies;
use peer_common::progress::Progress;
use peer_common::{Failure, failed, files};
use quiche::h3::{self, Error, Event, Header, HeaderRef, NameValue};

use crate::config::Connection;
use crate::stack;

/// `:authority` of every request. The servers of the contract have one host and ignore it.
const AUTHORITY: &[u8] = b"localhost";

/// Requests of one connection.
pub struct Web {
    http: Option<h3::Connection>,
    wishes: Wishes,
    /// Maximum number of concurrent requests.
    concurrency: usize,
    open: HashMap<u64, Open>,
    /// Times of the complete requests.
    pub times: Latencies,
}

/// Request whose response is not complete.
struct Open {
    since: Instant,
    /// File for the response, and its content so far.
    file: Option<(PathBuf, Vec<u8>)>,
}

/// Requests that have not been sent.
enum Wishes {
    /// Paths in reverse order, each with the file in which its response is stored.
    Files(Vec<(Rc<str>, Option<PathBuf>)>),
    /// One path, and the number of remaining requests for it.
    Same(Rc<str>, u64),
}

impl Web {
    /// Creates one request for each path.
    pub fn files(paths: &[String], out: Option<&Path>) -> Result<Self, Failure> {
        let mut wishes = Vec::new();
        for path in paths.iter().rev() {
            let target = out.map(|out| files::destination(out, path));
            if target == Some(None) {
                return failed(format!("no file name in {path}"));
            }
            wishes.push((slashed(path), target.flatten()));
        }
        Ok(Self::new(Wishes::Files(wishes), usize::MAX))
    }

    /// Creates `count` requests for one path, `concurrency` of them concurrent.
    pub fn repeat(path: &str, count: u64, concurrency: u64) -> Result<Self, Failure> {
        Ok(Self::new(Wishes::Same(slashed(path), count), usize::try_from(concurrency)?))
    }

    fn new(wishes: Wishes, concurrency: usize) -> Self {
        Self { http: None, wishes, concurrency, open: HashMap::new(), times: Latencies::default() }
    }

    /// Returns whether all responses are complete.
    pub fn done(&self) -> bool {
        self.open.is_empty() && self.wishes.next().is_none()
    }

    /// Reads the available data and sends further requests, as far as the connection allows.
    pub fn advance(
        &mut self,
        connection: &mut Connection,
        progress: &Progress,
        sink: &mut [u8],
    ) -> Result<(), Failure> {
        if self.http.is_none() {
            self.http = Some(h3::Connection::with_transport(connection, &h3::Config::new()?)?);
        }
        let Some(http) = &mut self.http else { return Ok(()) };
        loop {
            match http.poll(connection) {
                Ok((_, Event::Headers { list, .. })) => check(&list)?,
                Ok((id, Event::Data)) => {
                    let mut body = self.open.get_mut(&id).and_then(|open| Some(&mut open.file.as_mut()?.1));
                    stack::read_body(http, connection, id, sink, |piece| {
                        progress.add(piece.len() as u64);
                        if let Some(body) = &mut body {
                            body.extend_from_slice(piece);
                        }
                    });
                }
                Ok((id, Event::Finished)) => {
                    let Some(Open { since, file }) = self.open.remove(&id) else { continue };
                    self.times.add(since.elapsed());
                    if let Some((target, body)) = file {
                        std::fs::write(target, body)?;
                    }
                }
                Ok((_, Event::Reset(code))) => return failed(format!("the answer was reset with {code:#x}")),
                Ok((_, Event::GoAway | Event::PriorityUpdate)) => {}
                Err(Error::Done) => break,
                Err(error) => return Err(error.into()),
            }
        }
        while self.open.len() < self.concurrency
            && connection.peer_streams_left_bidi() > 0
            && let Some(path) = self.wishes.next()
        {
            let fields = [
                HeaderRef::new(b":method", b"GET"),
                HeaderRef::new(b":scheme", b"https"),
                HeaderRef::new(b":authority", AUTHORITY),
                HeaderRef::new(b":path", path.as_bytes()),
            ];
            let since = Instant::now();
            match http.send_request(connection, &fields, true) {
                Ok(id) => _ = self.open.insert(id, Open { since, file: self.wishes.granted() }),
                Err(Error::StreamBlocked) => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

impl Wishes {
    /// Returns the path of the next request.
    fn next(&self) -> Option<&str> {
        match self {
            Self::Files(files) => files.last().map(|(path, _)| &**path),
            Self::Same(path, left) => (*left > 0).then_some(path),
        }
    }

    /// Removes the next request. Returns the file for its response, and an empty buffer for its content.
    fn granted(&mut self) -> Option<(PathBuf, Vec<u8>)> {
        match self {
            Self::Files(files) => files.pop().and_then(|(_, target)| Some((target?, Vec::new()))),
            Self::Same(_, left) => {
                *left -= 1;
                None
            }
        }
    }
}

fn slashed(path: &str) -> Rc<str> {
    format!("/{}", path.trim_start_matches('/')).into()
}

fn check(head: &[Header]) -> Result<(), Failure> {
    match head.iter().find(|field| field.name() == b":status").map(Header::value) {
        Some(b"200") => Ok(()),
        status => failed(format!("the status is {}", String::from_utf8_lossy(status.unwrap_or(b"missing")))),
    }
}
