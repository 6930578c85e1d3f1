//! Control frames: settings, priorities and the graceful shutdown of a connection (RFC 9114 §5.2, §7.2).

use anabranch_transport::stream::Streams;
use anabranch_wire::{Dir, MAX_VARINT, Side, StreamId};

use super::Session;
use super::outgoing::Sending;
use super::types::{Event, ReadError};
use crate::error::{Code, Error};
use crate::frame::{ControlFrame, FrameType, write_header};
use crate::priority::Priority;
use crate::settings::Settings;
use crate::stream_type::{StreamType, reserved};
use crate::trace::TraceEvent;

/// Maximum number of priorities that are stored for requests that have not arrived yet.
const MAX_EARLY_PRIORITIES: usize = 128;
/// Number that selects the reserved identifiers that peers must ignore.
const GREASE: u64 = 0xa7a;
/// Largest ID of a request stream. A server announces it in GOAWAY while its last request is not known yet
/// (RFC 9114 §5.2).
const LAST_REQUEST: StreamId = StreamId::from_u64(MAX_VARINT - 3);

/// Returns the first bytes of our control stream: the stream type, SETTINGS, and with `grease` a frame of a
/// reserved type.
pub(super) fn preface(settings: &Settings, grease: bool) -> Vec<u8> {
    let mut out = vec![StreamType::CONTROL.0];
    settings.encode_frame(grease.then_some(GREASE), &mut out);
    if grease {
        write_header(FrameType(reserved(GREASE + 1)), 0, &mut out);
    }
    out
}

impl Session {
    /// Returns the settings that this endpoint announces.
    pub(super) fn local_settings(&self) -> Settings {
        let config = &self.config;
        Settings {
            qpack_max_table_capacity: config.qpack_max_table_capacity,
            qpack_blocked_streams: config.qpack_blocked_streams,
            max_field_section_size: Some(config.max_field_section_size.min(MAX_VARINT)),
            enable_connect_protocol: config.enable_connect_protocol && self.side.is_server(),
            h3_datagram: config.h3_datagram,
        }
    }

    /// Handles a frame of the peer's control stream.
    pub(super) fn on_control(&mut self, streams: &mut Streams, frame: ControlFrame) -> Result<(), Error> {
        match (frame, self.side) {
            (ControlFrame::Settings(settings), _) => self.on_settings(streams, settings),
            (ControlFrame::GoAway(id), Side::Client) => return self.on_server_goaway(streams, id),
            (ControlFrame::GoAway(id), Side::Server) => {
                // A client's GOAWAY names a push. Nothing is ever pushed, but the ID must not increase.
                self.note_goaway(id)?;
            }
            (ControlFrame::CancelPush(_), _) => {
                return Err(Error::new(Code::ID_ERROR, "CANCEL_PUSH although nothing is pushed"));
            }
            (ControlFrame::MaxPushId(id), Side::Server) => {
                if self.max_push_id.is_some_and(|before| id < before) {
                    return Err(Error::new(Code::ID_ERROR, "MAX_PUSH_ID became smaller"));
                }
                self.max_push_id = Some(id);
            }
            (ControlFrame::PriorityUpdate { push: false, element, priority }, Side::Server) => {
                return self.on_priority(streams, element, priority);
            }
            (ControlFrame::PriorityUpdate { push: true, .. }, Side::Server) => {
                return Err(Error::new(Code::ID_ERROR, "a priority for a push although nothing is pushed"));
            }
            (ControlFrame::MaxPushId(_) | ControlFrame::PriorityUpdate { .. }, Side::Client) => {
                return Err(Error::new(Code::FRAME_UNEXPECTED, "a frame that only clients send"));
            }
        }
        Ok(())
    }

    fn on_settings(&mut self, streams: &mut Streams, settings: Settings) {
        self.qpack.trace.event(&TraceEvent::Parameters { local: false, settings: &settings });
        self.qpack.on_settings(streams, &settings);
        self.peer_settings = Some(settings);
        self.events.push_back(Event::Settings);
    }

    fn note_goaway(&mut self, id: u64) -> Result<(), Error> {
        match self.goaway_received.replace(id) {
            None => self.events.push_back(Event::GoingAway),
            Some(before) if id > before => {
                return Err(Error::new(Code::ID_ERROR, "GOAWAY with a larger identifier than before"));
            }
            Some(_) => {}
        }
        Ok(())
    }

    /// Handles the server's GOAWAY: the server does not process requests from `id` on (RFC 9114 §5.2).
    fn on_server_goaway(&mut self, streams: &mut Streams, id: u64) -> Result<(), Error> {
        if !id.is_multiple_of(4) {
            return Err(Error::new(Code::ID_ERROR, "GOAWAY does not name a request"));
        }
        // Requests beyond an earlier GOAWAY are rejected already. Each request is therefore visited only
        // once, regardless of the number of GOAWAY frames.
        let end = self
            .goaway_received
            .map_or(self.next_request, |before| self.next_request.min(StreamId::from_u64(before)));
        self.note_goaway(id)?;
        let mut rejected = StreamId::from_u64(id);
        while rejected < end {
            if let Some(request) = self.requests.get_mut(&rejected)
                && request.incoming.end.is_none()
            {
                request.incoming.abandon(&mut self.qpack, rejected, ReadError::Rejected);
                request.outgoing.abandon();
                let code = Code::REQUEST_CANCELLED.into();
                // Either half of the stream may be closed already.
                let _ = (streams.stop(rejected, code), streams.reset(rejected, code));
                self.events.push_back(Event::Failed(rejected));
            }
            rejected = StreamId::from_u64(rejected.as_u64() + 4);
        }
        Ok(())
    }

    /// Handles a client's PRIORITY_UPDATE for a request (RFC 9218 §7).
    fn on_priority(&mut self, streams: &mut Streams, element: u64, priority: Priority) -> Result<(), Error> {
        let id = StreamId::from_u64(element);
        if !element.is_multiple_of(4) || element / 4 >= streams.remote_limit(Dir::Bi) {
            return Err(Error::new(Code::ID_ERROR, "a priority for what cannot be a request"));
        }
        if let Some(request) = self.requests.get_mut(&id) {
            request.priority = Some(priority);
            self.qpack.trace.event(&TraceEvent::PriorityUpdated { id, priority });
            streams.set_priority(id, priority.into());
        } else if id >= self.next_request
            && (self.early_priorities.len() < MAX_EARLY_PRIORITIES || self.early_priorities.contains_key(&id))
        {
            self.early_priorities.insert(id, priority);
        }
        Ok(())
    }

    /// Sets a request's priority: the order in which this endpoint sends the data of its requests. A client
    /// also sends PRIORITY_UPDATE, because the server decides the order of the responses (RFC 9218).
    pub fn set_priority(&mut self, streams: &mut Streams, id: StreamId, priority: Priority) {
        let Some(request) = self.requests.get(&id) else { return };
        self.qpack.trace.event(&TraceEvent::PriorityUpdated { id, priority });
        if request.outgoing.state != Sending::Over {
            streams.set_priority(id, priority.into());
        }
        if self.side.is_client() {
            let frame = ControlFrame::PriorityUpdate { push: false, element: id.as_u64(), priority };
            self.send_control(streams, &frame);
        }
    }

    /// Announces to the peer that the connection will be shut down, so that it makes no new requests.
    /// Requests in progress, and those that still arrive, are served until [`Self::shutdown`].
    pub fn announce_shutdown(&mut self, streams: &mut Streams) {
        if self.goaway_sent.is_none() {
            self.go_away(streams, LAST_REQUEST);
        }
    }

    /// Stops accepting requests, and sends the ID of the first request that is rejected (GOAWAY). Call it one
    /// round trip after [`Self::announce_shutdown`]. All requests are complete when [`Self::open_requests`]
    /// returns 0.
    pub fn shutdown(&mut self, streams: &mut Streams) {
        let first = self.next_request;
        if self.goaway_sent.is_none_or(|sent| first < sent) {
            self.go_away(streams, first);
        }
    }

    /// Returns whether the peer has sent GOAWAY. After it, a server accepts no further requests, and a client
    /// makes no further requests.
    pub fn is_going_away(&self) -> bool {
        self.goaway_received.is_some()
    }

    fn go_away(&mut self, streams: &mut Streams, first: StreamId) {
        self.goaway_sent = Some(first);
        // A client names the first push that it does not accept.
        let id = if self.side.is_server() { first.as_u64() } else { 0 };
        self.send_control(streams, &ControlFrame::GoAway(id));
    }

    fn send_control(&mut self, streams: &mut Streams, frame: &ControlFrame) {
        let result = self.unidirectional.send(streams, &mut self.qpack, frame);
        self.note(result);
    }
}
