//! Counters of a path, and the packet numbers that decide about address changes and key phases.

use anabranch_wire::Time;

use super::reordering::{Reordering, ReorderingStats};

/// Totals over a path's life.
#[derive(Clone, Debug, Default)]
pub(crate) struct PathCounters {
    /// Number of 1-RTT packets received.
    pub(crate) data_packets: u64,
    /// 1-RTT packets received after one with a larger number; `None` until the first gap among the numbers.
    pub(crate) reordering: Option<Box<Reordering>>,
    /// UDP payload bytes received.
    pub(crate) bytes_received: u64,
    /// UDP payload bytes sent.
    pub(crate) bytes_sent: u64,
    /// Number of datagrams received.
    pub(crate) datagrams_received: u64,
    /// Number of datagrams sent.
    pub(crate) datagrams_sent: u64,
}

impl PathCounters {
    /// Counts a received 1-RTT packet. `largest` is the largest number received before.
    #[inline]
    pub(crate) fn on_data_packet(&mut self, now: Time, number: u64, largest: Option<u64>) {
        self.data_packets += 1;
        match largest {
            Some(largest) if number == largest + 1 => {}
            Some(largest) => self.on_disorder(now, number, largest),
            None => {}
        }
    }

    #[cold]
    fn on_disorder(&mut self, now: Time, number: u64, largest: u64) {
        let reordering = self.reordering.get_or_insert_default();
        if number > largest {
            reordering.on_gap(now, largest + 1, number);
        } else {
            reordering.on_overtaken(now, number, largest);
        }
    }

    /// Returns the counts of packets that were overtaken.
    pub(crate) fn reordering(&self) -> ReorderingStats {
        self.reordering.as_ref().map(|reordering| reordering.stats()).unwrap_or_default()
    }
}

/// Packet numbers and orders of a path with which later packets are compared.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PathNumbers {
    /// Largest 1-RTT packet number received.
    pub(crate) largest: Option<u64>,
    /// Largest number of a non-probing packet received. Only a non-probing packet with a larger number
    /// changes the path's address (RFC 9000 §9.3).
    pub(crate) largest_moving: Option<u64>,
    /// Order of the first packet that was sent in the current key phase.
    pub(crate) phase_start: u64,
}
