//! Handling of ACK frames, and preparation of probes (RFC 9002). The owners of a packet's frames are notified
//! when the packet is acknowledged or lost, or when a probe repeats the frames.

use std::time::Duration;

use anabranch_recovery::{AckInfo, Controller as _, Measures, Outcome};
use anabranch_wire::{Ack, PathId, SpaceId, Time};

use crate::connection::connection::Connection;
use crate::context::Context;
use crate::error::TransportError;
use crate::space::Receipt;
use crate::token::{Token, Tokens};
use crate::trace::TraceEvent;

/// Maximum number of packets whose frames a probe repeats, oldest first.
const PROBED_PACKETS: usize = 2;

/// Fate of a sent frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Acknowledgment of the frame's packet, at this time.
    Acked(Time),
    /// Loss of the frame's packet, or a decision to send the frame's content again as if the packet had been
    /// lost.
    Lost,
}

impl Connection {
    pub(super) fn on_ack_frame(
        &mut self,
        now: Time,
        context: &Context<'_>,
        ack: &Ack<'_>,
    ) -> Result<(), TransportError> {
        if self.is_discarded(context.space) {
            return Ok(());
        }
        let mut outcome = std::mem::take(&mut self.outcome);
        let result = match Self::level_index(context.space) {
            Some(index) => {
                let path = self.paths.list.main_mut();
                let info = AckInfo { ecn: ack.ecn, measures: Measures::Largest, ..AckInfo::default() };
                let result = path.recovery.on_ack(now, context.space, ack.ranges(), info, &[], &mut outcome);
                if result.is_ok() {
                    let level = self.levels.get_mut(index);
                    level.largest_acked = level.largest_acked.max(Some(ack.largest));
                }
                result.map(|()| PathId::ZERO)
            }
            None => {
                let Some(id) = self.paths.numbering.acked_path(ack.path) else {
                    self.outcome = outcome;
                    return self.on_shared_ack(now, context, ack);
                };
                let (via, measures) = match self.config.ack.mixed_round_trips.unwrap_or(false) {
                    true => (id, Measures::Newest),
                    false => (context.path, Measures::Largest),
                };
                let delay = self.ack_delay(ack.delay);
                let info = AckInfo {
                    delay,
                    ecn: ack.ecn,
                    ecn_is_shared: false,
                    via,
                    measures,
                    ..AckInfo::default()
                };
                let siblings = self.paths.siblings(id);
                let Some(path) = self.paths.list.get_mut(id) else {
                    self.outcome = outcome;
                    return Ok(());
                };
                let result =
                    path.recovery.on_ack(now, context.space, ack.ranges(), info, &siblings, &mut outcome);
                if result.is_ok() {
                    self.paths.numbering.on_acked(id, ack.largest);
                }
                result.map(|()| id)
            }
        };
        let processed = match result {
            Ok(path) => {
                if context.space == SpaceId::Data && !outcome.acked.is_empty() {
                    self.paths.on_path_acked(now, path, context.path);
                }
                self.apply_outcome(now, context.space, path, &mut outcome);
                if context.space == SpaceId::Handshake {
                    self.set_progress();
                }
                Ok(())
            }
            Err(error) => Err(Self::optimistic_ack(error)),
        };
        outcome.clear();
        self.outcome = outcome;
        processed
    }

    /// Returns the ACK Delay field as a duration (RFC 9000 §19.3).
    pub(super) fn ack_delay(&self, raw: u64) -> Duration {
        let exponent =
            self.handshake.peer_parameters.as_ref().map_or(3, |parameters| parameters.ack_delay_exponent);
        Duration::from_micros(raw.checked_shl(exponent as u32).unwrap_or(u64::MAX).min(1 << 40))
    }

    /// Notifies the owners of the acknowledged and the lost frames in `outcome`, and removes the packets of
    /// these frames from `outcome`.
    pub(super) fn apply_outcome(
        &mut self,
        now: Time,
        space: SpaceId,
        path: PathId,
        outcome: &mut Outcome<Tokens>,
    ) {
        if self.output.observer.is_some() {
            self.trace_outcome(now, space, path, outcome);
        }
        let progress = space == SpaceId::Data && !outcome.acked.is_empty();
        let phase_start = self.paths.list.get(path).map_or(u64::MAX, |path| path.numbers.phase_start);
        for (order, sent) in outcome.acked.drain(..) {
            if space == SpaceId::Data
                && order >= phase_start
                && let Some(keys) = &mut self.keys.one_rtt
            {
                keys.on_acked();
            }
            for token in &sent.owed {
                self.on_token(token, Fate::Acked(now));
            }
        }
        let moved = if space == SpaceId::Data { self.paths.moved_before(path) } else { 0 };
        for (_, sent) in outcome.lost.drain(..).filter(|(order, _)| *order >= moved) {
            for token in &sent.owed {
                self.on_token(token, Fate::Lost);
            }
            self.paths.repeat_again(now, &sent.owed);
        }
        if progress {
            self.review_ack_frequency();
        }
    }

    fn trace_outcome(&mut self, now: Time, space: SpaceId, path: PathId, outcome: &Outcome<Tokens>) {
        for (order, _) in &outcome.acked {
            let number = self.paths.numbering.number_of(path, *order);
            self.trace(now, &TraceEvent::PacketAcked { space, path, number });
        }
        for (order, _) in &outcome.lost {
            let number = self.paths.numbering.number_of(path, *order);
            self.trace(now, &TraceEvent::PacketLost { space, path, number });
        }
        if !outcome.spurious.is_empty() {
            let packets = outcome.spurious.len() as u64;
            self.trace(now, &TraceEvent::SpuriousLoss { path, packets });
        }
        if let Some(mtu) = outcome.mtu_changed {
            self.trace(now, &TraceEvent::MtuChanged { path, mtu });
        }
        if outcome.ecn_failed {
            self.trace(now, &TraceEvent::EcnState { path, capable: false });
        }
        self.trace_metrics(now, path);
    }

    pub(super) fn trace_metrics(&mut self, now: Time, id: PathId) {
        let Some(path) = self.paths.list.get_mut(id).filter(|_| self.output.observer.is_some()) else {
            return;
        };
        let state = path.recovery.congestion().state();
        let changed = path.traced.congestion.replace(state) != Some(state);
        let recovery = &path.recovery;
        let rtt = recovery.rtt();
        let metrics = TraceEvent::Metrics {
            path: id,
            min_rtt: rtt.min(),
            smoothed_rtt: rtt.smoothed(),
            latest_rtt: rtt.latest(),
            rtt_variance: rtt.variance(),
            window: recovery.window(),
            ssthresh: recovery.congestion().ssthresh(),
            in_flight: recovery.bytes_in_flight(),
            pto_count: recovery.pto_count(),
        };
        self.trace(now, &metrics);
        if changed {
            self.trace(now, &TraceEvent::CongestionState { path: id, state: state.name() });
        }
    }

    /// Notifies the owner of a frame that the frame was acknowledged or lost. The owner queues a lost frame
    /// again if the frame is still relevant.
    pub(super) fn on_token(&mut self, token: &Token, fate: Fate) {
        let is_lost = fate == Fate::Lost;
        match *token {
            // A newer ACK supersedes a lost one. DATAGRAM and PING frames are not repeated.
            Token::Ack { .. } if is_lost => {}
            Token::Ack { space, path, receipt } => self.on_ack_acked(space, path, receipt),
            Token::Datagram | Token::Ping => {}
            Token::Crypto { space, offset, len } if is_lost => self.crypto_mut(space).on_lost(offset, len),
            Token::Crypto { space, offset, len } => self.crypto_mut(space).on_acked(offset, len),
            Token::NewConnectionId { .. } | Token::RetireConnectionId { .. } => {
                self.paths.on_cid_frame(token, is_lost);
            }
            Token::Stream { .. }
            | Token::StreamCopy { .. }
            | Token::ResetStream(_)
            | Token::StopSending(_)
            | Token::MaxData
            | Token::MaxStreamData(_)
            | Token::MaxStreams(_)
            | Token::DataBlocked
            | Token::StreamDataBlocked(_)
            | Token::StreamsBlocked(_) => match fate {
                Fate::Acked(_) => self.streams.on_acked(token),
                Fate::Lost => self.streams.on_lost(token),
            },
            Token::PathAbandon(_)
            | Token::PathStatus { .. }
            | Token::AlternativeAddress(_)
            | Token::MaxPathId
            | Token::PathsBlocked
            | Token::PathCidsBlocked(_) => match fate {
                Fate::Acked(now) => self.on_multipath_acked(now, token),
                Fate::Lost => self.paths.on_multipath_lost(token),
            },
            Token::AckFrequency(_) if is_lost => self.pending.ack_frequency = self.pending.ack_requested,
            Token::AckFrequency(sequence) => self.on_ack_frequency_acked(sequence),
            Token::NewToken => self.pending.new_tokens += u64::from(is_lost),
            Token::HandshakeDone => self.pending.handshake_done |= is_lost,
        }
    }

    fn on_ack_acked(&mut self, space: SpaceId, path: PathId, receipt: Receipt) {
        match Self::level_index(space) {
            Some(index) => self.levels.get_mut(index).received.numbers.on_ack_acked(receipt),
            None => {
                let received = self.paths.list.get_mut(path).map(|path| &mut path.received);
                self.paths.numbering.on_ack_acked(received, receipt);
            }
        }
    }

    /// Prepares the probes after a PTO, in all spaces for which a probe is due, because their packets share a
    /// datagram. Probes repeat the oldest unacknowledged frames (RFC 9002 §6.2.4). The packets of these
    /// frames are not declared lost.
    pub(super) fn probe_all_spaces(&mut self, id: PathId) {
        for space in SpaceId::ALL {
            if self.paths.list.get(id).is_some_and(|path| path.recovery.probes(space) > 0) {
                self.repeat_oldest(id, space);
            }
        }
    }

    /// Queues the frames of the oldest packets in flight in `space` again.
    pub(super) fn repeat_oldest(&mut self, id: PathId, space: SpaceId) {
        let Some(path) = self.paths.list.get(id) else { return };
        let mut tokens = Tokens::new();
        let first = if space == SpaceId::Data { self.paths.moved_before(id) } else { 0 };
        let under_way = path.recovery.under_way(space, first..u64::MAX).map(|(_, sent)| sent);
        // Packets without repeatable frames, such as earlier probes with a PING alone, are skipped.
        let oldest = under_way.filter(|sent| sent.owed.iter().any(Token::is_repeated));
        for sent in oldest.take(PROBED_PACKETS) {
            tokens.extend(sent.owed.iter().copied());
        }
        // A repeated NEW_TOKEN frame would carry a second, different token.
        for token in tokens.iter().filter(|token| **token != Token::NewToken) {
            self.on_token(token, Fate::Lost);
        }
    }
}
