//! Log of packets and of loss recovery.

use anabranch_transport::trace::{Observer, PacketTrace, TraceEvent};
use anabranch_wire::Time;
use tracing::{Level, Span, debug, trace};

use super::{CONNECTION, PACKET, RECOVERY};

/// Observer that logs a connection's packets.
#[derive(Debug)]
pub(super) struct PacketLog(Span);

impl PacketLog {
    /// Creates an observer; `None` if no subscriber has enabled its targets.
    pub(super) fn new(connection: &Span) -> Option<Self> {
        let wanted = tracing::enabled!(target: RECOVERY, Level::DEBUG)
            || tracing::enabled!(target: CONNECTION, Level::DEBUG)
            || tracing::enabled!(target: PACKET, Level::TRACE);
        wanted.then(|| Self(connection.clone()))
    }

    fn packet(&self, what: &str, packet: &PacketTrace<'_>) {
        trace!(
            target: PACKET,
            parent: &self.0,
            kind = ?packet.kind,
            path = packet.path.0,
            number = packet.number,
            bytes = packet.size,
            "{what}",
        );
    }

    /// Logs events of the handshake and of keys.
    fn handshake(&self, event: &TraceEvent<'_>) {
        let parent = &self.0;
        match *event {
            TraceEvent::VersionChosen { version } => {
                debug!(target: CONNECTION, parent: parent, %version, "version chosen");
            }
            TraceEvent::Parameters { local, parameters } => {
                debug!(target: CONNECTION, parent: parent, local, ?parameters, "transport parameters");
            }
            TraceEvent::KeysInstalled { space, early } => {
                debug!(target: CONNECTION, parent: parent, ?space, early, "keys installed");
            }
            TraceEvent::KeysDiscarded { space } => {
                debug!(target: CONNECTION, parent: parent, ?space, "keys discarded");
            }
            TraceEvent::KeyUpdated { generation, remote } => {
                debug!(target: CONNECTION, parent: parent, generation, remote, "keys updated");
            }
            _ => {}
        }
    }
}

impl Observer for PacketLog {
    fn event(&mut self, _time: Time, event: &TraceEvent<'_>) {
        let parent = &self.0;
        match *event {
            TraceEvent::PacketSent(packet) => self.packet("sent", &packet),
            TraceEvent::PacketReceived(packet) => self.packet("received", &packet),
            TraceEvent::PacketAcked { space, path, number } => {
                trace!(target: PACKET, parent: parent, ?space, path = path.0, number, "acknowledged");
            }
            TraceEvent::PacketLost { space, path, number } => {
                trace!(target: PACKET, parent: parent, ?space, path = path.0, number, "lost");
            }
            TraceEvent::PacketDropped { kind, size, reason } => {
                debug!(target: PACKET, parent: parent, ?kind, bytes = size, ?reason, "dropped");
            }
            TraceEvent::TimerExpired { path, kind, space } => {
                debug!(target: RECOVERY, parent: parent, path = path.0, ?kind, ?space, "timer expired");
            }
            TraceEvent::SpuriousLoss { path, packets } => {
                debug!(target: RECOVERY, parent: parent, path = path.0, packets, "spurious loss");
            }
            TraceEvent::CongestionState { path, state } => {
                debug!(target: RECOVERY, parent: parent, path = path.0, state, "congestion control");
            }
            TraceEvent::EcnState { path, capable } => {
                debug!(target: RECOVERY, parent: parent, path = path.0, capable, "ECN");
            }
            TraceEvent::MtuChanged { path, mtu } => {
                debug!(target: RECOVERY, parent: parent, path = path.0, mtu, "datagram size");
            }
            _ => self.handshake(event),
        }
    }
}
