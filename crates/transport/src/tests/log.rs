//! Log of the packets and the keys of one end of a [`Pair`].

use std::sync::{Arc, Mutex};

use anabranch_wire::{ConnectionId, Direction, Frame, Frames, PacketKind, Side, SpaceId, Time, parse_packet};

use super::pair::Pair;
use crate::trace::{DropReason, Observer, PacketTrace, TraceEvent};

/// Packet that one end has sent or received.
#[derive(Clone, Debug)]
pub(super) struct Packet {
    pub(super) kind: PacketKind,
    pub(super) number: u64,
    pub(super) dcid: ConnectionId,
    pub(super) key_phase: bool,
    payload: Vec<u8>,
    direction: Direction,
}

impl Packet {
    fn new(trace: &PacketTrace<'_>) -> Self {
        let PacketTrace { kind, number, dcid, key_phase, payload, direction, .. } = *trace;
        Self { kind, number, dcid, key_phase, payload: payload.to_vec(), direction }
    }

    pub(super) fn frames(&self) -> impl Iterator<Item = Frame<'_>> {
        Frames::new(&self.payload, self.direction).map(Result::unwrap)
    }

    pub(super) fn has(&self, wanted: impl Fn(&Frame<'_>) -> bool) -> bool {
        self.frames().any(|frame| wanted(&frame))
    }

    pub(super) fn is_eliciting(&self) -> bool {
        self.frames().any(|frame| frame.is_ack_eliciting())
    }
}

/// Event of one end.
#[derive(Clone, Debug)]
pub(super) enum Entry {
    Sent(Packet),
    Received(Packet),
    Dropped(Option<PacketKind>, DropReason),
    Acked(SpaceId),
    KeysDiscarded(SpaceId),
    Confirmed,
}

/// Events of one end, in order.
#[derive(Clone, Default)]
pub(super) struct Log(Arc<Mutex<Vec<Entry>>>);

impl Log {
    pub(super) fn entries(&self) -> Vec<Entry> {
        self.0.lock().unwrap().clone()
    }

    pub(super) fn sent(&self) -> Vec<Packet> {
        let sent = |entry: &Entry| if let Entry::Sent(packet) = entry { Some(packet.clone()) } else { None };
        self.entries().iter().filter_map(sent).collect()
    }

    pub(super) fn received(&self) -> Vec<Packet> {
        let received =
            |entry: &Entry| if let Entry::Received(packet) = entry { Some(packet.clone()) } else { None };
        self.entries().iter().filter_map(received).collect()
    }

    pub(super) fn dropped(&self) -> Vec<(Option<PacketKind>, DropReason)> {
        let dropped = |entry: &Entry| {
            if let Entry::Dropped(kind, reason) = entry { Some((*kind, *reason)) } else { None }
        };
        self.entries().iter().filter_map(dropped).collect()
    }

    /// Returns the index of the first event from `start` on for which `wanted` holds.
    pub(super) fn position(&self, start: usize, wanted: impl Fn(&Entry) -> bool) -> Option<usize> {
        Some(start + self.entries()[start..].iter().position(wanted)?)
    }
}

impl Observer for Log {
    fn event(&mut self, _: Time, event: &TraceEvent<'_>) {
        let entry = match event {
            TraceEvent::PacketSent(packet) => Entry::Sent(Packet::new(packet)),
            TraceEvent::PacketReceived(packet) => Entry::Received(Packet::new(packet)),
            TraceEvent::PacketDropped { kind, reason, .. } => Entry::Dropped(*kind, *reason),
            TraceEvent::PacketAcked { space, .. } => Entry::Acked(*space),
            TraceEvent::KeysDiscarded { space } => Entry::KeysDiscarded(*space),
            TraceEvent::HandshakeConfirmed => Entry::Confirmed,
            _ => return,
        };
        self.0.lock().unwrap().push(entry);
    }
}

impl Pair {
    /// Begins a log of the events of `side`.
    pub(super) fn log(&mut self, side: Side) -> Log {
        let log = Log::default();
        let now = self.now;
        self.end(side).set_observer(now, Box::new(log.clone()));
        log
    }
}

/// Returns the kinds and the destination connection IDs of the packets in a datagram.
pub(super) fn packets(mut rest: &[u8]) -> Vec<(PacketKind, ConnectionId)> {
    let mut packets = Vec::new();
    while let Ok(header) = parse_packet(rest, 8) {
        packets.push((header.kind, header.dcid));
        rest = &rest[header.end..];
    }
    packets
}

/// Returns the kinds of the packets in a datagram.
pub(super) fn kinds(datagram: &[u8]) -> Vec<PacketKind> {
    packets(datagram).into_iter().map(|(kind, _)| kind).collect()
}
