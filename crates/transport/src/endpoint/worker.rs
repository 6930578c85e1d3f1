//! Workers of an endpoint: routers that share one address, and the number of a worker in connection IDs.

use anabranch_wire::ConnectionId;

use crate::random::Random;

/// Maximum number of workers of an endpoint: as many as [`WORKER_BITS`] can tell apart.
pub const MAX_WORKERS: usize = 32;

/// Bits of a connection ID's first byte that name the worker: the remainder of their value, divided by the number of workers. The
/// other bits are left to load balancers between machines, of which QUIC-LB uses them for the number of its configuration.
pub const WORKER_BITS: u8 = 0x1f;

/// One of the workers of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Worker {
    index: u8,
    count: u8,
}

impl Worker {
    /// Only worker of its endpoint.
    pub(crate) const ALONE: Self = Self { index: 0, count: 1 };

    /// Returns the `count` workers of an endpoint, at least one and [`MAX_WORKERS`] at most.
    pub(crate) fn all(count: usize) -> impl ExactSizeIterator<Item = Self> {
        let count = count.clamp(1, MAX_WORKERS) as u8;
        (0..count).map(move |index| Self { index, count })
    }

    /// Returns this worker's number, from zero.
    pub fn index(self) -> usize {
        usize::from(self.index)
    }

    /// Returns the number of workers.
    pub fn count(self) -> usize {
        usize::from(self.count)
    }

    /// Returns the number of another worker if that worker has issued the connection ID, provided that one of this endpoint has.
    pub(crate) fn other_owner(self, cid: &[u8]) -> Option<usize> {
        let owner = (cid.first()? & WORKER_BITS) % self.count;
        (owner != self.index).then(|| usize::from(owner))
    }

    /// Returns a new connection ID of `len` bytes that names this worker. Apart from that, it is random (RFC 9000 §5.1).
    pub(crate) fn cid(self, random: &mut Random, len: usize) -> ConnectionId {
        let cid = random.cid(len);
        let mut bytes = [0; anabranch_wire::MAX_CID_LEN];
        let Some(bytes) = bytes.get_mut(..cid.len()) else { return cid };
        bytes.copy_from_slice(&cid);
        if let Some(first) = bytes.first_mut() {
            *first = *first & !WORKER_BITS | self.name(*first);
        }
        ConnectionId::new(bytes).unwrap_or(cid)
    }

    /// Returns a value of [`WORKER_BITS`] that names this worker, chosen by the bits of a random byte.
    pub(super) fn name(self, random: u8) -> u8 {
        // Every number that names this worker is as likely as the others.
        let names = (WORKER_BITS - self.index) / self.count + 1;
        self.index + self.count * ((random & WORKER_BITS) % names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_ids_name_their_worker() {
        let mut random = Random::new([7; 32]);
        for count in 1..=MAX_WORKERS {
            for worker in Worker::all(count) {
                let mut seen = [0; 32];
                for _ in 0..2_000 {
                    let cid = worker.cid(&mut random, 8);
                    assert_eq!(cid.len(), 8);
                    for other in Worker::all(count) {
                        let owner = other.other_owner(&cid).unwrap_or(other.index());
                        assert_eq!(owner, worker.index(), "{count} workers, {cid:?}");
                    }
                    seen[usize::from(cid[0] & WORKER_BITS)] += 1;
                }
                // All numbers of the worker occur, and about equally often.
                let names = (0..32).filter(|name| name % count == worker.index()).count();
                let used: Vec<_> = seen.into_iter().filter(|&times| times > 0).collect();
                assert_eq!(used.len(), names);
                assert!(used.iter().all(|times| (1_000..4_000).contains(&(times * names))), "{used:?}");
            }
        }
    }

    #[test]
    fn the_only_worker_owns_everything() {
        assert_eq!(Worker::ALONE.other_owner(&[0xff; 8]), None);
        assert_eq!(Worker::ALONE.other_owner(&[]), None);
    }
}
