//! The client's side: files to fetch, or one small request again and again.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use peer_common::progress::Progress;
use peer_common::{Failure, failed, files};
use quiche::h3::{self, Error, Event, Header, HeaderRef, NameValue};

use crate::config::Connection;
use crate::stack;

/// The `:authority` of every request; the servers of the contract have one host and do not look at it.
const AUTHORITY: &[u8] = b"localhost";

/// The requests of one connection.
pub struct Web {
    http: Option<h3::Connection>,
    wishes: Wishes,
    /// Maximum number of requests that may be open at once.
    concurrency: usize,
    open: HashMap<u64, Option<(PathBuf, Vec<u8>)>>,
}

/// Requests that are still to be made.
enum Wishes {
    /// These paths, the next one last, each with the file that its answer goes to.
    Files(Vec<(Rc<str>, Option<PathBuf>)>),
    /// One path, this often.
    Same(Rc<str>, u64),
}

impl Web {
    /// Creates the requests for every path, once each.
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

    /// Creates `count` requests for one path, `concurrency` at once.
    pub fn repeat(path: &str, count: u64, concurrency: u64) -> Result<Self, Failure> {
        Ok(Self::new(Wishes::Same(slashed(path), count), usize::try_from(concurrency)?))
    }

    fn new(wishes: Wishes, concurrency: usize) -> Self {
        Self { http: None, wishes, concurrency, open: HashMap::new() }
    }

    /// Returns whether every answer has ended.
    pub fn done(&self) -> bool {
        self.open.is_empty() && self.wishes.next().is_none()
    }

    /// Receives what has come and asks for more, as far as the connection allows.
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
                    let mut body = self.open.get_mut(&id).and_then(|file| Some(&mut file.as_mut()?.1));
                    stack::read_body(http, connection, id, sink, |piece| {
                        progress.add(piece.len() as u64);
                        if let Some(body) = &mut body {
                            body.extend_from_slice(piece);
                        }
                    });
                }
                Ok((id, Event::Finished)) => {
                    if let Some(Some((target, body))) = self.open.remove(&id) {
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
            match http.send_request(connection, &fields, true) {
                Ok(id) => _ = self.open.insert(id, self.wishes.granted()),
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

    /// Crosses the next wish off; returns the file for its answer, and what is in it.
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
