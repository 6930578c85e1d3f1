//! Traffic on a path's link: size, direction and time of its datagrams, and the visible connection IDs.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use anabranch_lab::relay::{Direction, Tap};

/// Length of the connection IDs of all programs, in bytes.
const CID_LEN: usize = 8;
/// Bit of the first byte that identifies long headers (RFC 9000 §17).
const LONG_HEADER: u8 = 0x80;

/// Returns the milliseconds of the system clock, which all programs of a case share.
pub(super) fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

/// Datagram at the server's end of a link.
#[derive(Clone, Copy, Debug)]
struct Datagram {
    at_ms: u64,
    way: Direction,
    bytes: u64,
}

/// All traffic on one link.
#[derive(Clone, Debug, Default)]
pub(super) struct Traffic {
    datagrams: Vec<Datagram>,
    /// Destination connection IDs of packets with short headers, to the server and to the client.
    ids: [BTreeSet<[u8; CID_LEN]>; 2],
}

impl Traffic {
    /// Returns a tap that records a relay's traffic.
    pub(super) fn tap(traffic: &Arc<Mutex<Self>>) -> Tap {
        let traffic = Arc::clone(traffic);
        Box::new(move |way, _, datagram| {
            traffic.lock().unwrap_or_else(PoisonError::into_inner).see(now_ms(), way, datagram);
            true
        })
    }

    fn see(&mut self, at_ms: u64, way: Direction, datagram: &[u8]) {
        self.datagrams.push(Datagram { at_ms, way, bytes: datagram.len() as u64 });
        if let Some((first, rest)) = datagram.split_first()
            && first & LONG_HEADER == 0
            && let Some(id) = rest.first_chunk()
        {
            self.ids[usize::from(way == Direction::ToClient)].insert(*id);
        }
    }

    /// Returns the time of the first datagram, which approximates the start of the link's own time.
    pub(super) fn began(&self) -> Option<u64> {
        self.datagrams.first().map(|datagram| datagram.at_ms)
    }

    /// Returns the number of bytes in direction `way`, at or after `from` and before `to`.
    pub(super) fn bytes(&self, way: Direction, from: u64, to: u64) -> u64 {
        let counts = |datagram: &&Datagram| datagram.way == way && (from..to).contains(&datagram.at_ms);
        self.datagrams.iter().filter(counts).map(|datagram| datagram.bytes).sum()
    }

    /// Returns the number of different connection IDs in packets in direction `way`.
    pub(super) fn ids(&self, way: Direction) -> usize {
        self.ids[usize::from(way == Direction::ToClient)].len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_is_counted_by_way_and_time() {
        let mut traffic = Traffic::default();
        traffic.see(10, Direction::ToServer, &[0xc0; 100]);
        traffic.see(20, Direction::ToClient, &[0x40; 30]);
        traffic.see(30, Direction::ToClient, &[0x41; 40]);
        traffic.see(40, Direction::ToClient, &[0x40, 1]);
        assert_eq!(
            (traffic.began(), traffic.ids(Direction::ToClient), traffic.ids(Direction::ToServer)),
            (Some(10), 2, 0)
        );
        assert_eq!(traffic.bytes(Direction::ToServer, 0, 100), 100);
        assert_eq!(traffic.bytes(Direction::ToClient, 20, 40), 70);
        assert_eq!(traffic.bytes(Direction::ToClient, 21, 30), 0);
    }
}
