//! Pairs of a local address and a server's address, in the order in which a new connection tries them (RFC
//! 8305).
//!
//! Each candidate shares as few properties as possible with those before it: interface, local address, server
//! address and address family. Whichever of these is broken, the second attempt may then succeed. RFC 8305 §4
//! does the same for address families.

use std::net::SocketAddr;

use super::LocalAddress;
use super::race::MAX_ATTEMPTS;

/// Maximum number of addresses of a server that are considered.
pub(super) const MAX_REMOTES: usize = 32;

/// A pair of addresses between which a connection may begin.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Candidate {
    /// Local address; `None` if the system chooses it.
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
    /// Creates a candidate. Without a local address, the system chooses one.
    pub const fn new(local: Option<LocalAddress>, remote: SocketAddr) -> Self {
        Self { local, remote }
    }

    /// Returns the candidates for a server with the addresses `remotes`, most preferred first, with local
    /// addresses of the system's choice. Each candidate is followed by one of another address family if there
    /// is one.
    pub fn to_any_of(remotes: &[SocketAddr]) -> Vec<Self> {
        in_turn(
            remotes.iter().take(MAX_REMOTES).map(|remote| Located::of_the_system(*remote, None)).collect(),
        )
    }
}

/// A candidate, and the interface that it uses, if known.
#[derive(Clone, Debug)]
pub(super) struct Located {
    pub(super) candidate: Candidate,
    pub(super) interface: Option<String>,
}

impl Located {
    pub(super) fn of_the_system(remote: SocketAddr, interface: Option<String>) -> Self {
        Self { candidate: Candidate::from(remote), interface }
    }

    /// Returns the number of properties that two candidates share.
    fn shares_with(&self, other: &Self) -> usize {
        usize::from(self.interface == other.interface)
            + usize::from(self.candidate.local == other.candidate.local)
            + usize::from(self.candidate.remote == other.candidate.remote)
            + usize::from(self.candidate.remote.is_ipv4() == other.candidate.remote.is_ipv4())
    }
}

/// Returns the candidates in the order of attempts, at most `MAX_ATTEMPTS`. The next candidate is always the
/// one that shares the fewest properties with those before it. On a tie, the given order decides.
pub(super) fn in_turn(mut left: Vec<Located>) -> Vec<Candidate> {
    let mut chosen: Vec<Located> = Vec::new();
    while chosen.len() < MAX_ATTEMPTS {
        let shared = |at: &usize| chosen.iter().map(|other| left[*at].shares_with(other)).sum::<usize>();
        let Some(next) = (0..left.len()).min_by_key(shared) else { break };
        chosen.push(left.remove(next));
    }
    chosen.into_iter().map(|candidate| candidate.candidate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_alternate_and_candidates_are_bounded() {
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
}
