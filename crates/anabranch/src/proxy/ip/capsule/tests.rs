use anabranch_http3::capsule::CapsuleReader;

use super::*;

/// Returns the type and the value of an encoded capsule.
fn decoded(bytes: &[u8]) -> (CapsuleType, Vec<u8>) {
    let mut reader = CapsuleReader::new(&[ADDRESS_ASSIGN, ADDRESS_REQUEST, ROUTE_ADVERTISEMENT]);
    let (read, capsule) = reader.read(bytes).unwrap();
    let capsule = capsule.unwrap();
    assert_eq!(read, bytes.len());
    (capsule.kind, capsule.value.to_vec())
}

fn assigned(request: u64, prefix: &str) -> AssignedAddress {
    AssignedAddress { request, prefix: prefix.parse().unwrap() }
}

fn range(start: &str, end: &str, protocol: u8) -> IpRange {
    IpRange { start: start.parse().unwrap(), end: end.parse().unwrap(), protocol }
}

#[test]
fn addresses_have_the_encoding_of_the_standard() {
    let addresses = [assigned(1, "192.0.2.11/32"), assigned(70, "2001:db8::/64"), assigned(2, "0.0.0.0/32")];
    let (kind, value) = decoded(&AssignedAddress::capsule(ADDRESS_ASSIGN, &addresses));
    assert_eq!(kind, ADDRESS_ASSIGN);
    assert_eq!(value[..7], [1, 4, 192, 0, 2, 11, 32]);
    // The request ID 70 needs two bytes.
    assert_eq!(value[7..12], [0x40, 70, 6, 0x20, 0x01]);
    assert_eq!(AssignedAddress::parse(&value).unwrap(), addresses);
    assert_eq!(addresses.map(|entry| entry.is_refusal()), [false, false, true]);
    for cut in [1, 2, 6, 8, value.len() - 1] {
        assert!(AssignedAddress::parse(&value[..cut]).is_err(), "{cut}");
    }
    let unknown_version = [1, 5, 192, 0, 2, 11, 32];
    let too_long = [1, 4, 192, 0, 2, 11, 33];
    assert!(AssignedAddress::parse(&unknown_version).is_err() && AssignedAddress::parse(&too_long).is_err());
}

#[test]
fn ranges_are_sorted_and_do_not_overlap() {
    let good = [
        range("0.0.0.0", "10.0.0.0", 0),
        range("10.0.0.1", "255.255.255.255", 0),
        range("0.0.0.0", "255.255.255.255", 17),
        range("::", "::ffff", 0),
    ];
    let (kind, value) = decoded(&IpRange::capsule(&good));
    assert_eq!(kind, ROUTE_ADVERTISEMENT);
    assert_eq!(value[..10], [4, 0, 0, 0, 0, 10, 0, 0, 0, 0]);
    assert_eq!(IpRange::parse(&value).unwrap(), good);
    for bad in [
        [range("10.0.0.1", "10.0.0.0", 0), range("::", "::1", 0)],
        [range("0.0.0.0", "10.0.0.1", 0), range("10.0.0.1", "10.0.0.2", 0)],
        [range("0.0.0.0", "0.0.0.1", 17), range("10.0.0.1", "10.0.0.2", 6)],
        [range("::", "::1", 0), range("10.0.0.1", "10.0.0.2", 0)],
    ] {
        assert!(IpRange::parse(&decoded(&IpRange::capsule(&bad)).1).is_err(), "{bad:?}");
    }
}

#[test]
fn ranges_are_covered_by_networks() {
    let networks = |start: &str, end: &str| -> Vec<String> {
        range(start, end, 0).networks().map(|network| network.to_string()).collect()
    };
    assert_eq!(networks("0.0.0.0", "255.255.255.255"), ["0.0.0.0/0"]);
    assert_eq!(networks("10.0.0.1", "10.0.0.4"), ["10.0.0.1/32", "10.0.0.2/31", "10.0.0.4/32"]);
    assert_eq!(networks("::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"), ["::/0"]);
}

#[test]
fn capsules_have_at_most_max_entries() {
    let addresses = vec![assigned(1, "192.0.2.11/32"); MAX_ENTRIES + 1];
    let value = |len| decoded(&AssignedAddress::capsule(ADDRESS_REQUEST, &addresses[..len])).1;
    assert_eq!(AssignedAddress::parse(&value(MAX_ENTRIES)).unwrap().len(), MAX_ENTRIES);
    assert!(AssignedAddress::parse(&value(MAX_ENTRIES + 1)).is_err());
}
