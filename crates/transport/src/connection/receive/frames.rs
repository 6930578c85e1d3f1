//! Dispatch of the frames of an authentic packet to their owners (RFC 9000 §19).

use std::time::Duration;

use anabranch_wire::{Ack, Ecn, Frame, Frames, PacketKind, Stream, Time, TransportErrorCode};

use crate::acknowledge::AckRule;
use crate::connection::connection::Connection;
use crate::context::Context;
use crate::error::{TransportError, violation};
use crate::path::Response;

/// Maximum number of NEW_TOKEN tokens of one server that a client passes to the application. Each token
/// serves for one future connection. Further tokens are ignored, as RFC 9000 §8.1.3 permits.
pub(crate) const MAX_NEW_TOKENS: u64 = 16;

/// Properties of a packet that its frames determine.
#[derive(Clone, Copy, Debug)]
pub(in crate::connection) struct Seen {
    /// `true` if the packet is ack-eliciting.
    pub(in crate::connection) eliciting: bool,
    /// `true` if no frame but PING makes the packet ack-eliciting.
    pub(in crate::connection) pings: bool,
    /// `true` if the packet is a probing packet, so that it does not cause a migration.
    pub(in crate::connection) probing: bool,
}

impl Connection {
    /// Processes a packet's frames, and then schedules its acknowledgment.
    pub(in crate::connection) fn on_payload(
        &mut self,
        now: Time,
        context: &Context<'_>,
        ecn: Option<Ecn>,
        payload: &[u8],
    ) -> Result<(), TransportError> {
        match self.on_frames(now, context, payload)? {
            Some(seen) => self.after_frames(now, context, ecn, seen),
            None => Ok(()),
        }
    }

    /// Processes frames. Returns `None` if one of them ended the connection.
    pub(in crate::connection) fn on_frames(
        &mut self,
        now: Time,
        context: &Context<'_>,
        payload: &[u8],
    ) -> Result<Option<Seen>, TransportError> {
        let mut seen = Seen { eliciting: false, pings: true, probing: true };
        let mut frames = Frames::new(payload, context.direction);
        let streams_allowed = matches!(context.kind, PacketKind::OneRtt | PacketKind::ZeroRtt);
        loop {
            if streams_allowed && let Some(stream) = frames.next_stream() {
                seen = Seen { eliciting: true, pings: false, probing: false };
                self.on_stream(now, &stream).map_err(|error| error.in_frame(Frame::Stream(stream).kind()))?;
                continue;
            }
            let Some(frame) = frames.next() else { break };
            let frame = frame?;
            if !frame.allowed_in(context.kind) {
                // RFC 9000 §12.4
                return Err(violation("frame is not allowed in this packet").in_frame(frame.kind()));
            }
            seen.eliciting |= frame.is_ack_eliciting();
            seen.pings &= !frame.is_ack_eliciting() || matches!(frame, Frame::Ping);
            // With a single number space, PATH_STATUS frames count as probing, because they name the path
            // that is being probed.
            seen.probing &= frame.is_probing()
                || self.paths.numbering.is_single() && matches!(frame, Frame::PathStatus { .. });
            self.on_frame(now, context, &frame).map_err(|error| match error.frame_type {
                0 => error.in_frame(frame.kind()),
                _ => error,
            })?;
            if !self.state.is_active() {
                return Ok(None);
            }
        }
        Ok(Some(seen))
    }

    /// Applies the effects of a packet after all of its frames have been processed.
    pub(in crate::connection) fn after_frames(
        &mut self,
        now: Time,
        context: &Context<'_>,
        ecn: Option<Ecn>,
        seen: Seen,
    ) -> Result<(), TransportError> {
        match Self::level_index(context.space) {
            Some(index) => self.owe_ack_at(index, now, context, ecn, seen.eliciting),
            None => self.after_data_packet(now, context, ecn, seen),
        }
        if self.paths.numbering.is_single() {
            self.retire_lent(now)?;
        }
        if std::mem::take(&mut self.pending.issue_cids) {
            self.issue_cids();
        }
        Ok(())
    }

    /// Schedules the acknowledgment of an Initial or Handshake packet (RFC 9000 §13.1).
    fn owe_ack_at(
        &mut self,
        level: usize,
        now: Time,
        context: &Context<'_>,
        ecn: Option<Ecn>,
        eliciting: bool,
    ) {
        // RFC 9000 §13.2.1: Initial and Handshake packets are acknowledged at once.
        let policy = AckRule { threshold: 1, max_delay: Duration::ZERO, reordering_threshold: 1 };
        if self.keys.open(context.kind).is_some() {
            self.levels.get_mut(level).received.on_packet(now, context.number, eliciting, ecn, &policy);
        }
    }

    /// Schedules the acknowledgment of a 0-RTT or 1-RTT packet, and follows the peer if it has migrated.
    #[inline]
    fn after_data_packet(&mut self, now: Time, context: &Context<'_>, ecn: Option<Ecn>, seen: Seen) {
        let Some(path) = self.paths.list.get_mut(context.path) else { return };
        let mut rule = self.acks.rule(now, path, u64::from(seen.eliciting));
        if seen.eliciting && seen.pings && self.idle.rest.on_ping() {
            // No response of the application will carry the acknowledgment of a keep-alive, so it does not wait for one.
            rule.threshold = 1;
        }
        let number = context.number;
        let received = &mut path.received;
        self.paths.numbering.on_received(received, now, number..number + 1, seen.eliciting, ecn, &rule);
        let moved = Self::note_data_packet(now, path, context, seen.probing);
        if seen.eliciting {
            self.paths.on_path_lives(now, context.path);
        }
        self.count_together(context.path, rule.threshold);
        if let Some(moved) = moved.filter(|_| self.side.is_server() && !seen.probing) {
            self.follow_peer(now, context, moved);
        }
    }

    fn on_stream(&mut self, now: Time, stream: &Stream<'_>) -> Result<(), TransportError> {
        let rtt = self.paths.list.longest_rtt();
        self.streams.on_stream(now, rtt, stream)
    }

    fn on_frame(
        &mut self,
        now: Time,
        context: &Context<'_>,
        frame: &Frame<'_>,
    ) -> Result<(), TransportError> {
        match *frame {
            Frame::Padding(_) | Frame::Ping => {}
            Frame::Stream(ref stream) => self.on_stream(now, stream)?,
            Frame::Ack(ref ack) => self.on_ack(now, context, ack)?,
            Frame::Crypto { offset, data } => self.on_crypto(now, context.space, offset, data)?,
            Frame::Datagram { data } => {
                self.datagrams.on_frame(context.path, data)?;
                self.paths.on_message();
            }
            Frame::ResetStream { id, code, final_size } => {
                self.streams.on_reset_stream(id, code, final_size)?;
            }
            Frame::StopSending { id, code } => self.streams.on_stop_sending(id, code)?,
            Frame::MaxData(maximum) => self.streams.on_max_data(maximum),
            Frame::MaxStreamData { id, maximum } => self.streams.on_max_stream_data(id, maximum)?,
            Frame::MaxStreams { dir, maximum } => self.streams.on_max_streams(dir, maximum),
            Frame::DataBlocked(_) => self.streams.on_data_blocked(),
            Frame::StreamsBlocked { dir, .. } => self.streams.on_streams_blocked(dir),
            Frame::StreamDataBlocked { id, .. } => self.streams.on_stream_data_blocked(id)?,
            Frame::ConnectionClose(ref close) => self.on_peer_close(now, context.path, close),
            Frame::NewToken { token } => {
                self.pending.new_tokens_received += 1;
                if self.side.is_server() || self.pending.new_tokens_received <= MAX_NEW_TOKENS {
                    self.on_new_token(token)?;
                }
            }
            Frame::HandshakeDone => self.on_handshake_done(now)?,
            Frame::AckFrequency { sequence, threshold, max_ack_delay_us, reordering_threshold } => {
                self.on_ack_frequency(sequence, threshold, max_ack_delay_us, reordering_threshold)?;
            }
            Frame::ImmediateAck => {
                if let Some(path) = self.paths.list.get_mut(context.path) {
                    path.received.ack.require_ack();
                }
            }
            _ => self.on_path_frame(now, context, frame)?,
        }
        Ok(())
    }

    /// Handles frames about connection IDs and paths.
    fn on_path_frame(
        &mut self,
        now: Time,
        context: &Context<'_>,
        frame: &Frame<'_>,
    ) -> Result<(), TransportError> {
        match *frame {
            Frame::NewConnectionId(ref issued) if issued.path.is_none() && self.paths.multipath.is_none() => {
                if self.paths.list.main().remote_cids.active().is_empty() {
                    // RFC 9000 §19.15
                    return Err(violation("NEW_CONNECTION_ID from a peer without connection IDs"));
                }
                self.paths.list.main_mut().remote_cids.on_new(issued)?;
                self.collect_reset_tokens();
            }
            Frame::RetireConnectionId { path: None, sequence } if self.paths.multipath.is_none() => {
                let retired = self.paths.list.main_mut().local_cids.on_retire(sequence, context.dcid)?;
                if let Some(cid) = retired {
                    self.output.endpoint_events.push_back(crate::event::EndpointEvent::CidRetired(cid));
                    self.after_local_retire(anabranch_wire::PathId::ZERO, cid);
                }
                // New connection IDs are issued after the packet. Otherwise a packet full of
                // RETIRE_CONNECTION_ID frames would cause hundreds of them.
                self.pending.issue_cids = true;
            }
            Frame::PathChallenge(data) => {
                if let Some(path) = self.paths.list.get_mut(context.path) {
                    let elsewhere = path.tuple != *context.tuple;
                    // RFC 9000 §9.3.3: if an attacker forged a move of this endpoint, a non-probing packet
                    // makes the peer return to these addresses.
                    path.ping |= path.tuple == *context.tuple;
                    path.address.responses.push(Response {
                        tuple: *context.tuple,
                        data,
                        received: context.datagram_len,
                    });
                    if elsewhere {
                        self.paths.uncount_elsewhere(context.path, context.tuple, context.datagram_len);
                    }
                }
            }
            Frame::PathResponse(data) => self.on_path_response(now, context.path, data),
            Frame::AlternativeV4Address { flags, sequence, address } => {
                return self.on_alternative_address(address.into(), flags, sequence);
            }
            Frame::AlternativeV6Address { flags, sequence, address } => {
                return self.on_alternative_address(address.into(), flags, sequence);
            }
            _ => return self.on_multipath_frame(now, context, frame),
        }
        Ok(())
    }

    /// Replaces the path's `used_local_cid` by another connection ID if the peer has retired it. The peer's
    /// next packet shows the ID that it really uses.
    pub(in crate::connection) fn after_local_retire(
        &mut self,
        id: anabranch_wire::PathId,
        cid: anabranch_wire::ConnectionId,
    ) {
        let Some(path) = self.paths.list.get_mut(id) else { return };
        if path.used_local_cid == cid
            && let Some((_, other)) = path.local_cids.iter().next()
        {
            path.used_local_cid = other;
        }
    }

    fn on_handshake_done(&mut self, now: Time) -> Result<(), TransportError> {
        if self.side.is_server() {
            // RFC 9000 §19.20
            return Err(violation("HANDSHAKE_DONE from a client"));
        }
        if self.handshake.progress.complete {
            self.confirm(now);
        }
        Ok(())
    }

    fn on_ack(&mut self, now: Time, context: &Context<'_>, ack: &Ack<'_>) -> Result<(), TransportError> {
        if let Some(path) = ack.path {
            let multipath = self.paths.multipath.as_ref();
            let multipath = multipath.ok_or_else(|| violation("multipath frame without negotiation"))?;
            multipath.check(self.side, path)?;
            if self.paths.numbering.is_single() {
                return Err(violation("PATH_ACK although all paths share their packet numbers"));
            }
            if self.paths.list.get(path).is_none() && !multipath.is_used_up(path) {
                return Err(violation("acknowledgment for a path that was never open"));
            }
        }
        self.on_ack_frame(now, context, ack)
    }

    /// Returns the error for an ACK of packets that were never sent. The peer is faulty or an attacker (RFC
    /// 9000 §13.1, §21.4).
    pub(in crate::connection) fn optimistic_ack(error: anabranch_recovery::AckError) -> TransportError {
        TransportError::new(TransportErrorCode::PROTOCOL_VIOLATION, error.to_string())
    }
}
