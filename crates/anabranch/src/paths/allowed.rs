//! Candidates that a path policy allows on this host's interfaces.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

use super::candidates::{Candidate, Located, MAX_REMOTES, in_turn};
use super::interface::Interface;
use super::interfaces::snapshot;
use super::policy::{PathPolicy, Usage};
use super::{LocalAddress, PathStatus, unspecified_for};

impl PathPolicy {
    /// Returns the candidates that the policy allows on the host's present interfaces, for a server with the
    /// addresses `remotes`, most preferred first. If the policy has rules, each candidate has a local address
    /// that they allow. If it has no rules, candidates with local addresses of the system's choice come
    /// first, whatever their interface. If no interface that the rules name can be used, there are no
    /// candidates; [`PathPolicy::survey`] reports the reason.
    ///
    /// # Panics
    /// Panics outside of a tokio runtime.
    pub async fn candidates(&self, remotes: &[SocketAddr]) -> Vec<Candidate> {
        let remotes = &remotes[..remotes.len().min(MAX_REMOTES)];
        let chosen: Vec<_> = remotes.iter().map(|remote| (*remote, source_for(*remote))).collect();
        let mut interfaces = snapshot().await;
        self.add_loopback(&mut interfaces);
        self.candidates_from(&interfaces, &chosen)
    }

    /// Returns the candidates on these interfaces. Each address of the server is given with the local address
    /// that the system would choose for it.
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
                // The system's own choice is already in the list.
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

    /// Returns the origins that the policy allows: each interface with one address of each family, and each
    /// address that a rule names individually.
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

    /// Adds to the loopback interface the addresses of 127.0.0.0/8 that the policy names. A host has all
    /// addresses of this network, but its interface list contains only one.
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

/// Interface, and addresses on it at which paths may begin.
pub(super) struct Origin {
    pub(super) interface: String,
    /// Addresses, at most one of each family.
    pub(super) addresses: Vec<IpAddr>,
    pub(super) usage: Usage,
}

impl Located {
    fn of(interface: &str, local: IpAddr, remote: SocketAddr, strict: bool) -> Self {
        let mut local = LocalAddress::from(local).on_interface(interface);
        local.strict = strict;
        Self { candidate: Candidate { local: Some(local), remote }, interface: Some(interface.to_owned()) }
    }
}

/// Returns whether packets from `local` can reach `remote`. Packets from loopback addresses do not leave this
/// host.
pub(super) fn reaches(local: IpAddr, remote: SocketAddr) -> bool {
    local.is_ipv4() == remote.is_ipv4() && local.is_loopback() == remote.ip().is_loopback()
}

/// Returns the local address that the system would choose for `remote`, without sending anything.
pub(super) fn source_for(remote: SocketAddr) -> Option<IpAddr> {
    let socket = UdpSocket::bind(unspecified_for(remote)).ok()?;
    socket.connect(remote).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

#[cfg(test)]
mod tests;
