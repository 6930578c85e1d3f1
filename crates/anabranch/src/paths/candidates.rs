//! Pairs of a local address and a server's address, in the order in which a new connection tries them (RFC 8305).
//!
//! The next candidate shares as little as possible with those before it: neither the interface nor the server's address nor the
//! family, so that whichever of them is broken, the second attempt may come through (RFC 8305 §4 does so for families).

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

use super::interface::Interface;
use super::interfaces::snapshot;
use super::policy::{PathPolicy, Usage};
use super::race::MAX_ATTEMPTS;
use super::{LocalAddress, PathStatus, unspecified_for};

/// Addresses of a server that are considered, most.
const MAX_REMOTES: usize = 32;

/// A pair of addresses between which a connection may begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Local address; `None` leaves it to the system.
    pub local: Option<LocalAddress>,
    /// The server's address.
    pub remote: SocketAddr,
}

impl From<SocketAddr> for Candidate {
    fn from(remote: SocketAddr) -> Self {
        Self { local: None, remote }
    }
}

impl Candidate {
    /// Returns the candidates for a server with these addresses, most preferred first, with local addresses of the system's
    /// choice. Each candidate is followed by one of another address family if there is one.
    pub fn to_any_of(remotes: &[SocketAddr]) -> Vec<Self> {
        in_turn(
            remotes.iter().take(MAX_REMOTES).map(|remote| Located::of_the_system(*remote, None)).collect(),
        )
    }
}

impl PathPolicy {
    /// Returns the candidates for a server with these addresses, most preferred first, that the policy allows on the
    /// host as it is now. A connection that begins on one of them has its first path where the policy wants
    /// paths. If the policy names no interfaces, the system's own choice comes first. If nothing that it
    /// names can be used, there are no candidates: [`PathPolicy::survey`] tells why.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn candidates(&self, remotes: &[SocketAddr]) -> Vec<Candidate> {
        let remotes = &remotes[..remotes.len().min(MAX_REMOTES)];
        let chosen: Vec<_> = remotes.iter().map(|remote| (*remote, source_for(*remote))).collect();
        let mut interfaces = snapshot().await;
        self.add_loopback(&mut interfaces);
        self.candidates_from(&interfaces, &chosen)
    }

    /// Returns the candidates over these interfaces. Each address of the server comes with the local address that
    /// the system would choose for it.
    fn candidates_from(
        &self,
        interfaces: &[Interface],
        remotes: &[(SocketAddr, Option<IpAddr>)],
    ) -> Vec<Candidate> {
        let owner = |ip: IpAddr| interfaces.iter().find(|interface| interface.addresses.contains(&ip));
        let of_the_system = |(remote, source): &(SocketAddr, Option<IpAddr>)| {
            let interface = source.and_then(owner).map(|interface| interface.name.clone());
            Located::of_the_system(*remote, interface)
        };
        let mut usable = self.usable(interfaces);
        usable.sort_by_key(|origin| (origin.usage.status == PathStatus::Backup, origin.usage.rank));
        let mut candidates = Vec::new();
        if self.allow.is_empty() {
            candidates.extend(remotes.iter().map(of_the_system));
        }
        for Origin { interface, addresses, .. } in &usable {
            for (remote, _) in remotes {
                // What the system would take anyway is there already.
                let same = |other: &Located| {
                    let there =
                        other.interface.as_ref() == Some(interface) && other.candidate.remote == *remote;
                    there && other.candidate.local.is_none()
                };
                let local = addresses.iter().find(|local| reaches(**local, *remote));
                let candidate =
                    local.map(|local| Located::of(interface, *local, *remote, !self.allow.is_empty()));
                candidates.extend(candidate.filter(|_| !candidates.iter().any(same)));
            }
        }
        in_turn(candidates)
    }

    /// Interfaces that the policy allows, with one address of each family, and addresses that it names.
    pub(super) fn usable(&self, interfaces: &[Interface]) -> Vec<Origin> {
        let mut usable: Vec<Origin> = Vec::new();
        for interface in interfaces {
            let mut shared = Vec::new();
            for &address in &interface.addresses {
                let Ok(usage) = self.usage(&interface.name, address) else { continue };
                if usage.named {
                    usable.push(Origin {
                        interface: interface.name.clone(),
                        addresses: vec![address],
                        usage,
                    });
                } else if !shared.iter().any(|(other, _): &(IpAddr, _)| other.is_ipv4() == address.is_ipv4())
                {
                    shared.push((address, usage));
                }
            }
            if let Some(&(_, usage)) = shared.first() {
                let addresses = shared.iter().map(|(address, _)| *address).collect();
                usable.push(Origin { interface: interface.name.clone(), addresses, usage });
            }
        }
        usable
    }

    /// Adds the addresses of 127.0.0.0/8 that the policy names to the loopback interface. A host has all of
    /// these addresses, but interfaces show only one.
    pub(super) fn add_loopback(&self, interfaces: &mut [Interface]) {
        let first = IpAddr::from(Ipv4Addr::LOCALHOST);
        let Some(loopback) = interfaces.iter_mut().find(|one| one.addresses.contains(&first)) else {
            return;
        };
        let named = self.allow.iter().filter_map(|rule| rule.pattern.single_address());
        for address in named.filter(|address| address.is_ipv4() && address.is_loopback()) {
            if !loopback.addresses.contains(&address) {
                loopback.addresses.push(address);
            }
        }
    }
}

/// Interface and addresses at which paths may begin.
pub(super) struct Origin {
    pub(super) interface: String,
    /// One of each family.
    pub(super) addresses: Vec<IpAddr>,
    pub(super) usage: Usage,
}

/// A candidate and the interface that it uses, if that is known.
#[derive(Clone, Debug)]
struct Located {
    candidate: Candidate,
    interface: Option<String>,
}

impl Located {
    fn of_the_system(remote: SocketAddr, interface: Option<String>) -> Self {
        Self { candidate: Candidate::from(remote), interface }
    }

    fn of(interface: &str, local: IpAddr, remote: SocketAddr, strict: bool) -> Self {
        let mut local = LocalAddress::from(local).on_interface(interface);
        local.strict = strict;
        Self { candidate: Candidate { local: Some(local), remote }, interface: Some(interface.to_owned()) }
    }

    /// Returns how much it has in common with another place.
    fn shares_with(&self, other: &Self) -> usize {
        usize::from(self.interface == other.interface)
            + usize::from(self.candidate.local == other.candidate.local)
            + usize::from(self.candidate.remote == other.candidate.remote)
            + usize::from(self.candidate.remote.is_ipv4() == other.candidate.remote.is_ipv4())
    }
}

/// Orders the candidates: those that have least in common with all before them come first, others in the given
/// order.
fn in_turn(mut left: Vec<Located>) -> Vec<Candidate> {
    let mut chosen: Vec<Located> = Vec::new();
    while chosen.len() < MAX_ATTEMPTS {
        let shared = |at: &usize| chosen.iter().map(|other| left[*at].shares_with(other)).sum::<usize>();
        let Some(next) = (0..left.len()).min_by_key(shared) else { break };
        chosen.push(left.remove(next));
    }
    chosen.into_iter().map(|candidate| candidate.candidate).collect()
}

/// Returns whether packets from `local` can get to `remote`. Packets from loopback addresses do not leave
/// this host.
pub(super) fn reaches(local: IpAddr, remote: SocketAddr) -> bool {
    local.is_ipv4() == remote.is_ipv4() && local.is_loopback() == remote.ip().is_loopback()
}

/// Returns the local address that the system would choose, without sending anything.
pub(super) fn source_for(remote: SocketAddr) -> Option<IpAddr> {
    let socket = UdpSocket::bind(unspecified_for(remote)).ok()?;
    socket.connect(remote).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    const V4: &str = "203.0.113.1:443";
    const OTHER_V4: &str = "203.0.113.2:443";
    const V6: &str = "[2001:db8::1]:443";

    fn interface(name: &str, addresses: &[&str]) -> Interface {
        let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
        Interface { name: name.into(), addresses, idle_addresses: Vec::new(), is_up: true }
    }

    fn host() -> Vec<Interface> {
        vec![
            interface("lo", &["127.0.0.1"]),
            interface("eth0", &["192.0.2.1", "2001:db8:1::1"]),
            interface("wlan0", &["198.51.100.1"]),
            interface("docker0", &["10.99.0.2"]),
        ]
    }

    /// Interface and remote address of each candidate; the system routes by `source`.
    fn candidates(policy: &PathPolicy, source: &str, remotes: &[&str]) -> Vec<(String, String)> {
        let source = source.parse().ok();
        let remotes: Vec<_> = remotes.iter().map(|remote| (remote.parse().unwrap(), source)).collect();
        let candidates = policy.candidates_from(&host(), &remotes).into_iter().map(|candidate| {
            let interface = candidate.local.and_then(|local| local.interface);
            (interface.unwrap_or("-".into()), candidate.remote.to_string())
        });
        candidates.collect()
    }

    fn allowing(rules: &[&str]) -> PathPolicy {
        PathPolicy { allow: rules.iter().map(|rule| rule.parse().unwrap()).collect(), ..Default::default() }
    }

    fn are(candidates: &[(String, String)], expected: &[(&str, &str)]) {
        let candidates: Vec<_> = candidates.iter().map(|(from, to)| (from.as_str(), to.as_str())).collect();
        assert_eq!(candidates, expected);
    }

    #[test]
    fn named_interfaces_are_tried_in_their_order_and_backups_last() {
        are(&candidates(&allowing(&["wlan0", "eth0"]), "192.0.2.1", &[V4]), &[("wlan0", V4), ("eth0", V4)]);
        are(&candidates(&allowing(&["wlan0,backup", "eth0"]), "", &[V4]), &[("eth0", V4), ("wlan0", V4)]);
    }

    #[test]
    fn the_second_way_shares_nothing_with_the_first_one() {
        let both = allowing(&["eth0", "wlan0"]);
        are(
            &candidates(&both, "", &[V4, OTHER_V4]),
            &[("eth0", V4), ("wlan0", OTHER_V4), ("eth0", OTHER_V4), ("wlan0", V4)],
        );
        are(&candidates(&both, "", &[V6, V4]), &[("eth0", V6), ("wlan0", V4), ("eth0", V4)]);
    }

    #[test]
    fn without_names_the_system_comes_first_and_then_what_it_would_not_take() {
        let any = PathPolicy::default();
        are(&candidates(&any, "192.0.2.1", &[V4]), &[("-", V4), ("wlan0", V4)]);
        are(&candidates(&any, "198.51.100.1", &[V4]), &[("-", V4), ("eth0", V4)]);
        // Through a tunnel, which the policy leaves out, or nobody knows how.
        for elsewhere in ["10.99.0.2", ""] {
            are(&candidates(&any, elsewhere, &[V4]), &[("-", V4), ("eth0", V4), ("wlan0", V4)]);
        }
    }

    #[test]
    fn nothing_but_what_is_named_is_used() {
        are(&candidates(&allowing(&["usb0"]), "192.0.2.1", &[V4]), &[]);
        are(&candidates(&allowing(&["wlan0"]), "192.0.2.1", &[V6]), &[]);
        let loopback = "127.0.0.1:4433";
        are(&candidates(&allowing(&["eth0"]), "127.0.0.1", &[loopback]), &[]);
        are(&candidates(&allowing(&["lo"]), "127.0.0.1", &[loopback]), &[("lo", loopback)]);
        are(&candidates(&allowing(&["lo", "eth0"]), "", &[V4]), &[("eth0", V4)]);
    }

    #[test]
    fn families_alternate_and_ways_are_bounded() {
        let parsed = |remotes: &[&str]| -> Vec<SocketAddr> {
            remotes.iter().map(|one| one.parse().unwrap()).collect()
        };
        let remotes = parsed(&["[2001:db8::1]:1", "[2001:db8::2]:1", "192.0.2.1:1", "192.0.2.2:1"]);
        let order: Vec<_> = Candidate::to_any_of(&remotes).iter().map(|candidate| candidate.remote).collect();
        assert_eq!(order, [remotes[0], remotes[2], remotes[1], remotes[3]]);
        let many: Vec<SocketAddr> = (1..1000).map(|port| ([192, 0, 2, 1], port).into()).collect();
        assert_eq!(Candidate::to_any_of(&many).len(), MAX_ATTEMPTS);
        assert_eq!(Candidate::to_any_of(&[]), []);
    }

    #[tokio::test]
    async fn this_host_has_a_way_to_itself() {
        let remote = "127.0.0.1:443".parse().unwrap();
        assert_eq!(source_for(remote), Some([127, 0, 0, 1].into()));
        assert_eq!(PathPolicy::default().candidates(&[remote]).await[0], Candidate::from(remote));
        let named = allowing(&["127.0.0.2", "127.0.0.0/8"]).candidates(&[remote]).await;
        let locals: Vec<_> =
            named.into_iter().filter_map(|candidate| candidate.local).map(|local| local.ip).collect();
        assert_eq!(locals, [IpAddr::from([127, 0, 0, 2]), [127, 0, 0, 1].into()]);
    }
}
