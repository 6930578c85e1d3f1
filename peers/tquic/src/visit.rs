//! One connection: its streams, those that are to be opened, and how it ends.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;

use peer_common::progress::Progress;
use peer_common::{Failure, failed};
use tquic::h3::connection::Http3Connection;
use tquic::h3::{Http3Config, Http3Error, Http3Event};
use tquic::{Connection, Error, Shutdown};

use crate::outgoing::Channel;
use crate::stream::Stream;

/// Size of the buffer for data that arrives.
const BUFFER: usize = 64 * 1024;

/// Connection.
pub struct Visit {
    /// Streams that a client still has to open.
    pub todo: VecDeque<Stream>,
    /// Client: counts what arrives and what is sent.
    pub progress: Option<Arc<Progress>>,
    pub established: bool,
    /// Why the connection has ended.
    pub ended: Option<String>,
    /// First failure of a stream.
    pub failure: Option<Failure>,
    /// Server: folder of the files.
    root: Option<PathBuf>,
    http3: Option<Http3Connection>,
    streams: HashMap<u64, Stream>,
}

impl Visit {
    /// Creates a connection; a server's with the folder of its files.
    pub fn new(root: Option<PathBuf>) -> Self {
        Self {
            todo: VecDeque::new(),
            progress: None,
            root,
            established: false,
            ended: None,
            failure: None,
            http3: None,
            streams: HashMap::new(),
        }
    }

    /// Returns whether a client's work is done.
    pub fn is_done(&self) -> bool {
        self.todo.is_empty() && self.streams.is_empty()
    }

    /// Opens streams as long as the server allows it.
    pub fn open(&mut self, quic: &mut Connection) {
        if self.todo.is_empty() || !(quic.is_established() || quic.is_in_early_data()) {
            return;
        }
        self.start_http3(quic);
        while let Some(stream) = self.todo.pop_front() {
            let opened = match &mut self.http3 {
                Some(http3) => http3.stream_new(quic).map_err(|error| match error {
                    Http3Error::TransportError(inner) => inner,
                    other => Error::InvalidState(other.to_string()),
                }),
                None => quic.stream_bidi_new(0, false),
            };
            match opened {
                Ok(id) => {
                    let _ = quic.stream_want_read(id, true);
                    self.streams.insert(id, stream);
                    self.push(quic, id);
                }
                Err(Error::StreamLimitError | Error::Done) => {
                    self.todo.push_front(stream);
                    return;
                }
                Err(error) => return self.fail(format!("cannot open a stream: {error}")),
            }
        }
    }

    fn fail(&mut self, why: impl Into<String>) {
        self.failure.get_or_insert(Failure::Failed(why.into()));
    }

    /// Begins HTTP/3, if that was agreed on, or is the only protocol that a client offers.
    fn start_http3(&mut self, quic: &mut Connection) {
        let is_http3 = match (&self.progress, quic.application_proto()) {
            (_, b"h3") => true,
            // In early data nothing has been agreed on yet.
            (Some(_), b"") => self.todo.iter().any(|stream| stream.outgoing.head.is_some()),
            _ => false,
        };
        if is_http3 && self.http3.is_none() {
            let started =
                Http3Config::new().and_then(|config| Http3Connection::new_with_quic_conn(quic, &config));
            match started {
                Ok(http3) => self.http3 = Some(http3),
                Err(error) => self.fail(format!("HTTP/3: {error}")),
            }
        }
    }

    fn push(&mut self, quic: &mut Connection, id: u64) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        match stream.outgoing.push(&mut Channel { quic, http3: self.http3.as_mut() }, id) {
            Ok(moved) => self.count(moved),
            Err(why) if self.progress.is_some() => self.fail(why),
            // A client that does not want its answer says so itself.
            Err(_) => {}
        }
    }

    fn count(&self, bytes: u64) {
        if let (Some(progress), 1..) = (&self.progress, bytes) {
            progress.add(bytes);
        }
    }

    /// Takes a stream's data, or for HTTP/3 that of all streams.
    pub fn readable(&mut self, quic: &mut Connection, id: u64) {
        self.start_http3(quic);
        if self.http3.is_some() {
            return self.read_http3(quic);
        }
        let alpn = quic.application_proto().to_vec();
        let is_server = quic.is_server();
        if is_server {
            self.streams.entry(id).or_insert_with(|| Stream::served(&alpn));
        }
        let mut buffer = vec![0; BUFFER];
        loop {
            match quic.stream_read(id, &mut buffer) {
                Ok((length, end)) => {
                    let Some(stream) = self.streams.get_mut(&id) else { continue };
                    stream.take(&buffer[..length]);
                    self.count(if is_server { 0 } else { length as u64 });
                    if end {
                        self.finish(quic, id);
                    }
                }
                Err(Error::Done) => break,
                Err(error) => {
                    if !is_server && self.streams.remove(&id).is_some() {
                        self.fail(error.to_string());
                    }
                    break;
                }
            }
        }
        self.push(quic, id);
    }

    /// Takes the end of a stream's data.
    fn finish(&mut self, quic: &mut Connection, id: u64) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        match (stream.end(self.root.as_deref()), quic.is_server()) {
            (Ok(true), true) => return self.push(quic, id),
            (Ok(_), true) => _ = quic.stream_shutdown(id, Shutdown::Write, 1),
            (Ok(_), false) => {}
            (Err(failure), _) => _ = self.failure.get_or_insert(failure),
        }
        self.streams.remove(&id);
    }

    fn read_http3(&mut self, quic: &mut Connection) {
        let is_server = quic.is_server();
        let mut buffer = vec![0; BUFFER];
        loop {
            let Some(http3) = &mut self.http3 else { return };
            match http3.poll(quic) {
                Ok((id, Http3Event::Headers { headers, fin })) => {
                    if is_server {
                        self.streams.entry(id).or_insert_with(|| Stream::served(b"h3"));
                    }
                    let Some(stream) = self.streams.get_mut(&id) else { continue };
                    if let Err(failure) = stream.head(&headers, is_server, self.root.as_deref()) {
                        self.failure.get_or_insert(failure);
                    }
                    match (is_server, fin) {
                        (true, _) => self.push(quic, id),
                        (false, true) => self.finish(quic, id),
                        (false, false) => {}
                    }
                }
                Ok((id, Http3Event::Data)) => {
                    while let Some(http3) = &mut self.http3
                        && let Ok(length) = http3.recv_body(quic, id, &mut buffer)
                    {
                        if let (Some(stream), false) = (self.streams.get_mut(&id), is_server) {
                            stream.take(&buffer[..length]);
                            self.count(length as u64);
                        }
                    }
                }
                Ok((id, Http3Event::Finished)) if !is_server => self.finish(quic, id),
                Ok((_, Http3Event::Reset(code))) if !is_server => self.fail(format!("reset: {code:#x}")),
                Ok(_) => {}
                Err(Http3Error::Done) => return,
                Err(error) => return self.fail(format!("HTTP/3: {error}")),
            }
        }
    }

    /// Goes on with a stream's data.
    pub fn writable(&mut self, quic: &mut Connection, id: u64) {
        self.push(quic, id);
    }

    /// Forgets a stream that is closed at both ends.
    pub fn closed(&mut self, quic: &Connection, id: u64) {
        if let Some(http3) = &mut self.http3 {
            http3.stream_destroy(id);
        }
        if quic.is_server() {
            self.streams.remove(&id);
        } else if self.streams.remove(&id).is_some() {
            self.fail("a stream was closed before its end");
        }
    }

    /// Takes the end of the connection.
    pub fn end(&mut self, quic: &Connection) {
        let said = |error: &tquic::error::ConnectionError| {
            format!("{:#x} {}", error.error_code, String::from_utf8_lossy(&error.reason))
        };
        self.ended = Some(match (quic.peer_error(), quic.local_error()) {
            (Some(error), _) => format!("closed by the peer: {}", said(error)),
            _ if quic.is_reset() => "stateless reset by the peer".to_owned(),
            _ if quic.is_idle_timeout() => "the connection timed out".to_owned(),
            _ if quic.is_handshake_timeout() => "the handshake timed out".to_owned(),
            (None, Some(error)) => format!("closed by tquic: {}", said(error)),
            (None, None) => "the connection has ended".to_owned(),
        });
    }

    /// Returns the failure of the connection, or of a stream.
    pub fn check(&mut self) -> Result<(), Failure> {
        match (&self.ended, self.failure.take()) {
            (Some(why), _) => failed(why.clone()),
            (None, Some(failure)) => Err(failure),
            (None, None) => Ok(()),
        }
    }
}
