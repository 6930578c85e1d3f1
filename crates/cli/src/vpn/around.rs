//! Networks that lead around the tunnel, and the reasons why.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ipnet::IpNet;
use tokio::sync::Mutex;

use super::netlink::Netlink;
use super::plan::Plan;
use crate::exit::Result;

/// Reason why packets to a network go around the tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reason {
    /// It is an address of the proxy.
    Proxy,
    /// The user wants it, or it is a network of a link.
    Plan,
}

/// Networks that lead around the tunnel by rules of this host. A rule stays as long as there is a reason for it. Clones are cheap
/// and share everything.
#[derive(Clone, Debug)]
pub(super) struct Around {
    netlink: Netlink,
    known: Arc<Mutex<Known>>,
}

#[derive(Debug, Default)]
struct Known {
    reasons: BTreeMap<IpNet, BTreeSet<Reason>>,
    is_closed: bool,
}

impl Around {
    pub(super) fn new(netlink: Netlink) -> Self {
        Self { netlink, known: Arc::default() }
    }

    /// Leads packets to a network around the tunnel.
    ///
    /// # Errors
    /// Fails if the kernel refuses. It is not asked again.
    pub(super) async fn lead(&self, network: IpNet, reason: Reason) -> Result {
        let network = network.trunc();
        let mut known = self.known.lock().await;
        if known.is_closed || !known.add(network, reason) {
            return Ok(());
        }
        self.netlink.exclude(network).await
    }

    /// Drops a reason. Packets go by way of the tunnel again if it was the last one.
    ///
    /// # Errors
    /// Fails if the kernel refuses.
    pub(super) async fn leave(&self, network: IpNet, reason: Reason) -> Result {
        let network = network.trunc();
        let mut known = self.known.lock().await;
        if known.is_closed || !known.remove(network, reason) {
            return Ok(());
        }
        self.netlink.include(network).await
    }

    /// Returns the networks with this reason.
    pub(super) async fn with(&self, reason: Reason) -> Vec<IpNet> {
        let known = self.known.lock().await;
        let networks = known.reasons.iter().filter(|(_, reasons)| reasons.contains(&reason));
        networks.map(|(network, _)| *network).collect()
    }

    /// Removes routes and rules that another VPN has left, and that neither this value nor the plan has.
    ///
    /// # Errors
    /// Fails if the kernel refuses.
    pub(super) async fn sweep(&self, plan: &Plan) -> Result {
        let known = self.known.lock().await;
        self.netlink.sweep(plan, &known.reasons.keys().copied().collect()).await
    }

    /// Changes no rules from here on.
    pub(super) async fn close(&self) {
        self.known.lock().await.is_closed = true;
    }
}

impl Known {
    /// Adds a reason. Returns whether it is the first one for this network.
    fn add(&mut self, network: IpNet, reason: Reason) -> bool {
        let reasons = self.reasons.entry(network).or_default();
        let is_first = reasons.is_empty();
        reasons.insert(reason);
        is_first
    }

    /// Removes a reason. Returns whether it was the last one for this network.
    fn remove(&mut self, network: IpNet, reason: Reason) -> bool {
        let Some(reasons) = self.reasons.get_mut(&network) else { return false };
        if !reasons.remove(&reason) || !reasons.is_empty() {
            return false;
        }
        self.reasons.remove(&network);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_stays_as_long_as_there_is_a_reason() {
        let (mut known, network) = (Known::default(), "192.0.2.1/32".parse().unwrap());
        assert!(known.add(network, Reason::Proxy) && !known.add(network, Reason::Plan));
        assert!(!known.add(network, Reason::Plan));
        assert!(!known.remove(network, Reason::Proxy) && !known.remove(network, Reason::Proxy));
        assert!(known.remove(network, Reason::Plan) && !known.remove(network, Reason::Plan));
        assert!(known.reasons.is_empty());
    }
}
