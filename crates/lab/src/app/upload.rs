//! Plain upload of the experiments: the client sends a number of bytes on a stream, and the server counts
//! them.

use anabranch_transport::stream::{ReadError, StreamEvent, WriteError};
use anabranch_transport::{Endpoint, Event, Handle};
use anabranch_wire::{Dir, StreamId, Time};
use bytes::Bytes;

use super::{Application, Dial};

/// Maximum number of bytes that a client writes to a stream at once.
const PIECE: usize = 256 * 1024;

/// Client that connects once and uploads.
#[derive(Debug)]
pub struct UploadClient {
    /// The connection.
    pub dial: Dial,
    zeros: Bytes,
    /// Number of bytes still to be written.
    left: u64,
    stream: Option<StreamId>,
    /// Time at which the handshake completed.
    pub connected: Option<Time>,
    /// Error that ended the upload or the connection.
    pub failure: Option<String>,
}

impl UploadClient {
    /// Creates a client that uploads `bytes` bytes on one stream.
    pub fn new(dial: Dial, bytes: u64) -> Self {
        Self {
            dial,
            zeros: Bytes::from(vec![0; PIECE]),
            left: bytes,
            stream: None,
            connected: None,
            failure: None,
        }
    }

    fn send(&mut self, endpoint: &mut Endpoint, handle: Handle) {
        let Some(connection) = endpoint.connection(handle) else { return };
        let streams = connection.streams();
        if self.stream.is_none() {
            self.stream = streams.open(Dir::Uni);
        }
        let Some(id) = self.stream else { return };
        while self.left > 0 {
            let piece = self.left.min(PIECE as u64) as usize;
            match streams.write_bytes(id, &mut self.zeros.slice(..piece)) {
                Ok(n) => self.left -= n as u64,
                Err(WriteError::Blocked) => return,
                Err(error) => {
                    self.failure = Some(format!("stream {id}: {error} with {} bytes left", self.left));
                    return;
                }
            }
        }
        // The stream may already be finished.
        let _ = streams.finish(id);
    }
}

impl Application for UploadClient {
    fn start(&mut self, now: Time, endpoint: &mut Endpoint) {
        self.failure = self.dial.start(now, endpoint).err();
    }

    fn on_event(&mut self, now: Time, endpoint: &mut Endpoint, handle: Handle, event: Event) {
        match event {
            Event::Connected { .. } => {
                self.connected = Some(now);
                self.send(endpoint, handle);
            }
            Event::Stream(StreamEvent::Available(_) | StreamEvent::Writable(_)) => {
                self.send(endpoint, handle);
            }
            Event::Closed(error) => self.failure = Some(error.to_string()),
            _ => {}
        }
        self.on_time(now, endpoint);
    }

    fn next_time(&self) -> Option<Time> {
        self.dial.next_time()
    }

    fn on_time(&mut self, now: Time, endpoint: &mut Endpoint) {
        self.dial.on_time(now, endpoint);
    }
}

/// Server that reads the stream of the client and records when its end arrives.
#[derive(Debug, Default)]
pub struct UploadServer {
    /// Number of bytes received.
    pub received: u64,
    /// Time at which the last byte arrived.
    pub finished: Option<Time>,
    /// Error that ended the stream before its last byte.
    pub failure: Option<String>,
}

impl UploadServer {
    fn read(&mut self, now: Time, endpoint: &mut Endpoint, handle: Handle, id: StreamId) {
        let Some(connection) = endpoint.connection(handle) else { return };
        let streams = connection.streams();
        loop {
            match streams.take(id, usize::MAX) {
                Ok(data) => self.received += data.len() as u64,
                Err(ReadError::Blocked) => return,
                Err(ReadError::Finished) => {
                    self.finished.get_or_insert(now);
                    return;
                }
                Err(end) => {
                    self.failure.get_or_insert(format!("stream {id}: {end} after {} bytes", self.received));
                    return;
                }
            }
        }
    }
}

impl Application for UploadServer {
    fn on_event(&mut self, now: Time, endpoint: &mut Endpoint, handle: Handle, event: Event) {
        match event {
            Event::Stream(StreamEvent::Opened(dir)) => {
                while let Some(id) = endpoint.connection(handle).and_then(|open| open.streams().accept(dir)) {
                    self.read(now, endpoint, handle, id);
                }
            }
            Event::Stream(StreamEvent::Readable(id)) if self.finished.is_none() => {
                self.read(now, endpoint, handle, id);
            }
            _ => {}
        }
    }
}
