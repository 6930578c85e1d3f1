//! Record of the packets that an endpoint sends.

use std::sync::{Arc, Mutex, PoisonError};

use anabranch_wire::{ConnectionId, Frame, Frames, PacketKind, Time};

use crate::Connection;
use crate::trace::{DropReason, Observer, TraceEvent};

/// A packet that was sent.
#[derive(Clone, Debug)]
pub(super) struct SentPacket {
    pub(super) kind: PacketKind,
    /// End of the data of streams in the packet, or 0.
    pub(super) stream_end: u64,
    /// Bytes on the wire.
    pub(super) size: usize,
    pub(super) dcid: ConnectionId,
    /// `true` if the packet has probing frames only.
    pub(super) is_probing: bool,
    /// Largest packet number that the packet acknowledges.
    pub(super) acknowledges: Option<u64>,
    pub(super) challenges: Vec<[u8; 8]>,
    pub(super) responses: Vec<[u8; 8]>,
}

/// Record of the packets that an endpoint has sent, and of those that it has dropped.
#[derive(Clone, Debug, Default)]
pub(super) struct Sent(Arc<Mutex<(Vec<SentPacket>, Vec<DropReason>)>>);

impl Sent {
    pub(super) fn packets(&self) -> Vec<SentPacket> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    pub(super) fn drops(&self) -> Vec<DropReason> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1.clone()
    }

    pub(super) fn challenges(&self) -> Vec<[u8; 8]> {
        self.packets().iter().flat_map(|one| one.challenges.clone()).collect()
    }

    pub(super) fn responses(&self) -> Vec<[u8; 8]> {
        self.packets().iter().flat_map(|one| one.responses.clone()).collect()
    }
}

impl Observer for Sent {
    fn event(&mut self, _: Time, event: &TraceEvent<'_>) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            TraceEvent::PacketSent(packet) => {
                let frames: Vec<_> =
                    Frames::new(packet.payload, packet.direction).map(Result::unwrap).collect();
                let challenge = |frame: &Frame<'_>| match frame {
                    Frame::PathChallenge(data) => Some(*data),
                    _ => None,
                };
                let response = |frame: &Frame<'_>| match frame {
                    Frame::PathResponse(data) => Some(*data),
                    _ => None,
                };
                let stream_end = |frame: &Frame<'_>| match frame {
                    Frame::Stream(stream) => Some(stream.offset + stream.data.len() as u64),
                    _ => None,
                };
                let acknowledged = |frame: &Frame<'_>| match frame {
                    Frame::Ack(ack) => Some(ack.largest),
                    _ => None,
                };
                seen.0.push(SentPacket {
                    kind: packet.kind,
                    stream_end: frames.iter().filter_map(stream_end).max().unwrap_or(0),
                    size: packet.size,
                    dcid: packet.dcid,
                    is_probing: frames.iter().all(Frame::is_probing),
                    acknowledges: frames.iter().find_map(acknowledged),
                    challenges: frames.iter().filter_map(challenge).collect(),
                    responses: frames.iter().filter_map(response).collect(),
                });
            }
            TraceEvent::PacketDropped { reason, .. } => seen.1.push(*reason),
            _ => {}
        }
    }
}

/// Begins to record the packets of `connection`.
pub(super) fn watch_sent(connection: &mut Connection, now: Time) -> Sent {
    let sent = Sent::default();
    connection.set_observer(now, Box::new(sent.clone()));
    sent
}
