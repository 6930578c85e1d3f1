//! State of a connection that follows the routing table.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anabranch_wire::Time;

use super::lease::Lease;

/// Time until an address that the routing table prefers is tried again, after the first failed attempt. Each
/// further failure doubles it.
const FIRST_WAIT: Duration = Duration::from_secs(5);
/// Maximum time until an address that the routing table prefers is tried again.
const LONGEST_WAIT: Duration = Duration::from_secs(320);

/// State of a connection that follows the routing table.
#[derive(Debug)]
pub(crate) struct Roaming {
    /// Addresses of the server that the application has named.
    remotes: Vec<SocketAddr>,
    /// `true` if the peer is silent, or packets cannot be sent.
    pub(crate) is_silent: bool,
    /// `true` if a path manager opens paths on other interfaces. The last path is then moved only if its
    /// address is gone.
    pub(crate) is_managed: bool,
    /// Earliest time at which the address `tried` is tried again, unless the address in use is gone.
    not_before: Time,
    wait: Duration,
    /// Local address of the last attempt.
    tried: Option<IpAddr>,
    /// Leases of sockets that were bound to move the path, by the local address that uses them.
    leases: Vec<(SocketAddr, Arc<Lease>)>,
}

impl Roaming {
    pub(crate) fn new(remotes: Vec<SocketAddr>) -> Box<Self> {
        let (not_before, wait) = (Time::ZERO, FIRST_WAIT);
        Box::new(Self {
            remotes,
            is_silent: false,
            is_managed: false,
            not_before,
            wait,
            tried: None,
            leases: Vec::new(),
        })
    }

    /// Drops leases of sockets that are no longer used. Returns whether any lease was dropped.
    pub(crate) fn release(&mut self, uses: impl Fn(SocketAddr) -> bool) -> bool {
        let before = self.leases.len();
        self.leases.retain(|(local, _)| uses(*local));
        self.leases.len() < before
    }

    /// Returns whether an address that the routing table prefers may be tried. The interval between attempts
    /// on the same address doubles each time.
    pub(super) fn may_try(&mut self, now: Time, source: IpAddr) -> bool {
        if self.tried == Some(source) && now < self.not_before {
            return false;
        }
        let again = self.tried == Some(source);
        self.wait = if again { (self.wait * 2).min(LONGEST_WAIT) } else { FIRST_WAIT };
        self.not_before = now + self.wait;
        self.tried = Some(source);
        true
    }

    /// Returns the addresses of the server that the application has named.
    pub(super) fn remotes(&self) -> &[SocketAddr] {
        &self.remotes
    }

    /// Holds the lease of a socket while `local` is used.
    pub(super) fn hold(&mut self, local: SocketAddr, lease: Arc<Lease>) {
        self.leases.push((local, lease));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_table_prefers_in_vain_is_tried_ever_more_rarely() {
        let mut roaming = Roaming::new(Vec::new());
        roaming.leases.push(("192.0.2.7:1".parse().unwrap(), Arc::new(Lease::bound(lone_socket()))));
        assert!(roaming.release(|_| false) && !roaming.release(|_| false));
    }

    fn lone_socket() -> Arc<crate::socket::Socket> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _inside = runtime.enter();
        Arc::new(crate::socket::Socket::bind("127.0.0.1:0".parse().unwrap()).unwrap())
    }
}
