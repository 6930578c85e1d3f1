//! Limit on the wrong secrets of each network.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use tokio::time::Instant;

/// Maximum number of wrong secrets that a network may send without a pause.
pub(super) const MAX_WRONG: u32 = 10;
/// Time after which a network may send one more wrong secret.
const PARDON: Duration = Duration::from_secs(6);
/// Maximum number of networks whose wrong secrets are counted. To add another one, the network that has made no attempt
/// for the longest time is removed.
pub(super) const MAX_NETWORKS: usize = 4_096;

/// Number of wrong secrets of each network, less one for each [`PARDON`] that has passed.
#[derive(Debug, Default)]
pub(super) struct Failures(HashMap<IpAddr, Record>);

#[derive(Debug)]
struct Record {
    wrong: u32,
    since: Instant,
}

impl Failures {
    /// Counts an attempt as wrong before its outcome is known, so that concurrent attempts count as well. Returns `false`, and
    /// counts nothing, if the network has sent too many wrong secrets.
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

    /// Subtracts an attempt whose secret was right.
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

/// Returns the network of a client: its IPv4 address, or the first 64 bits of its IPv6 address.
fn network(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & u128::MAX << 64).into(),
    }
}
