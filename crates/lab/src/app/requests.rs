//! Small requests of the handover experiment, sent at fixed intervals, each on its own stream.

use core::time::Duration;

use anabranch_transport::stream::{ReadError, StreamEvent};
use anabranch_transport::{Connection, Endpoint, Event, Handle};
use anabranch_wire::{Dir, StreamId, Time};

use super::{Application, Dial};

/// Times of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestTimes {
    /// Time at which the client wrote the request to the transport.
    pub made: Time,
    /// Time at which the first byte of the response could be read.
    pub begun: Option<Time>,
    /// Time at which the last byte of the response arrived.
    pub answered: Option<Time>,
    id: StreamId,
}

/// Client that connects once and then sends requests at fixed intervals, regardless of outstanding responses.
#[derive(Debug)]
pub struct RequestClient {
    /// The connection.
    pub dial: Dial,
    /// Numbers of bytes of a request and of its response.
    sizes: [u64; 2],
    every: Duration,
    count: usize,
    /// Time of the next request.
    next: Option<Time>,
    /// Requests made so far.
    pub requests: Vec<RequestTimes>,
    /// Time at which the handshake completed and the first request was sent.
    pub connected: Option<Time>,
    /// Error that ended the requests or the connection.
    pub failure: Option<String>,
}

impl RequestClient {
    /// Creates a client that sends `count` requests of `sizes[0]` bytes (at least eight), one per interval
    /// `every`. Each response has `sizes[1]` bytes.
    pub fn new(dial: Dial, sizes: [u64; 2], every: Duration, count: u32) -> Self {
        Self {
            dial,
            sizes,
            every,
            count: count as usize,
            next: None,
            requests: Vec::new(),
            connected: None,
            failure: None,
        }
    }

    /// Returns whether all requests have been answered or the client has failed.
    pub fn is_done(&self) -> bool {
        let answered = self.requests.iter().all(|request| request.answered.is_some());
        self.failure.is_some() || self.requests.len() == self.count && answered
    }

    fn ask(&mut self, now: Time, connection: &mut Connection) {
        let streams = connection.streams();
        let Some(id) = streams.open(Dir::Bi) else {
            self.failure = Some("no stream could be opened".to_owned());
            return;
        };
        let mut request = self.sizes[1].to_be_bytes().to_vec();
        request.resize(request.len().max(self.sizes[0] as usize), 0);
        let written = streams.write(id, &request);
        if written != Ok(request.len()) || streams.finish(id).is_err() {
            self.failure = Some(format!("the request on stream {id} was not taken: {written:?}"));
        }
        self.requests.push(RequestTimes { made: now, begun: None, answered: None, id });
    }

    fn read(&mut self, now: Time, connection: &mut Connection, id: StreamId) {
        let Some(request) = self.requests.iter_mut().find(|request| request.id == id) else { return };
        let end = loop {
            match connection.streams().take(id, usize::MAX) {
                Ok(_) => request.begun = request.begun.or(Some(now)),
                Err(ReadError::Blocked) => return,
                Err(end) => break end,
            }
        };
        match end {
            ReadError::Finished => request.answered = request.answered.or(Some(now)),
            end => self.failure = Some(format!("stream {id}: {end}")),
        }
    }
}

impl Application for RequestClient {
    fn start(&mut self, now: Time, endpoint: &mut Endpoint) {
        self.failure = self.dial.start(now, endpoint).err();
    }

    fn on_event(&mut self, now: Time, endpoint: &mut Endpoint, handle: Handle, event: Event) {
        match event {
            Event::Connected { .. } => {
                self.connected = Some(now);
                self.next = (self.count > 0).then_some(now);
            }
            Event::Stream(StreamEvent::Readable(id)) => {
                if let Some(connection) = endpoint.connection(handle) {
                    self.read(now, connection, id);
                }
            }
            Event::Closed(error) => self.failure = Some(error.to_string()),
            _ => {}
        }
        self.on_time(now, endpoint);
    }

    fn next_time(&self) -> Option<Time> {
        [self.dial.next_time(), self.next].into_iter().flatten().min()
    }

    fn on_time(&mut self, now: Time, endpoint: &mut Endpoint) {
        self.dial.on_time(now, endpoint);
        let Some(connection) = self.dial.connection(endpoint) else { return };
        if let Some(at) = self.next.filter(|at| *at <= now && self.failure.is_none()) {
            self.ask(now, connection);
            self.next = (self.requests.len() < self.count).then(|| at + self.every);
        }
    }
}
