//! Addresses and ranges in the capsules of CONNECT-IP (RFC 9484 §4.7).

use std::cmp::Ordering;
use std::net::IpAddr;

use ipnet::{IpNet, IpSubnets, Ipv4Subnets, Ipv6Subnets};

/// Address that a proxy has assigned to its client, or that a client requests (RFC 9484 §4.7.1, §4.7.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AssignedAddress {
    /// Identifier of the request; 0 if the address was not requested.
    pub request: u64,
    /// The address with the maximum prefix length, or a network with all of its addresses.
    pub prefix: IpNet,
}

impl AssignedAddress {
    /// Returns whether this refuses a request (RFC 9484 §4.7.2): the unspecified address with the maximum prefix length.
    pub fn is_refusal(&self) -> bool {
        self.prefix.addr().is_unspecified() && self.prefix.prefix_len() == self.prefix.max_prefix_len()
    }
}

/// Range of addresses to which a peer forwards packets (RFC 9484 §4.7.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpRange {
    /// First address.
    pub start: IpAddr,
    /// Last address, of the same family.
    pub end: IpAddr,
    /// IP protocol number of the packets that are forwarded; 0 for all protocols.
    pub protocol: u8,
}

impl IpRange {
    /// Creates the range of all addresses of a network, for all protocols.
    pub fn of(network: IpNet) -> Self {
        Self { start: network.network(), end: network.broadcast(), protocol: 0 }
    }

    /// Returns the networks that together have exactly the addresses of the range.
    pub fn networks(&self) -> impl Iterator<Item = IpNet> + use<> {
        match (self.start, self.end) {
            (IpAddr::V4(start), IpAddr::V4(end)) => IpSubnets::V4(Ipv4Subnets::new(start, end, 0)),
            (IpAddr::V6(start), IpAddr::V6(end)) => IpSubnets::V6(Ipv6Subnets::new(start, end, 0)),
            // A range from one family to the other has no addresses.
            _ => IpSubnets::V4(Ipv4Subnets::new([0, 0, 0, 1].into(), [0, 0, 0, 0].into(), 0)),
        }
    }

    /// Returns whether the range is valid and may follow `before` in a capsule: sorted by family, protocol and addresses,
    /// and without overlaps (RFC 9484 §4.7.3).
    pub(super) fn may_follow(&self, before: Option<&Self>) -> bool {
        let valid = self.start.is_ipv4() == self.end.is_ipv4() && self.start <= self.end;
        let Some(before) = before else { return valid };
        let key = |range: &Self| (range.start.is_ipv6(), range.protocol);
        valid
            && match key(before).cmp(&key(self)) {
                Ordering::Less => true,
                Ordering::Equal => before.end < self.start,
                Ordering::Greater => false,
            }
    }
}
