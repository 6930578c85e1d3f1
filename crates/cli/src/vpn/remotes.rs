//! The proxy's addresses, which lead around the tunnel. They follow the proxy when it moves.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use anabranch::proxy::client::{Resolve, Resolving};
use tokio::time::timeout;
use tracing::debug;

use super::around::{Around, Reason};
use super::record::Record;
use crate::proxy::connect::link::Client;

/// Maximum number of addresses of the proxy that lead around the tunnel.
const MAX_ADDRESSES: usize = 64;
/// Time that an attempt to connect waits for the resolver if addresses are known. The resolver may lie behind the tunnel that is
/// lost.
const HURRY: Duration = Duration::from_millis(300);

/// Addresses of the proxies that this VPN uses.
#[derive(Debug)]
pub(super) struct Remotes {
    around: Around,
    record: Arc<Record>,
    /// Lookups of clients that are in use.
    lookups: Vec<Weak<Inner>>,
}

/// Resolver of a proxy's name, by which its client finds it. Addresses lead around the tunnel before the client learns them.
#[derive(Debug)]
pub(super) struct Lookup(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    around: Around,
    record: Arc<Record>,
    /// The proxy's URL.
    url: String,
    /// Host and port, once they were asked for.
    place: OnceLock<(String, u16)>,
    /// Addresses that were found last.
    found: Mutex<Vec<SocketAddr>>,
    /// Held by the only task that asks the resolver.
    asking: tokio::sync::Mutex<()>,
}

impl Remotes {
    pub(super) fn new(around: Around, record: Arc<Record>) -> Self {
        Self { around, record, lookups: Vec::new() }
    }

    /// Returns the resolver for a client of the proxy at `url`. `known` are addresses that are used while the resolver does not
    /// answer.
    pub(super) fn lookup(&mut self, url: &str, known: Vec<SocketAddr>) -> Arc<Lookup> {
        let inner = Inner {
            around: self.around.clone(),
            record: Arc::clone(&self.record),
            url: url.to_owned(),
            place: OnceLock::new(),
            found: Mutex::new(known),
            asking: tokio::sync::Mutex::default(),
        };
        let lookup = Lookup(Arc::new(inner));
        self.lookups.retain(|lookup| lookup.strong_count() > 0);
        self.lookups.push(Arc::downgrade(&lookup.0));
        Arc::new(lookup)
    }

    /// Leads the addresses that the proxies have announced around the tunnel, and no longer those that they have left.
    pub(super) async fn follow(&self, clients: &[Client]) {
        // A lookup that runs meanwhile stores what it finds before it sets a rule.
        let led = self.around.with(Reason::Proxy).await;
        let mut used: Vec<IpAddr> =
            self.inner().flat_map(|lookup| lookup.found()).map(|at| at.ip()).collect();
        for proxy in clients.iter().map(Client::proxy) {
            let paths = proxy.connections().into_iter().flat_map(|connection| connection.paths());
            used.extend(paths.map(|path| path.tuple.remote.ip()));
            used.extend(proxy.path_attempts().into_iter().map(|attempt| attempt.remote.ip()));
        }
        let used = bounded(used);
        for address in &used {
            if let Err(failure) = self.around.lead((*address).into(), Reason::Proxy).await {
                failure.say();
            }
        }
        for network in led.into_iter().filter(|network| !used.contains(&network.addr())) {
            if let Err(failure) = self.around.leave(network, Reason::Proxy).await {
                failure.say();
            }
        }
    }

    /// Asks the resolver again, so that addresses are known when it cannot be reached.
    pub(super) fn refresh(&self) {
        for lookup in self.inner() {
            tokio::spawn(async move {
                // The next attempt to connect asks again.
                let _ = lookup.ask().await;
            });
        }
    }

    fn inner(&self) -> impl Iterator<Item = Arc<Inner>> {
        self.lookups.iter().filter_map(Weak::upgrade)
    }
}

/// Returns the first addresses, as many as may lead around the tunnel.
fn bounded(addresses: Vec<IpAddr>) -> BTreeSet<IpAddr> {
    let mut bounded = BTreeSet::new();
    for address in addresses {
        if bounded.len() < MAX_ADDRESSES {
            bounded.insert(address);
        }
    }
    bounded
}

impl Lookup {
    /// Returns the addresses that were found last.
    pub(super) fn found(&self) -> Vec<SocketAddr> {
        self.0.found()
    }
}

impl Resolve for Lookup {
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> Resolving<'a> {
        let _ = self.0.place.set((host.to_owned(), port));
        Box::pin(async move {
            let lookup = Arc::clone(&self.0);
            let asking = tokio::spawn(async move { lookup.ask().await });
            if self.0.found().is_empty() {
                asking.await.map_err(io::Error::other)??;
            } else {
                // A task that takes longer goes on, and what it finds counts for the next attempt.
                let _ = timeout(HURRY, asking).await;
            }
            Ok(self.0.found())
        })
    }
}

impl Inner {
    fn found(&self) -> Vec<SocketAddr> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Asks the resolver, unless that happens already, and leads the addresses around the tunnel. Those that are known stay if it
    /// does not answer.
    async fn ask(&self) -> io::Result<()> {
        let (Ok(_only), Some((host, port))) = (self.asking.try_lock(), self.place.get()) else {
            return Ok(());
        };
        let found = tokio::net::lookup_host((host.as_str(), *port)).await.inspect_err(|error| {
            debug!(target: "anabranch::vpn", host, %error, "the proxy's name is not resolved");
        })?;
        let found: Vec<_> = found.take(MAX_ADDRESSES).collect();
        if found.is_empty() {
            return Ok(());
        }
        self.found.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&found);
        for address in &found {
            if let Err(failure) = self.around.lead(address.ip().into(), Reason::Proxy).await {
                failure.say();
            }
        }
        if let Err(failure) = self.record.set_remotes(&self.url, found) {
            failure.say();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_max_addresses_lead_around_the_tunnel() {
        let address = |n: u16| IpAddr::from([10, 0, (n >> 8) as u8, n as u8]);
        assert_eq!(bounded(vec![address(1), address(2), address(1)]), [address(1), address(2)].into());
        let many = bounded((0..1_000).map(address).collect());
        assert!(many.len() == MAX_ADDRESSES && many.contains(&address(0)));
    }
}
