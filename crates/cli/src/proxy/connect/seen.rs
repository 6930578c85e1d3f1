//! Open tunnels of programs, and totals of all tunnels so far.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use anabranch::proxy::client::Traffic;

use super::drops::Drops;

/// Maximum number of open tunnels that are listed individually. Further ones are counted, and their bytes are added to the
/// totals when they end.
const MAX_LISTED: usize = 4_096;

/// Kind of a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Tcp,
    Udp,
    /// IP packets of all programs, in one tunnel.
    #[cfg_attr(
        not(all(feature = "vpn", target_os = "linux")),
        expect(dead_code, reason = "only a VPN carries packets")
    )]
    Ip,
}

impl Kind {
    /// Kinds of a client that offers proxies or ports.
    const OF_PROXIES: &[Self] = &[Self::Tcp, Self::Udp];
    /// Kinds of a VPN.
    #[cfg(all(feature = "vpn", target_os = "linux"))]
    pub(crate) const OF_VPN: &[Self] = &[Self::Tcp, Self::Udp, Self::Ip];

    /// Returns the name for reports, logs and metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Ip => "ip",
        }
    }
}

/// Tunnels of all programs. Cloning it is cheap.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    kinds: &'static [Kind],
    state: Arc<Mutex<State>>,
    drops: Drops,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    listed: BTreeMap<u64, Arc<Account>>,
    totals: BTreeMap<Kind, Totals>,
    addresses: Vec<IpAddr>,
}

/// Totals of the tunnels of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    /// Number of tunnels that are open.
    pub(crate) active: u64,
    /// Number of tunnels that were opened.
    pub(crate) opened: u64,
    /// Number of tunnels that could not be opened, for instance because the proxy refused them.
    pub(crate) failed: u64,
    /// Bytes of payload to targets and, below, from targets.
    pub(crate) sent: u64,
    pub(crate) received: u64,
}

/// An open tunnel.
#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) kind: Kind,
    /// The target, as text.
    pub(crate) target: String,
    pub(crate) begun: Instant,
    pub(crate) traffic: Traffic,
}

/// Guard of an open tunnel, which is counted and listed until the guard is dropped.
#[derive(Debug)]
pub(crate) struct Flow {
    seen: Seen,
    id: u64,
    account: Arc<Account>,
}

impl Default for Seen {
    fn default() -> Self {
        Self::of(Kind::OF_PROXIES)
    }
}

impl Seen {
    /// Creates the record of a client whose tunnels are of these kinds.
    pub(crate) fn of(kinds: &'static [Kind]) -> Self {
        Self { kinds, state: Arc::default(), drops: Drops::default() }
    }

    /// Returns the kinds of tunnels that there can be.
    pub(crate) fn kinds(&self) -> &'static [Kind] {
        self.kinds
    }

    /// Returns the counters of datagrams that were dropped.
    pub(crate) fn drops(&self) -> &Drops {
        &self.drops
    }

    /// Sets this host's addresses in the tunnel.
    #[cfg(any(test, all(feature = "vpn", target_os = "linux")))]
    pub(crate) fn set_addresses(&self, addresses: &[IpAddr]) {
        self.lock().addresses = addresses.to_vec();
    }

    /// Returns this host's addresses in the tunnel, if packets travel in it.
    pub(crate) fn addresses(&self) -> Vec<IpAddr> {
        self.lock().addresses.clone()
    }

    /// Enters a tunnel that was opened.
    pub(crate) fn open(&self, kind: Kind, target: &impl fmt::Display) -> Flow {
        let (target, begun) = (target.to_string(), Instant::now());
        let account = Arc::new(Account { kind, target, begun, traffic: Traffic::default() });
        let mut state = self.lock();
        let id = state.next;
        state.next += 1;
        let totals = state.totals.entry(kind).or_default();
        totals.active += 1;
        totals.opened += 1;
        if state.listed.len() < MAX_LISTED {
            state.listed.insert(id, Arc::clone(&account));
        }
        Flow { seen: self.clone(), id, account }
    }

    /// Counts a tunnel that could not be opened.
    pub(crate) fn fail(&self, kind: Kind) {
        self.lock().totals.entry(kind).or_default().failed += 1;
    }

    /// Returns the totals of a kind. The bytes include those of listed open tunnels so far. No value but `active` ever decreases.
    pub(crate) fn totals(&self, kind: Kind) -> Totals {
        let state = self.lock();
        let mut totals = state.totals.get(&kind).copied().unwrap_or_default();
        for account in state.listed.values().filter(|account| account.kind == kind) {
            totals.sent += account.traffic.sent();
            totals.received += account.traffic.received();
        }
        totals
    }

    /// Returns the listed tunnels with their unique numbers.
    pub(crate) fn listed(&self) -> Vec<(u64, Arc<Account>)> {
        self.lock().listed.iter().map(|(id, account)| (*id, Arc::clone(account))).collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Flow {
    /// Returns the tunnel's entry in the list.
    pub(crate) fn account(&self) -> Arc<Account> {
        Arc::clone(&self.account)
    }

    /// Returns the byte counters of the tunnel.
    pub(crate) fn traffic(&self) -> &Traffic {
        &self.account.traffic
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        let mut state = self.seen.lock();
        state.listed.remove(&self.id);
        let totals = state.totals.entry(self.account.kind).or_default();
        totals.active -= 1;
        totals.sent += self.account.traffic.sent();
        totals.received += self.account.traffic.received();
    }
}

#[cfg(test)]
mod tests {
    use anabranch::proxy::client::Target;

    use super::*;

    #[test]
    fn max_listed_tunnels_are_listed_and_all_are_counted() {
        let seen = Seen::default();
        let target: Target = "host:1".parse().unwrap();
        let mut flows: Vec<_> = (0..MAX_LISTED + 2).map(|_| seen.open(Kind::Tcp, &target)).collect();
        assert_eq!(seen.listed().len(), MAX_LISTED);
        assert_eq!(seen.totals(Kind::Tcp).active, MAX_LISTED as u64 + 2);
        for flow in [&flows[0], &flows[MAX_LISTED + 1]] {
            flow.traffic().add_sent(3);
            flow.traffic().add_received(5);
        }
        assert_eq!((seen.totals(Kind::Tcp).sent, seen.totals(Kind::Udp)), (3, Totals::default()));
        flows.clear();
        seen.fail(Kind::Tcp);
        let opened = MAX_LISTED as u64 + 2;
        assert_eq!(seen.totals(Kind::Tcp), Totals { active: 0, opened, failed: 1, sent: 6, received: 10 });
        assert!(seen.listed().is_empty());
    }
}
