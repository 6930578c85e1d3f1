//! Limit on the wrong secrets of each network.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use tokio::time::Instant;

/// Maximum number of wrong secrets in a row that a network may send.
pub(super) const MAX_WRONG: u32 = 10;
/// Time after which a network may send one more.
const PARDON: Duration = Duration::from_secs(6);
/// Maximum number of networks that are remembered. Beyond it, the one whose last failure is the oldest is forgotten.
pub(super) const MAX_NETWORKS: usize = 4_096;

/// Wrong secrets that networks have sent lately.
#[derive(Debug, Default)]
pub(super) struct Failures(HashMap<IpAddr, Record>);

#[derive(Debug)]
struct Record {
    wrong: u32,
    since: Instant,
}

impl Failures {
    /// Counts an attempt as wrong, before its outcome is known, so that attempts at the same time count too. Returns
    /// whether the network may make it.
    pub(super) fn begin(&mut self, client: IpAddr, now: Instant) -> bool {
        let network = network(client);
        if self.0.len() >= MAX_NETWORKS && !self.0.contains_key(&network) {
            self.forget_oldest();
        }
        let record = self.0.entry(network).or_insert(Record { wrong: 0, since: now });
        let pardoned = (now.saturating_duration_since(record.since).as_nanos() / PARDON.as_nanos()) as u32;
        if pardoned > 0 {
            record.wrong = record.wrong.saturating_sub(pardoned);
            record.since += PARDON.saturating_mul(pardoned);
        }
        if record.wrong >= MAX_WRONG {
            return false;
        }
        record.wrong += 1;
        true
    }

    /// Takes an attempt back, whose secret was right.
    pub(super) fn succeed(&mut self, client: IpAddr) {
        let network = network(client);
        if let Some(record) = self.0.get_mut(&network) {
            record.wrong = record.wrong.saturating_sub(1);
            if record.wrong == 0 {
                self.0.remove(&network);
            }
        }
    }

    fn forget_oldest(&mut self) {
        let oldest = self.0.iter().min_by_key(|(_, record)| record.since).map(|(network, _)| *network);
        oldest.and_then(|network| self.0.remove(&network));
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

/// Returns the network of a client: its IPv4 address, or its first 64 bits of IPv6.
fn network(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & u128::MAX << 64).into(),
    }
}
