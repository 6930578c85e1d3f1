//! HTTP/3 connection (RFC 9114) over the streams of a transport connection.
//!
//! A [`Session`] does not own the transport connection. Each call borrows the connection's [`Streams`] or
//! [`Datagrams`], and the owner passes every [`StreamEvent`] to [`Session::on_event`]. The session reads with
//! `peek`, `consume` and `take`. Content therefore stays in the transport's buffers, subject to its flow
//! control, until the application reads it.

mod control;
mod datagram;
mod expiry;
mod heads;
mod incoming;
mod outgoing;
mod qpack;
mod reading;
mod request;
mod requests;
mod types;
mod unidirectional;
mod writing;

use std::collections::{BTreeMap, VecDeque};

use anabranch_transport::stream::{StreamEvent, Streams};
use anabranch_wire::{Dir, Side, StreamId, Time};

use self::qpack::Qpack;
use self::requests::Requests;
pub use self::types::{Event, ReadError, RequestError, WriteError};
use self::unidirectional::Unidirectional;
use crate::config::Config;
use crate::error::{Code, Error};
use crate::priority::Priority;
use crate::settings::Settings;
use crate::trace::{Observer, TraceEvent};

/// Maximum count of requests that the peer cancelled or made invalid before the server responded. Each
/// response reduces the count by one (CVE-2023-44487, CVE-2025-8671).
const MAX_EARLY_RESETS: u32 = 1_000;

/// HTTP/3 connection.
///
/// After each call, the owner must drain [`Self::poll_event`] and check [`Self::take_fault`]. If
/// [`Self::take_fault`] returns an error, the owner must close the connection with that error.
#[derive(Debug)]
pub struct Session {
    side: Side,
    config: Config,
    peer_settings: Option<Settings>,
    /// First bytes of our control stream.
    preface: Vec<u8>,
    unidirectional: Unidirectional,
    qpack: Qpack,
    requests: Requests,
    /// Server: requests that the application has not accepted yet.
    ready: VecDeque<(StreamId, http::request::Parts)>,
    /// Server: priorities of requests that have not arrived yet.
    early_priorities: BTreeMap<StreamId, Priority>,
    /// Lowest request ID that has not been used yet.
    next_request: StreamId,
    /// Server: first request whose header section may be missing. Earlier requests have their header section
    /// or no longer exist.
    heads_expected: StreamId,
    /// ID of the first request that a server rejects after it has sent GOAWAY. `None` if this endpoint has
    /// not sent GOAWAY.
    goaway_sent: Option<StreamId>,
    /// ID in the peer's last GOAWAY. A server does not process requests from this ID on.
    goaway_received: Option<u64>,
    max_push_id: Option<u64>,
    /// Memory of the received datagrams that are queued, in bytes.
    waiting_bytes: usize,
    early_resets: u32,
    events: VecDeque<Event>,
    fault: Option<Error>,
    /// Buffer that is reused for every message that is sent.
    scratch: Vec<u8>,
}

impl Session {
    /// Creates a session that has not sent anything yet.
    pub fn new(side: Side, config: Config) -> Self {
        Self {
            side,
            qpack: Qpack::new(&config),
            config,
            peer_settings: None,
            preface: Vec::new(),
            unidirectional: Unidirectional::default(),
            requests: Requests::default(),
            ready: VecDeque::new(),
            early_priorities: BTreeMap::new(),
            next_request: StreamId::from_u64(0),
            heads_expected: StreamId::from_u64(0),
            goaway_sent: None,
            goaway_received: None,
            max_push_id: None,
            waiting_bytes: 0,
            early_resets: 0,
            events: VecDeque::new(),
            fault: None,
            scratch: Vec::new(),
        }
    }

    /// Sets the observer of the session's events. Their time is set by [`Self::set_time`].
    pub fn set_observer(&mut self, observer: Box<dyn Observer>) {
        self.qpack.trace.set_observer(observer);
    }

    /// Returns whether an observer is set, so that calls of [`Self::set_time`] have an effect.
    pub fn is_observed(&self) -> bool {
        self.qpack.trace.is_on()
    }

    /// Sets the time of the next events for the observer.
    pub fn set_time(&mut self, now: Time) {
        self.qpack.trace.set_time(now);
    }

    /// Starts the session: opens this endpoint's unidirectional streams, and handles streams that the peer
    /// has already opened. A client that sends early data may call this before the handshake is complete.
    pub fn start(&mut self, streams: &mut Streams) {
        let settings = self.local_settings();
        self.qpack.trace.event(&TraceEvent::Parameters { local: true, settings: &settings });
        self.preface = control::preface(&settings, self.config.grease);
        self.unidirectional.open(streams, &mut self.qpack, &self.preface);
        self.on_event(streams, StreamEvent::Opened(Dir::Uni));
        if self.side.is_server() {
            self.on_event(streams, StreamEvent::Opened(Dir::Bi));
        }
    }

    /// Handles an event of the transport's streams.
    pub fn on_event(&mut self, streams: &mut Streams, event: StreamEvent) {
        let result = match event {
            StreamEvent::Opened(Dir::Uni) => self.on_uni_opened(streams),
            StreamEvent::Opened(Dir::Bi) => self.on_bi_opened(streams),
            StreamEvent::Readable(id) if id.dir() == Dir::Uni => self.on_uni_readable(streams, id),
            StreamEvent::Readable(id) => {
                self.on_request_readable(streams, id);
                Ok(())
            }
            StreamEvent::Writable(id) if id.dir() == Dir::Uni => {
                self.unidirectional.on_writable(streams, &mut self.qpack, id)
            }
            StreamEvent::Writable(id) => {
                self.on_request_writable(streams, id);
                Ok(())
            }
            StreamEvent::Stopped(id, _) if id.dir() == Dir::Uni => {
                self.unidirectional.on_stopped(&self.qpack, id)
            }
            StreamEvent::Stopped(id, code) => {
                self.on_request_stopped(streams, id, Code::from(code));
                Ok(())
            }
            StreamEvent::Available(Dir::Uni) => {
                self.unidirectional.open(streams, &mut self.qpack, &self.preface);
                Ok(())
            }
            StreamEvent::Available(Dir::Bi) => {
                self.events.push_back(Event::Available);
                Ok(())
            }
            _ => Ok(()),
        };
        let result = result.and_then(|()| self.qpack.flush_decoder_if_due(streams));
        self.note(result);
    }

    fn on_uni_opened(&mut self, streams: &mut Streams) -> Result<(), Error> {
        while let Some(id) = streams.accept(Dir::Uni) {
            self.unidirectional.on_opened(id);
            self.on_uni_readable(streams, id)?;
        }
        Ok(())
    }

    fn on_uni_readable(&mut self, streams: &mut Streams, id: StreamId) -> Result<(), Error> {
        let is_server = self.side.is_server();
        while let Some(frame) = self.unidirectional.read(streams, &mut self.qpack, id, is_server)? {
            self.on_control(streams, frame)?;
        }
        while let Some(id) = self.qpack.take_unblocked() {
            self.on_request_readable(streams, id);
        }
        Ok(())
    }

    fn on_bi_opened(&mut self, streams: &mut Streams) -> Result<(), Error> {
        while let Some(id) = streams.accept(Dir::Bi) {
            if self.side.is_client() {
                return Err(Error::new(Code::STREAM_CREATION_ERROR, "a bidirectional stream of the server"));
            }
            self.on_request_opened(streams, id);
        }
        Ok(())
    }

    /// Removes and returns the oldest event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Removes and returns the error with which the connection must be closed.
    pub fn take_fault(&mut self) -> Option<Error> {
        self.fault.take()
    }

    /// Returns the peer's SETTINGS; `None` until they arrive.
    pub fn peer_settings(&self) -> Option<&Settings> {
        self.peer_settings.as_ref()
    }

    /// Returns the number of open requests, accepted or not.
    pub fn open_requests(&self) -> usize {
        self.requests.len()
    }

    /// Stores the error of `result`, unless an earlier error is stored.
    fn note(&mut self, result: Result<(), Error>) {
        if let Err(error) = result {
            self.fault.get_or_insert(error);
        }
    }
}
