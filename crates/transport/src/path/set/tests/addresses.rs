//! Tests of the addresses of paths: addresses in use, validations, connection IDs, and counting of datagrams.

use super::*;
use crate::path::{MigrateError, Previous, Purpose};

#[test]
fn a_remote_address_is_known_from_paths_validations_and_the_past() {
    let mut set = two();
    let elsewhere =
        |last: u8| FourTuple { local: local(0), remote: SocketAddr::from(([203, 0, 113, last], 443)) };
    assert!(set.knows_remote(&tuple(0)));
    assert!(!set.knows_remote(&elsewhere(1)));
    set.validate(at(0), ZERO, elsewhere(1), cid(0x80), Purpose::Confirm);
    assert!(set.knows_remote(&elsewhere(1)));
    change(&mut set, ONE, |path| {
        path.address.previous = Some(Box::new(Previous { tuple: elsewhere(2), dcid_sequence: 0 }));
    });
    assert!(set.knows_remote(&elsewhere(2)));
}

#[test]
fn a_local_address_is_in_use_while_anything_may_arrive_there() {
    let mut set = two();
    assert!(set.uses_local(local(1)));
    assert!(!set.uses_local(local(2)));
    let from = FourTuple { local: local(2), ..tuple(0) };
    set.validate(at(0), ZERO, from, cid(0x80), Purpose::Confirm);
    assert!(set.uses_local(local(2)));
    assert!(set.is_asked(ZERO, local(2).ip(), tuple(0).remote));
    assert!(!set.is_asked(ONE, local(2).ip(), tuple(0).remote));
}

#[test]
fn a_datagram_counts_for_one_path_alone() {
    let mut set = open(Side::Server, 2, config(MultipathConfig::default()));
    change(&mut set, ZERO, |path| path.on_datagram_received(1_200));
    change(&mut set, ONE, |path| path.on_datagram_received(1_200));
    set.uncount_elsewhere(ONE, &tuple(0), 1_200);
    assert_eq!(set.list.get(ZERO).unwrap().counters.bytes_received, 0);
    set.uncount_elsewhere(ONE, &tuple(1), 1_200);
    assert_eq!(set.list.get(ONE).unwrap().counters.bytes_received, 1_200, "the path's own addresses");
}

#[test]
fn moving_takes_a_fresh_connection_id() {
    let mut set = two();
    let to = FourTuple { local: local(5), ..tuple(0) };
    assert_eq!(set.take_cid_for(&to), Err(MigrateError::NoConnectionId));
}

#[test]
fn a_due_challenge_goes_to_the_addresses_that_are_validated() {
    let mut set = two();
    assert_eq!(set.next_validation(at(0), ZERO), None);
    set.validate(at(0), ZERO, tuple(0), cid(0x80), Purpose::Confirm);
    let (to, dcid, budget) = set.next_validation(at(0), ZERO).unwrap();
    assert_eq!((to, dcid, budget), (tuple(0), cid(0x80), u64::MAX));
    set.set_socket_blocked(|_| true);
    assert_eq!(set.next_validation(at(0), ZERO), None, "the socket is full");
}

#[test]
fn the_first_datagrams_of_a_client_are_recognised_by_their_connection_id() {
    let set = alone(Side::Client, TransportConfig::default());
    let mut quoted = vec![0xc0, 0, 0, 0, 1, 8];
    quoted.extend_from_slice(&cid(0x80));
    assert!(set.has_sent(&quoted));
    assert!(set.has_sent(&quoted[..10]), "too short to tell");
    quoted[8] ^= 1;
    assert!(!set.has_sent(&quoted));
}
