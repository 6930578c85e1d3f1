//! Numbers of datagrams and packets that a client dropped.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anabranch::{Connection, ConnectionId};

/// Counters of a client. Clones are cheap and share everything.
#[derive(Clone, Debug, Default)]
pub(crate) struct Drops(Arc<Mutex<State>>);

/// Numbers of datagrams that were dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dropped {
    /// Those for which there was no room, in a queue of either direction or in a packet.
    pub(crate) full: u64,
    /// Those that had waited too long to be sent.
    pub(crate) expired: u64,
}

#[derive(Debug, Default)]
struct State {
    /// Datagrams that no connection counts: it refused them, or has ended.
    others: Dropped,
    /// Last known numbers of the open connections.
    known: BTreeMap<ConnectionId, Dropped>,
}

impl Dropped {
    fn plus(self, other: Self) -> Self {
        Self { full: self.full + other.full, expired: self.expired + other.expired }
    }
}

impl Drops {
    /// Counts a datagram that a connection refused, because its queue was full or the datagram too large.
    pub(crate) fn count(&self) {
        self.lock().others.full += 1;
    }

    /// Reads the numbers of the open connections, which are all that there are. Keeps those of connections that have ended.
    pub(crate) fn follow(&self, connections: &[Connection]) {
        self.set(connections.iter().map(|connection| {
            let stats = connection.stats();
            let dropped = Dropped { full: stats.dropped_messages, expired: stats.expired_messages };
            (connection.original_dcid(), dropped)
        }));
    }

    fn set(&self, open: impl Iterator<Item = (ConnectionId, Dropped)>) {
        let open: BTreeMap<_, _> = open.collect();
        let mut state = self.lock();
        for (id, last) in std::mem::take(&mut state.known) {
            if !open.contains_key(&id) {
                state.others = state.others.plus(last);
            }
        }
        state.known = open;
    }

    /// Returns the numbers so far, which never decrease.
    pub(crate) fn total(&self) -> Dropped {
        let state = self.lock();
        state.known.values().fold(state.others, |sum, dropped| sum.plus(*dropped))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_connections_that_have_ended_stay() {
        let drops = Drops::default();
        let id = |byte| ConnectionId::new(&[byte; 8]).unwrap();
        let dropped = |full, expired| Dropped { full, expired };
        drops.set([(id(1), dropped(2, 3)), (id(2), dropped(1, 0))].into_iter());
        drops.count();
        assert_eq!(drops.total(), dropped(4, 3));
        drops.set([(id(2), dropped(1, 5))].into_iter());
        assert_eq!(drops.total(), dropped(4, 8));
        drops.set(std::iter::empty());
        assert_eq!((drops.total(), drops.lock().known.len()), (dropped(4, 8), 0));
    }
}
