//! Pools of addresses that a proxy assigns to its clients.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;

use crate::proxy::ip::bits;

/// Maximum number of addresses of one pool that are assigned at the same time.
pub const MAX_ASSIGNED: usize = 65_536;

/// Network whose addresses are assigned to clients. Its first address is the proxy's own.
#[derive(Debug)]
pub(super) struct Pool {
    network: IpNet,
    /// Assigned addresses, as offsets from the network's address, with their holders.
    taken: BTreeMap<u128, Holder>,
    /// Offset that is tried first for the next client, so that a freed address is not assigned again at once.
    next: u128,
}

/// Tunnel that has an address, and its user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Holder {
    pub(super) tunnel: u64,
    /// Name of the user; `None` for a client without credentials.
    pub(super) user: Option<String>,
}

impl Holder {
    /// Returns whether this tunnel may take an address from `other`: both are one tunnel, or tunnels of one user.
    fn may_replace(&self, other: &Self) -> bool {
        self.tunnel == other.tunnel || (self.user.is_some() && self.user == other.user)
    }
}

/// Error for a network that cannot be a pool.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{network} cannot be a pool of addresses: {reason}")]
pub struct InvalidPool {
    network: IpNet,
    reason: &'static str,
}

impl Pool {
    pub(super) fn new(network: IpNet) -> Result<Self, InvalidPool> {
        let invalid = |reason| Err(InvalidPool { network, reason });
        if network.network() != network.addr() {
            return invalid("it has bits beyond its prefix");
        }
        // Four addresses: the network's, the proxy's, one client's, and with IPv4 the broadcast address.
        if network.max_prefix_len() - network.prefix_len() < 2 {
            return invalid("it has no addresses for clients");
        }
        Ok(Self { network, taken: BTreeMap::new(), next: 2 })
    }

    pub(super) fn network(&self) -> IpNet {
        self.network
    }

    /// Returns the proxy's own address.
    pub(super) fn gateway(&self) -> IpAddr {
        self.address(1)
    }

    /// Assigns the address `wanted` to a tunnel. Returns `false` if the pool does not have it, if another user has it, or if
    /// [`MAX_ASSIGNED`] addresses are assigned. A tunnel of the same user that has the address loses it.
    pub(super) fn assign_wanted(&mut self, wanted: IpAddr, holder: &Holder) -> bool {
        let Some(number) = self.number(wanted) else { return false };
        let may_have = match self.taken.get(&number) {
            Some(other) => holder.may_replace(other),
            None => self.taken.len() < MAX_ASSIGNED,
        };
        if may_have {
            self.taken.insert(number, holder.clone());
        }
        may_have
    }

    /// Assigns a free address to a tunnel. Returns `None` if all addresses, or [`MAX_ASSIGNED`] ones, are assigned.
    pub(super) fn assign_any(&mut self, holder: &Holder) -> Option<IpAddr> {
        let last = self.last();
        if self.taken.len() >= MAX_ASSIGNED || self.taken.len() as u128 > last - 2 {
            return None;
        }
        // This ends after at most as many steps as there are assigned addresses.
        while self.taken.contains_key(&self.next) {
            self.next = if self.next >= last { 2 } else { self.next + 1 };
        }
        let number = self.next;
        self.next = if number >= last { 2 } else { number + 1 };
        self.taken.insert(number, holder.clone());
        Some(self.address(number))
    }

    /// Frees an address, if this tunnel still has it.
    pub(super) fn release(&mut self, address: IpAddr, tunnel: u64) {
        if let Some(number) = self.number(address)
            && self.taken.get(&number).is_some_and(|holder| holder.tunnel == tunnel)
        {
            self.taken.remove(&number);
        }
    }

    /// Returns the offset of the last address that may be assigned.
    fn last(&self) -> u128 {
        let host_bits = u32::from(bits(self.network.addr()) - self.network.prefix_len());
        let all = 1_u128.checked_shl(host_bits).map_or(u128::MAX, |count| count - 1);
        if self.network.addr().is_ipv4() { all - 1 } else { all }
    }

    /// Returns the offset of an address from the network's address; `None` if the address may not be assigned.
    fn number(&self, address: IpAddr) -> Option<u128> {
        let number = to_bits(address).checked_sub(to_bits(self.network.addr()))?;
        (self.network.contains(&address) && (2..=self.last()).contains(&number)).then_some(number)
    }

    fn address(&self, number: u128) -> IpAddr {
        let bits = to_bits(self.network.addr()) + number;
        match self.network.addr() {
            // The sum of a network's address and an offset within the network has at most 32 bits.
            IpAddr::V4(_) => IpAddr::V4(std::net::Ipv4Addr::from_bits(bits as u32)),
            IpAddr::V6(_) => IpAddr::V6(std::net::Ipv6Addr::from_bits(bits)),
        }
    }
}

fn to_bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

#[cfg(test)]
mod tests;
