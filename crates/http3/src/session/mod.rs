//! One HTTP/3 connection (RFC 9114) over the streams of a transport connection.
//!
//! A [`Session`] stands beside a transport connection and never owns it: each call is lent the connection's
//! [`Streams`] or [`Datagrams`], and whoever drives the connection hands every [`StreamEvent`] to
//! [`Session::on_event`]. What the session reads it reads with `peek`, `consume` and `take`, so that bodies
//! stay where the transport put them, and under its flow control, until the application asks for them.

mod control;
mod datagram;
mod expiry;
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

/// Requests that the peer may give up or spoil before they were answered, beyond those that were answered
/// (CVE-2023-44487, CVE-2025-8671).
const MAX_EARLY_RESETS: u32 = 1_000;

/// One HTTP/3 connection.
///
/// After any call, look at [`Self::take_fault`]: if it gives something, the connection is to be closed with
/// that; and drain [`Self::poll_event`].
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
    /// Server: requests to be accepted.
    ready: VecDeque<(StreamId, http::request::Parts)>,
    /// Server: priorities of requests that are still to come.
    early_priorities: BTreeMap<StreamId, Priority>,
    /// The lowest request ID that was not seen yet.
    next_request: StreamId,
    /// Server: requests below have their heads, or are gone.
    heads_expected: StreamId,
    /// Requests from this one on are not taken any longer.
    goaway_sent: Option<StreamId>,
    /// Requests from this one on are not taken by the peer.
    goaway_received: Option<u64>,
    max_push_id: Option<u64>,
    /// Cost of the datagrams that wait to be taken.
    waiting_bytes: usize,
    early_resets: u32,
    events: VecDeque<Event>,
    fault: Option<Error>,
    /// Reused for every message that is sent.
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

    /// Has everything that happens told to `observer`. For the time of what follows see [`Self::set_time`].
    pub fn set_observer(&mut self, observer: Box<dyn Observer>) {
        self.qpack.trace.set_observer(observer);
    }

    /// Returns whether there is an observer, so that [`Self::set_time`] matters.
    pub fn is_observed(&self) -> bool {
        self.qpack.trace.is_on()
    }

    /// Sets the time of the events that the observer sees next.
    pub fn set_time(&mut self, now: Time) {
        self.qpack.trace.set_time(now);
    }

    /// Starts the session: opens this end's streams and takes those that the peer has opened already. A
    /// client may call this before the handshake is complete if it sends early data.
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

    /// Takes over an event of the transport's streams.
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
                self.on_request_stopped(streams, id, Code::from_peer(code));
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
            StreamEvent::Finished(_) | StreamEvent::ResetAcknowledged(_) => Ok(()),
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

    /// Takes the next event, oldest first.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Takes the peer's fault over which the connection is to be closed; it is returned only once.
    pub fn take_fault(&mut self) -> Option<Error> {
        self.fault.take()
    }

    /// Returns the peer's SETTINGS, once they have arrived.
    pub fn peer_settings(&self) -> Option<&Settings> {
        self.peer_settings.as_ref()
    }

    /// Requests that are not over, accepted or not.
    pub fn open_requests(&self) -> usize {
        self.requests.len()
    }

    /// Keeps the first fault.
    fn note(&mut self, result: Result<(), Error>) {
        if let Err(error) = result {
            self.fault.get_or_insert(error);
        }
    }
}
