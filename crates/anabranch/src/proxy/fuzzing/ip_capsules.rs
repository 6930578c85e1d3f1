//! Capsules of CONNECT-IP.

use anabranch_http3::capsule::{CapsuleReader, CapsuleType};

use super::super::ip::{
    ADDRESS_ASSIGN, ADDRESS_REQUEST, AssignedAddress, IpRange, MAX_ENTRIES, ROUTE_ADVERTISEMENT,
};

/// Parses the input as the value of each capsule. Encodes what it contains and parses it again.
///
/// # Panics
/// Panics if the values differ, or if routes violate RFC 9484 §4.7.3.
pub fn ip_capsules(data: &[u8]) {
    if let Ok(addresses) = AssignedAddress::parse(data) {
        assert!(addresses.len() <= MAX_ENTRIES);
        for kind in [ADDRESS_ASSIGN, ADDRESS_REQUEST] {
            let value = value(kind, &AssignedAddress::capsule(kind, &addresses));
            assert_eq!(AssignedAddress::parse(&value).as_ref(), Ok(&addresses));
        }
    }
    let Ok(ranges) = IpRange::parse(data) else { return };
    assert!(ranges.len() <= MAX_ENTRIES);
    assert_eq!(IpRange::parse(&value(ROUTE_ADVERTISEMENT, &IpRange::capsule(&ranges))).as_ref(), Ok(&ranges));
    let order = |range: &IpRange| (range.start.is_ipv6(), range.protocol, range.start);
    assert!(ranges.is_sorted_by_key(order));
    for range in ranges.iter().take(4) {
        assert!(range.start <= range.end);
        let networks: Vec<_> = range.networks().take(300).collect();
        assert_eq!(networks.first().map(|network| network.network()), Some(range.start));
        assert_eq!(networks.last().map(|network| network.broadcast()), Some(range.end));
    }
}

/// Returns the value of an encoded capsule.
fn value(kind: CapsuleType, capsule: &[u8]) -> Vec<u8> {
    let mut reader = CapsuleReader::new(&[ADDRESS_ASSIGN, ADDRESS_REQUEST, ROUTE_ADVERTISEMENT]);
    let mut rest = capsule;
    while let Ok((taken @ 1.., read)) = reader.read(rest) {
        rest = &rest[taken..];
        if let Some(read) = read {
            assert_eq!((read.kind, rest.len()), (kind, 0));
            return read.value.to_vec();
        }
    }
    Vec::new()
}
