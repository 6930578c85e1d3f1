//! Control frames: settings, priorities, and the end of a connection in good order (RFC 9114 §5.2, §7.2).

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

/// Priorities that are kept for requests still to come.
const MAX_EARLY_PRIORITIES: usize = 128;
/// Number that selects the reserved identifiers sent for peers to ignore.
const GREASE: u64 = 0xa7a;
/// The largest ID of a request stream: what a server names while it does not know yet which one will be the
/// last.
const LAST_REQUEST: StreamId = StreamId::from_u64(MAX_VARINT - 3);

/// Returns the first bytes of our control stream: its type, SETTINGS, and a reserved frame for the peer to
/// ignore.
pub(super) fn preface(settings: &Settings, grease: bool) -> Vec<u8> {
    let mut out = vec![StreamType::CONTROL.0];
    settings.encode_frame(grease.then_some(GREASE), &mut out);
    if grease {
        write_header(FrameType(reserved(GREASE + 1)), 0, &mut out);
    }
    out
}

impl Session {
    /// Returns the settings of this end.
    pub(super) fn local_settings(&self) -> Settings {
        let config = &self.config;
        Settings {
            qpack_max_table_capacity: config.qpack_max_table_capacity,
            qpack_blocked_streams: config.qpack_blocked_streams,
            max_field_section_size: Some(config.max_field_section_size),
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
                // The client names a push; there are none, but the number may only fall.
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

    /// Handles the server's GOAWAY: requests from `id` on are not processed (RFC 9114 §5.2).
    fn on_server_goaway(&mut self, streams: &mut Streams, id: u64) -> Result<(), Error> {
        if !id.is_multiple_of(4) {
            return Err(Error::new(Code::ID_ERROR, "GOAWAY does not name a request"));
        }
        // An earlier GOAWAY has rejected the later ones: however many come, each request is looked at once.
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
                let code = Code::REQUEST_CANCELLED.get();
                // Either half may be over.
                let _ = (streams.stop(rejected, code), streams.reset(rejected, code));
                self.events.push_back(Event::Failed(rejected));
            }
            rejected = StreamId::from_u64(rejected.as_u64() + 4);
        }
        Ok(())
    }

    /// Handles a client's change of a request's priority (RFC 9218 §7).
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

    /// Sets the order in which this end sends what belongs to requests; a client tells the server, which
    /// decides the order of the responses (RFC 9218).
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

    /// Tells the peer that this connection will end soon, so that it begins nothing new on it. Requests that
    /// are under way or come nevertheless are served until [`Self::shutdown`].
    pub fn announce_shutdown(&mut self, streams: &mut Streams) {
        if self.goaway_sent.is_none() {
            self.go_away(streams, LAST_REQUEST);
        }
    }

    /// Takes no more requests, and tells the peer which ones those are. Call it a round trip after
    /// [`Self::announce_shutdown`]; [`Self::open_requests`] tells when all are over.
    pub fn shutdown(&mut self, streams: &mut Streams) {
        let first = self.next_request;
        if self.goaway_sent.is_none_or(|sent| first < sent) {
            self.go_away(streams, first);
        }
    }

    /// Returns whether the peer has announced that it takes, or makes, no requests from now on.
    pub fn is_going_away(&self) -> bool {
        self.goaway_received.is_some()
    }

    fn go_away(&mut self, streams: &mut Streams, first: StreamId) {
        self.goaway_sent = Some(first);
        // A client names the first push that it does not take.
        let id = if self.side.is_server() { first.as_u64() } else { 0 };
        self.send_control(streams, &ControlFrame::GoAway(id));
    }

    fn send_control(&mut self, streams: &mut Streams, frame: &ControlFrame) {
        let result = self.unidirectional.send(streams, &mut self.qpack, frame);
        self.note(result);
    }
}
