//! Information about a connection for its application.

use anabranch_tls::rustls::pki_types::CertificateDer;
use anabranch_wire::{ConnectionId, Side, SpaceId, Version};

use crate::connection::connection::Connection;
use crate::path::{AckStats, Path, PathInfo, PathTotals, ReorderingStats};
use crate::stream::ReceivedBytes;

/// Statistics of a connection.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ConnectionStats {
    /// All existing paths. They include abandoned paths on which late packets can still be decrypted.
    pub paths: Vec<PathInfo>,
    /// Removed paths, in the order of their removal: at most [`MAX_CLOSED_PATHS`](crate::MAX_CLOSED_PATHS).
    pub closed: Vec<PathInfo>,
    /// Totals of the removed paths that are no longer listed.
    pub merged: PathTotals,
    /// Statistics of the ACK frames sent.
    pub acks: AckStats,
    /// Number of 1-RTT key updates.
    pub key_updates: u64,
    /// Number of packets that failed to decrypt.
    pub undecryptable: u64,
    /// Stream bytes received, by method of delivery.
    pub received: ReceivedBytes,
    /// Stream bytes that the peer has acknowledged: of each stream, the bytes before the first gap.
    pub delivered: u64,
    /// Number of DATAGRAM messages that were dropped because a queue was full or they were too large.
    pub dropped_messages: u64,
    /// Number of DATAGRAM messages that were not sent because their lifetime had ended.
    pub expired_messages: u64,
}

impl ConnectionStats {
    /// Returns the share of 1-RTT packets that arrived in order, that is, with a number above all earlier
    /// ones of their path. `None` if none arrived.
    pub fn ordered_ratio(&self) -> Option<f64> {
        let packets = self.merged.data_packets + self.sum(|path| path.data_packets);
        let overtaken = self.reordering().packets();
        (packets > 0).then(|| (packets - overtaken) as f64 / packets as f64)
    }

    /// Returns distances and delays of the packets that were overtaken, on all present and past paths.
    pub fn reordering(&self) -> ReorderingStats {
        let mut sum = self.merged.reordering;
        self.all_paths().for_each(|path| sum.add(&path.reordering));
        sum
    }

    /// Returns the removed and the existing paths, without those that have been merged into the totals.
    pub fn all_paths(&self) -> impl Iterator<Item = &PathInfo> {
        self.closed.iter().chain(&self.paths)
    }

    /// Returns the UDP payload bytes received on all present and past paths.
    pub fn bytes_received(&self) -> u64 {
        self.merged.bytes_received + self.sum(|path| path.bytes_received)
    }

    /// Returns the UDP payload bytes sent on all present and past paths.
    pub fn bytes_sent(&self) -> u64 {
        self.merged.bytes_sent + self.sum(|path| path.bytes_sent)
    }

    /// Returns the number of packets declared lost on all present and past paths.
    pub fn lost_packets(&self) -> u64 {
        self.merged.lost_packets + self.sum(|path| path.recovery.lost_packets)
    }

    fn sum(&self, what: impl Fn(&PathInfo) -> u64) -> u64 {
        self.all_paths().map(what).sum()
    }
}

impl Connection {
    /// Returns which side of the connection this endpoint is.
    pub fn side(&self) -> Side {
        self.side
    }

    /// Returns the Destination Connection ID of the client's very first Initial, which both endpoints know.
    /// It names the connection in traces and log spans.
    pub fn original_dcid(&self) -> ConnectionId {
        self.handshake.original_dcid
    }

    /// Returns the version in use.
    pub fn version(&self) -> Version {
        self.format.version
    }

    /// Returns whether the handshake is still incomplete.
    pub fn is_handshaking(&self) -> bool {
        !self.handshake.progress.complete && !self.is_closed()
    }

    /// Returns whether the handshake is confirmed (RFC 9001 §4.1.2).
    pub fn is_confirmed(&self) -> bool {
        self.handshake.progress.confirmed
    }

    /// Returns whether this endpoint is a client that may send 0-RTT data now.
    pub fn has_early_keys(&self) -> bool {
        self.side.is_client() && self.keys.early.is_some()
    }

    /// Returns the negotiated application protocol.
    pub fn alpn(&self) -> Option<&[u8]> {
        self.handshake.alpn.as_deref()
    }

    /// Returns the host name that the client requested, while the connection is open.
    pub fn server_name(&self) -> Option<&str> {
        self.handshake.session.as_ref()?.server_name()
    }

    /// Returns the peer's certificate chain, while the connection is open.
    pub fn peer_certificates(&self) -> Option<&[CertificateDer<'static>]> {
        self.handshake.session.as_ref()?.peer_certificates()
    }

    /// Returns whether TLS resumed an earlier session.
    pub fn is_resumed(&self) -> bool {
        self.handshake.session.as_ref().is_some_and(anabranch_tls::Session::is_resumed)
    }

    /// Returns the TLS session, to export keying material (RFC 8446 §7.5), while the connection is open.
    pub fn tls(&self) -> Option<&anabranch_tls::Session> {
        self.handshake.session.as_ref()
    }

    /// Returns the current state of the paths.
    pub fn paths(&self) -> impl Iterator<Item = PathInfo> + '_ {
        self.paths.list.iter().map(|path| self.path_info(path))
    }

    /// Returns the current state of a path.
    pub(super) fn path_info(&self, path: &Path) -> PathInfo {
        let rtt = path.recovery.rtt();
        PathInfo {
            id: path.id,
            tuple: path.tuple,
            validated: path.address.validated,
            state: self.paths.path_state(path),
            idle: self.idle_reason(path, self.has_shared_data()),
            closure: path.closure,
            smoothed_rtt: rtt.smoothed(),
            rtt_via: rtt.has_sample().then(|| rtt.return_path().unwrap_or(path.id)),
            min_rtt: rtt.min(),
            pto: path.recovery.pto(SpaceId::Data),
            window: path.recovery.window(),
            in_flight: path.recovery.bytes_in_flight(),
            mtu: path.recovery.mtu(),
            bytes_received: path.counters.bytes_received,
            bytes_sent: path.counters.bytes_sent,
            datagrams_received: path.counters.datagrams_received,
            datagrams_sent: path.counters.datagrams_sent,
            data_packets: path.counters.data_packets,
            reordering: path.counters.reordering(),
            recovery: path.recovery.stats().clone(),
        }
    }

    /// Returns the connection's statistics.
    pub fn stats(&self) -> ConnectionStats {
        ConnectionStats {
            paths: self.paths().collect(),
            closed: self.paths.closed.as_ref().map(|closed| closed.kept().to_vec()).unwrap_or_default(),
            merged: self.paths.closed.as_ref().map(|closed| closed.merged()).unwrap_or_default(),
            acks: self.acks.stats,
            key_updates: self.keys.one_rtt.as_ref().map_or(0, |keys| keys.generation),
            undecryptable: self.keys.failed_opens,
            received: self.streams.received(),
            delivered: self.streams.bytes_delivered(),
            dropped_messages: self.datagrams.dropped(),
            expired_messages: self.datagrams.expired(),
        }
    }
}
