//! Tests of the transport parameters of multipath, and of the numbering that both ends choose.

use anabranch_wire::TransportParameters;

use super::*;
use crate::{Numbering, NumberingChoice};

fn offer(multiple: Option<u32>, single: Option<u64>) -> TransportParameters {
    let mut parameters = TransportParameters::default();
    parameters.initial_max_path_id = multiple;
    parameters.single_number_space = single;
    parameters.initial_source_connection_id = Some(cid(0x80));
    parameters
}

fn wanting(side: Side, choice: NumberingChoice) -> PathSet {
    alone(side, config(MultipathConfig::default().with_numbering(choice)))
}

#[test]
fn nothing_is_offered_unless_it_is_configured() {
    let set = alone(Side::Client, TransportConfig::default());
    assert_eq!(set.multipath_parameters(), (None, None));
    assert_eq!(set.numbering(), None);
}

#[test]
fn one_end_that_offers_is_no_negotiation() {
    let mut set = wanting(Side::Client, NumberingChoice::Only(Numbering::Multiple));
    set.negotiate_multipath(&offer(None, None)).unwrap();
    assert!(!set.is_multipath());
    let mut set = alone(Side::Server, TransportConfig::default());
    set.negotiate_multipath(&offer(Some(3), None)).unwrap();
    assert!(!set.is_multipath());
}

#[test]
fn both_ends_get_the_numbering_that_both_allow() {
    let only = NumberingChoice::Only;
    for (choice, theirs, expected) in [
        (only(Numbering::Multiple), offer(Some(3), None), Some(Numbering::Multiple)),
        (only(Numbering::Multiple), offer(None, Some(1)), None),
        (only(Numbering::Single), offer(None, Some(1)), Some(Numbering::Single)),
        (only(Numbering::Single), offer(Some(3), None), None),
    ] {
        let mut set = wanting(Side::Server, choice);
        set.negotiate_multipath(&theirs).unwrap();
        assert_eq!(set.numbering(), expected, "{choice:?}");
    }
}

#[test]
fn multipath_without_connection_ids_is_a_violation() {
    let mut set = wanting(Side::Server, NumberingChoice::Only(Numbering::Multiple));
    let mut theirs = offer(Some(3), None);
    theirs.initial_source_connection_id = None;
    assert!(set.negotiate_multipath(&theirs).is_err());
}

#[test]
fn an_end_without_connection_ids_offers_no_numbers_for_each_path() {
    let mut set = wanting(Side::Client, NumberingChoice::Only(Numbering::Multiple));
    change(&mut set, ZERO, |path| path.used_local_cid = ConnectionId::EMPTY);
    assert_eq!(set.multipath_parameters(), (None, None));
}

#[test]
fn a_client_offers_both_and_takes_only_one() {
    let both = MultipathConfig::default();
    let mut set = alone(Side::Client, config(both));
    let (multiple, single) = set.multipath_parameters();
    assert!(multiple.is_some());
    if single.is_some() {
        assert!(set.negotiate_multipath(&offer(Some(3), Some(1))).is_err(), "a server chooses one");
    }
    set.negotiate_multipath(&offer(Some(3), None)).unwrap();
    assert_eq!(set.numbering(), Some(Numbering::Multiple));
}

#[test]
fn the_shared_pool_takes_the_connection_ids_of_path_0() {
    let mut set = wanting(Side::Server, NumberingChoice::Only(Numbering::Single));
    set.negotiate_multipath(&offer(None, Some(1))).unwrap();
    assert_eq!(set.addressee(&cid(0)).map(|to| to.path), Some(ZERO));
    assert!(set.multipath.as_ref().unwrap().pool.is_some());
    assert_eq!(set.multipath_parameters(), (None, Some(1)));
}

#[test]
fn packets_of_unknown_addresses_are_guessed_by_hosts() {
    let mut set = wanting(Side::Server, NumberingChoice::Only(Numbering::Single));
    set.negotiate_multipath(&offer(None, Some(1))).unwrap();
    let second = path(ONE, &set.config);
    set.list.insert(second);
    assert_eq!(set.guess_path(&tuple(1)), ONE);
    let rebound = FourTuple { remote: "192.0.2.1:999".parse().unwrap(), ..tuple(1) };
    assert_eq!(set.guess_path(&rebound), ONE, "the same hosts, another port");
    let strange = FourTuple { local: local(9), remote: "203.0.113.77:1".parse().unwrap() };
    assert_eq!(set.guess_path(&strange), ZERO);
    set.note_probe(strange, ONE);
    assert_eq!(set.guess_path(&strange), ONE, "a challenge came from there");
}
