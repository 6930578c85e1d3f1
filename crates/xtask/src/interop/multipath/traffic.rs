//! Traffic on a path's link: size, direction and time of its datagrams, and the visible connection IDs.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anabranch_lab::relay::{Direction, Tap};

/// Length of the connection IDs of all programs, in bytes.
const CID_LEN: usize = 8;
/// Bit of the first byte that identifies long headers (RFC 9000 §17).
const LONG_HEADER: u8 = 0x80;
/// Round-trip times of silence of an endpoint after which the other one may use its backups. A loaded machine stops
/// processes for that long.
const STALL: u32 = 2;
/// Time in milliseconds after a stall in which datagrams may still arrive on a backup.
const RECOVERY_MS: u64 = 250;

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

    /// Returns the number of bytes in direction `way`, at or after `from` and outside of the periods `excused`.
    pub(super) fn bytes_outside(&self, way: Direction, from: u64, excused: &[Range<u64>]) -> u64 {
        let counts = |datagram: &&Datagram| {
            let at = datagram.at_ms;
            datagram.way == way && at >= from && !excused.iter().any(|period| period.contains(&at))
        };
        self.datagrams.iter().filter(counts).map(|datagram| datagram.bytes).sum()
    }

    /// Returns the times of the datagrams in direction `way`, in order.
    pub(super) fn times(&self, way: Direction) -> impl Iterator<Item = u64> {
        self.datagrams.iter().filter(move |datagram| datagram.way == way).map(|datagram| datagram.at_ms)
    }

    /// Returns the number of different connection IDs in packets in direction `way`.
    pub(super) fn ids(&self, way: Direction) -> usize {
        self.ids[usize::from(way == Direction::ToClient)].len()
    }
}

/// Returns the periods during which an endpoint may use its backups, because nothing arrived from the other one
/// on any link for [`STALL`] times `rtt`: each silence, and [`RECOVERY_MS`] after its end. Data flows in direction
/// `way`.
pub(super) fn stalls(links: &[Traffic], way: Direction, rtt: Duration) -> Vec<Range<u64>> {
    let back = if way == Direction::ToServer { Direction::ToClient } else { Direction::ToServer };
    let mut times: Vec<u64> = links.iter().flat_map(|link| link.times(back)).collect();
    times.sort_unstable();
    let silences = times.windows(2).filter_map(|pair| <[u64; 2]>::try_from(pair).ok());
    let is_stall = |[from, to]: &[u64; 2]| Duration::from_millis(to - from) >= STALL * rtt;
    silences.filter(is_stall).map(|[from, to]| from..to + RECOVERY_MS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backups_are_excused_during_stalls_and_shortly_after_them() {
        let mut links = [Traffic::default(), Traffic::default()];
        for at in (0..1_000).filter(|at| !(300..400).contains(at)) {
            links[1].see(at, Direction::ToClient, &[0x40; 30]);
        }
        for at in 0..1_000 {
            links[0].see(at, Direction::ToServer, &[0x40; 10]);
        }
        const RTT: Duration = Duration::from_millis(20);
        let excused = stalls(&links, Direction::ToServer, RTT);
        assert_eq!((excused.len(), &excused[0]), (1, &(299..400 + RECOVERY_MS)));
        let counted = 1_000 - 200 - (101 + RECOVERY_MS);
        assert_eq!(links[0].bytes_outside(Direction::ToServer, 200, &excused), counted * 10);
        assert_eq!(links[0].bytes_outside(Direction::ToServer, 350, &excused), (600 - RECOVERY_MS) * 10);
        assert_eq!(links[0].bytes_outside(Direction::ToServer, 900, &excused), 1_000);
        let twice = [excused[0].clone(), excused[0].clone()];
        assert_eq!(links[0].bytes_outside(Direction::ToServer, 200, &twice), counted * 10);
        // One link that still delivers is no stall.
        for at in (0..1_000).step_by(20) {
            links[0].see(at, Direction::ToClient, &[0x40; 30]);
        }
        assert!(stalls(&links, Direction::ToServer, RTT).is_empty());
    }

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
