//! Limits of users, and the open tunnels and used bandwidth of each user.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anabranch_wire::configuration;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::refusal::{Cause, Refusal};
use crate::lock::lock;
use crate::sync::Mutex;

/// Maximum time for which unused bandwidth accumulates: a user may exceed its rate by the bytes of this time at once.
const BURST: Duration = Duration::from_millis(100);
/// Maximum number of names that are resolved for one user at the same time. Further ones wait.
const MAX_USER_LOOKUPS: usize = 16;

configuration! {
    /// Limits of one user.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct UserLimits {
        /// Maximum number of open tunnels: TCP connections, UDP flows and tunnels for IP packets.
        copy max_flows, with_max_flows: usize = 1_024;
        /// Maximum number of client addresses, each an IP address and a port, that have open tunnels. That limits the number of
        /// the user's connections to the proxy.
        copy max_connections, with_max_connections: usize = 64;
        /// Maximum rate in bytes per second, over all tunnels and both directions; `None` if there is no limit. The proxy
        /// delays the bytes of TCP connections, and drops datagrams and IP packets beyond the rate.
        into rate, with_rate: Option<u64> = None;
    }
}

/// State of one user: open tunnels, used bandwidth, and totals.
#[derive(Debug)]
pub(super) struct UserState {
    open: Mutex<Open>,
    bucket: Mutex<Bucket>,
    pub(super) sent: AtomicU64,
    pub(super) received: AtomicU64,
    pub(super) dropped: AtomicU64,
    /// Permits, one for each name that may be resolved at the same time.
    pub(super) lookups: Arc<Semaphore>,
}

impl Default for UserState {
    fn default() -> Self {
        Self {
            open: Mutex::default(),
            bucket: Mutex::default(),
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            lookups: Arc::new(Semaphore::new(MAX_USER_LOOKUPS)),
        }
    }
}

#[derive(Debug, Default)]
struct Open {
    flows: usize,
    /// Number of open tunnels of each client address.
    clients: BTreeMap<SocketAddr, usize>,
}

/// Token bucket of a user, as the time until which its bandwidth is used.
#[derive(Debug, Default)]
struct Bucket {
    /// Time until which the bytes so far use the whole rate; `None` before the first byte.
    paid: Option<Instant>,
}

/// A tunnel's place among those that its user may have. Dropping it frees the place.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) user: Arc<UserState>,
    client: SocketAddr,
    rate: Option<u64>,
}

impl UserState {
    /// Takes a place for a tunnel of `client`.
    ///
    /// # Errors
    /// Fails if the user has as many tunnels or client addresses as the limits allow.
    pub(super) fn enter(self: &Arc<Self>, limits: &UserLimits, client: SocketAddr) -> Result<Place, Refusal> {
        let mut open = lock(&self.open);
        if open.flows >= limits.max_flows {
            return Err(Refusal::new(Cause::Limit, "the user has too many flows"));
        }
        if open.clients.len() >= limits.max_connections && !open.clients.contains_key(&client) {
            return Err(Refusal::new(Cause::Limit, "the user has too many connections"));
        }
        open.flows += 1;
        *open.clients.entry(client).or_default() += 1;
        Ok(Place { user: Arc::clone(self), client, rate: limits.rate })
    }

    pub(super) fn flows(&self) -> usize {
        lock(&self.open).flows
    }
}

impl Place {
    /// Charges `bytes` to the user's rate. Returns the time until the rate allows more; `None` if it does now.
    pub(super) fn spend(&self, bytes: usize, now: Instant) -> Option<Duration> {
        let rate = self.rate?.max(1);
        let cost = Duration::from_nanos((bytes as u64).saturating_mul(1_000_000_000) / rate);
        let mut bucket = lock(&self.user.bucket);
        let earliest = now.checked_sub(BURST).unwrap_or(now);
        let paid = bucket.paid.map_or(earliest, |paid| paid.max(earliest)) + cost;
        bucket.paid = Some(paid);
        Some(paid.saturating_duration_since(now)).filter(|wait| !wait.is_zero())
    }

    /// Returns whether the rate allows more bytes now.
    pub(super) fn may_spend(&self, now: Instant) -> bool {
        self.rate.is_none() || lock(&self.user.bucket).paid.is_none_or(|paid| paid <= now)
    }

    pub(super) fn count_sent(&self, bytes: usize) {
        self.user.sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn count_received(&self, bytes: usize) {
        self.user.received.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = lock(&self.user.open);
        open.flows -= 1;
        if let Some(flows) = open.clients.get_mut(&self.client) {
            *flows -= 1;
            if *flows == 0 {
                open.clients.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(port: u16) -> SocketAddr {
        ([192, 0, 2, 1], port).into()
    }

    #[test]
    fn places_are_limited_and_given_back() {
        let user = Arc::new(UserState::default());
        let limits = UserLimits::default().with_max_flows(3).with_max_connections(2);
        let mut places = Vec::new();
        for port in [1, 1, 2] {
            places.push(user.enter(&limits, client(port)).unwrap());
        }
        assert_eq!(user.enter(&limits, client(1)).unwrap_err().cause(), Cause::Limit);
        places.remove(0);
        assert_eq!(user.enter(&limits, client(3)).unwrap_err().cause(), Cause::Limit, "a third connection");
        places.remove(0);
        places.push(user.enter(&limits, client(3)).unwrap());
        assert_eq!(user.flows(), 2);
        assert_eq!(user.lookups.available_permits(), MAX_USER_LOOKUPS);
        drop(places);
        assert_eq!(user.flows(), 0);
        assert!(lock(&user.open).clients.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_rate_is_kept_on_average() {
        let user = Arc::new(UserState::default());
        let place = user.enter(&UserLimits::default().with_rate(1_000_000), client(1)).unwrap();
        let begin = Instant::now();
        let mut bytes = 0_u64;
        while begin.elapsed() < Duration::from_secs(10) {
            assert!(place.may_spend(Instant::now()));
            bytes += 10_000;
            if let Some(wait) = place.spend(10_000, Instant::now()) {
                assert!(!place.may_spend(Instant::now()));
                tokio::time::sleep(wait).await;
            }
        }
        assert!((10_000_000..=10_200_000).contains(&bytes), "{bytes}");
        let free = user.enter(&UserLimits::default(), client(1)).unwrap();
        assert_eq!(free.spend(usize::MAX, Instant::now()), None);
    }
}
