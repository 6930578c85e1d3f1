//! Addresses that are not public.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// IPv4 networks that are not public, as address and prefix length (RFC 6890 and its registry).
const V4: [(Ipv4Addr, u32); 14] = [
    // "This network" (RFC 791 §3.2), with the unspecified address.
    (Ipv4Addr::new(0, 0, 0, 0), 8),
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    // Carrier-grade NAT (RFC 6598).
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    // Link-local addresses, among them 169.254.169.254, at which cloud providers serve credentials of instances.
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    // Relays of 6to4 (RFC 7526).
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    // Benchmarks (RFC 2544).
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    // Multicast (224.0.0.0/4), reserved (240.0.0.0/4) and broadcast addresses.
    (Ipv4Addr::new(224, 0, 0, 0), 3),
];

/// Networks within 2000::/3 that are not public, as address and prefix length. All addresses outside 2000::/3 are not public
/// either, among them fd00:ec2::254, at which a cloud provider serves credentials of instances.
const V6: [(Ipv6Addr, u32); 3] = [
    // Protocol assignments, among them Teredo (RFC 4380), ORCHID and benchmarks.
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
    // Documentation (RFC 9637).
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
];

/// Returns whether an address is not public: private, shared, loopback, link-local, multicast, unspecified, reserved, for
/// documentation, or an IPv6 address that embeds such an IPv4 address (IPv4-mapped, NAT64, 6to4, ISATAP).
pub fn is_forbidden(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => V4.iter().any(|(network, len)| prefix_v4(address, *len) == network.to_bits()),
        IpAddr::V6(v6) => {
            let inner = embedded(address);
            let is_carrier = v6.to_ipv4_mapped().is_some() || is_nat64(v6);
            let listed = V6.iter().any(|(network, len)| prefix_v6(v6, *len) == network.to_bits());
            let global = v6.segments()[0] & 0xe000 == 0x2000 || is_carrier;
            !global || listed || inner.is_some_and(|inner| is_forbidden(inner.into()))
        }
    }
}

/// Returns the IPv4 address that an IPv6 address embeds (IPv4-mapped, NAT64, 6to4, ISATAP), if it does.
pub(super) fn embedded(address: IpAddr) -> Option<Ipv4Addr> {
    let IpAddr::V6(address) = address else { return None };
    let segments = address.segments();
    let of = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    // IPv4-mapped (RFC 4291 §2.5.5.2).
    if let Some(mapped) = address.to_ipv4_mapped() {
        return Some(mapped);
    }
    // 6to4 (RFC 3056 §2).
    if segments[0] == 0x2002 {
        return Some(of(segments[1], segments[2]));
    }
    // NAT64 (RFC 6052 §2.1) and ISATAP (RFC 5214 §6.1).
    let is_isatap = segments[4] & 0xfdff == 0 && segments[5] == 0x5efe;
    (is_nat64(address) || is_isatap).then(|| of(segments[6], segments[7]))
}

/// Returns whether the address has the well-known prefix of NAT64 (RFC 6052 §2.1).
fn is_nat64(address: Ipv6Addr) -> bool {
    address.segments()[..6] == [0x64, 0xff9b, 0, 0, 0, 0]
}

fn prefix_v4(address: Ipv4Addr, len: u32) -> u32 {
    address.to_bits() & (u32::MAX << (u32::BITS - len))
}

fn prefix_v6(address: Ipv6Addr, len: u32) -> u128 {
    address.to_bits() & (u128::MAX << (u128::BITS - len))
}
