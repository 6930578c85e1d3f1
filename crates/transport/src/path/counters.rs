//! Counters of a path, and the packet numbers that decide about address changes and key phases.

/// Totals over a path's life.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PathCounters {
    /// Number of 1-RTT packets received.
    pub(crate) data_packets: u64,
    /// Number of 1-RTT packets received after one with a larger number.
    pub(crate) overtaken_packets: u64,
    /// UDP payload bytes received.
    pub(crate) bytes_received: u64,
    /// UDP payload bytes sent.
    pub(crate) bytes_sent: u64,
    /// Number of datagrams received.
    pub(crate) datagrams_received: u64,
    /// Number of datagrams sent.
    pub(crate) datagrams_sent: u64,
}

/// Packet numbers and orders of a path with which later packets are compared.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PathNumbers {
    /// Largest 1-RTT packet number received.
    pub(crate) largest: Option<u64>,
    /// Largest number of a non-probing packet, which decides whether an address change is newer (RFC 9000
    /// §9.3).
    pub(crate) largest_moving: Option<u64>,
    /// First order that was sent in the current key phase.
    pub(crate) phase_start: u64,
}
