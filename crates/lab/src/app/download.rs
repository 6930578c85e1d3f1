//! Plain download of the experiments: the client requests a number of bytes on a stream and counts the bytes
//! it receives.

use std::collections::{BTreeMap, VecDeque};

use anabranch_transport::stream::{ReadError, StreamEvent, WriteError};
use anabranch_transport::{Endpoint, Event, Handle};
use anabranch_wire::{Dir, PathId, StreamId, Time, VarInt};
use bytes::Bytes;

use super::{Application, Dial};

/// Maximum number of bytes that a server writes to a stream at once.
const PIECE: usize = 256 * 1024;
/// Length of the number of requested bytes, a big-endian integer at the start of a request.
const REQUEST: usize = 8;

/// Client that connects once and downloads.
#[derive(Debug)]
pub struct DownloadClient {
    /// The connection.
    pub dial: Dial,
    /// Sizes of the downloads that have not started.
    wanted: VecDeque<u64>,
    /// Number of bytes still missing on each stream.
    missing: BTreeMap<StreamId, u64>,
    /// Total number of bytes received.
    pub received: u64,
    /// Time at which the handshake completed.
    pub connected: Option<Time>,
    /// Time at which the last byte of the last download arrived.
    pub finished: Option<Time>,
    /// Error that ended the downloads or the connection; `None` if the client closed it.
    pub failure: Option<String>,
}

impl DownloadClient {
    /// Creates a client that downloads one stream for each of `sizes`, all simultaneously.
    pub fn new(dial: Dial, sizes: &[u64]) -> Self {
        Self {
            dial,
            wanted: sizes.iter().copied().collect(),
            missing: BTreeMap::new(),
            received: 0,
            connected: None,
            finished: None,
            failure: None,
        }
    }

    /// Returns whether all downloads have completed or failed.
    pub fn is_done(&self) -> bool {
        self.finished.is_some() || self.failure.is_some()
    }

    fn request(&mut self, endpoint: &mut Endpoint, handle: Handle) {
        let Some(connection) = endpoint.connection(handle) else { return };
        let streams = connection.streams();
        while let Some(&size) = self.wanted.front() {
            let Some(id) = streams.open(Dir::Bi) else { return };
            self.wanted.pop_front();
            let written = streams.write(id, &size.to_be_bytes());
            if written != Ok(REQUEST) || streams.finish(id).is_err() {
                self.failure = Some(format!("the request on stream {id} was not taken: {written:?}"));
            }
            self.missing.insert(id, size);
        }
    }

    fn read(&mut self, now: Time, endpoint: &mut Endpoint, handle: Handle, id: StreamId) {
        let Some(connection) = endpoint.connection(handle) else { return };
        let Some(missing) = self.missing.get_mut(&id) else { return };
        let streams = connection.streams();
        let end = loop {
            match streams.peek(id) {
                Ok(data) => {
                    let n = data.len();
                    self.received += n as u64;
                    *missing = missing.saturating_sub(n as u64);
                    if streams.consume(id, n).is_err() {
                        break ReadError::Closed;
                    }
                }
                Err(ReadError::Blocked) => return,
                Err(end) => break end,
            }
        };
        if end != ReadError::Finished || *missing > 0 {
            self.failure = Some(format!("stream {id}: {end} with {missing} bytes missing"));
        }
        self.missing.remove(&id);
        if self.missing.is_empty() && self.wanted.is_empty() {
            self.finished = Some(now);
            connection.close(now, VarInt::ZERO, Bytes::new());
        }
    }
}

impl Application for DownloadClient {
    fn start(&mut self, now: Time, endpoint: &mut Endpoint) {
        match self.dial.start(now, endpoint) {
            // The request is sent as early data if the server is known and early data is allowed.
            Ok(handle) => self.request(endpoint, handle),
            Err(failure) => self.failure = Some(failure),
        }
    }

    fn on_event(&mut self, now: Time, endpoint: &mut Endpoint, handle: Handle, event: Event) {
        match event {
            Event::Connected { .. } => {
                self.connected = Some(now);
                self.request(endpoint, handle);
            }
            Event::Stream(StreamEvent::Available(_)) => self.request(endpoint, handle),
            Event::Stream(StreamEvent::Readable(id)) => self.read(now, endpoint, handle, id),
            Event::Closed(error) if self.finished.is_none() => self.failure = Some(error.to_string()),
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

/// Server that answers each request with the requested number of zero bytes.
#[derive(Debug)]
pub struct DownloadServer {
    zeros: Bytes,
    requests: BTreeMap<(Handle, StreamId), Request>,
    /// Weights of the paths, by path ID.
    weights: Vec<u32>,
}

#[derive(Debug, Default)]
struct Request {
    head: Vec<u8>,
    /// `true` once the whole request has arrived, including any bytes after its head.
    complete: bool,
    /// Number of bytes still to be written; `None` until the head is complete.
    left: Option<u64>,
}

impl Default for DownloadServer {
    fn default() -> Self {
        Self { zeros: Bytes::from(vec![0; PIECE]), requests: BTreeMap::new(), weights: Vec::new() }
    }
}

impl DownloadServer {
    /// Sets the weights of every connection's paths, by path ID.
    pub fn with_weights(mut self, weights: Vec<u32>) -> Self {
        self.weights = weights;
        self
    }

    fn serve(&mut self, endpoint: &mut Endpoint, handle: Handle, id: StreamId) {
        let Some(connection) = endpoint.connection(handle) else { return };
        let streams = connection.streams();
        let request = self.requests.entry((handle, id)).or_default();
        while !request.complete {
            match streams.take(id, usize::MAX) {
                Ok(data) => {
                    let head = data.len().min(REQUEST - request.head.len());
                    request.head.extend_from_slice(&data[..head]);
                }
                Err(ReadError::Blocked) => return,
                Err(_) => request.complete = true,
            }
            request.left = request.head[..].try_into().ok().map(u64::from_be_bytes);
        }
        while let Some(left) = request.left.filter(|left| *left > 0) {
            let piece = left.min(PIECE as u64) as usize;
            match streams.write_bytes(id, &mut self.zeros.slice(..piece)) {
                Ok(n) => request.left = Some(left - n as u64),
                Err(WriteError::Blocked) => return,
                Err(_) => break,
            }
        }
        // Errors do not matter: the client has stopped the stream or closed the connection.
        let _ = streams.finish(id);
        self.requests.remove(&(handle, id));
    }
}

impl Application for DownloadServer {
    fn on_event(&mut self, _now: Time, endpoint: &mut Endpoint, handle: Handle, event: Event) {
        if let Some(connection) = endpoint.connection(handle) {
            for (path, weight) in (0..).map(PathId).zip(&self.weights) {
                // Paths that are not open yet get their weight when the event of their opening arrives.
                let _ = connection.set_path_weight(path, *weight);
            }
        }
        match event {
            Event::Stream(StreamEvent::Opened(dir)) => {
                while let Some(id) = endpoint.connection(handle).and_then(|open| open.streams().accept(dir)) {
                    self.serve(endpoint, handle, id);
                }
            }
            Event::Stream(StreamEvent::Readable(id) | StreamEvent::Writable(id))
                if self.requests.contains_key(&(handle, id)) =>
            {
                self.serve(endpoint, handle, id);
            }
            Event::Closed(_) => self.requests.retain(|(of, _), _| *of != handle),
            _ => {}
        }
    }
}
