use std::collections::BTreeMap;
use std::hash::BuildHasher;
use std::time::Duration;

use anabranch_testkit::packets::Initial;
use anabranch_tls::{initial_keys, retry_tag};
use anabranch_wire::{ResetToken, Side, Version, offered_versions, write_version_negotiation};

use super::super::incoming::{MAX_BUFFERED_UNVALIDATED, MAX_BUFFERED_VALIDATED};
use super::super::stateless::{
    BURST, MAX_RESET_LEN, MIN_RESET_TRIGGER, NEGOTIATIONS_PER_SECOND, REFUSALS_PER_SECOND, RESETS_PER_SECOND,
};
use super::super::testing::*;
use super::*;

mod balancing;
mod workers;

const NOW: Time = Time::from_millis(5_000);

fn server(change: impl FnOnce(&mut ServerConfig)) -> Router {
    Router::new(&endpoint_config(1), server_with(change))
}

fn client_only() -> Router {
    Router::new(&endpoint_config(2), None)
}

fn route(router: &mut Router, from: u32, bytes: &[u8]) -> RouterAction {
    route_at(router, NOW, from, bytes)
}

fn route_at(router: &mut Router, now: Time, from: u32, bytes: &[u8]) -> RouterAction {
    let mut bytes = bytes.to_vec();
    let original = bytes.clone();
    let route = router.route(now, &datagram(tuple(from), &mut bytes));
    assert_eq!(bytes, original, "routing leaves a datagram as it is");
    route
}

fn v1_initial(dcid: u64, token: &[u8]) -> Vec<u8> {
    initial(Version::V1, &cid(dcid), token, 1200)
}

#[track_caller]
fn incoming(route: RouterAction) -> Incoming {
    let RouterAction::Incoming(incoming) = route else { panic!("{route:?}") };
    incoming
}

#[track_caller]
fn response(route: RouterAction) -> Response {
    let RouterAction::Respond(response) = route else { panic!("{route:?}") };
    assert_eq!(response.transmit.len, response.bytes.len());
    assert_eq!(response.transmit.segment_size, response.bytes.len());
    response
}

#[track_caller]
fn dropped(route: RouterAction) -> DropReason {
    match route {
        RouterAction::Drop(reason) => reason,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn connection(route: RouterAction) -> Handle {
    match route {
        RouterAction::Connection(handle) => handle,
        other => panic!("{other:?}"),
    }
}

/// Returns a 1-RTT packet of `len` bytes to `dcid`.
fn short(dcid: &[u8], len: usize) -> Vec<u8> {
    let mut packet = vec![0x5a; len];
    packet[0] = 0x40;
    packet[1..=dcid.len()].copy_from_slice(dcid);
    packet
}

#[test]
fn a_first_initial_becomes_a_connection() {
    let mut router = server(|_| {});
    let first = incoming(route(&mut router, 1, &v1_initial(1, &[])));
    assert_eq!((first.remote_address(), first.tuple()), (client(1), tuple(1)));
    assert_eq!((first.version(), first.original_dcid()), (Version::V1, cid(1)));
    assert!(!first.address_validated() && first.may_retry());
    assert_eq!((router.waiting(), router.connections()), (1, 0));

    let accepted = router.accept(NOW, first).unwrap();
    let start = accepted.start;
    assert_eq!(
        start,
        ServerStart {
            version: Version::V1,
            initial_dcid: cid(1),
            original_dcid: cid(1),
            peer_cid: cid(0xc11e),
            local_cid: start.local_cid,
            retry_scid: None,
            address_validated: false,
            tuple: tuple(1),
        }
    );
    assert_eq!(start.local_cid.len(), 8);
    assert_eq!(accepted.datagrams.len(), 1);
    assert_eq!(accepted.datagrams[0].bytes, v1_initial(1, &[]));
    assert_eq!((router.waiting(), router.connections()), (1, 1));

    // Packets from any remote address are routed to the connection if they are sent to the connection ID that
    // the client chose, or to the server's own.
    assert_eq!(connection(route(&mut router, 1, &v1_initial(1, &[]))), accepted.handle);
    assert_eq!(connection(route(&mut router, 2, &short(&start.local_cid, 30))), accepted.handle);
    router.on_event(accepted.handle, &EndpointEvent::HandshakeOver);
    router.on_event(accepted.handle, &EndpointEvent::HandshakeOver);
    assert_eq!((router.waiting(), router.connections()), (0, 1));

    router.on_event(accepted.handle, &EndpointEvent::Drained);
    assert!(!matches!(route(&mut router, 1, &short(&start.local_cid, 30)), RouterAction::Connection(_)));
    assert_eq!(router.connections(), 1, "the handle is taken until it is removed");
    router.remove(accepted.handle);
    assert_eq!((router.connections(), router.cids.len()), (0, 0));
}

#[test]
fn initials_that_cannot_begin_a_connection() {
    let mut router = server(|_| {});
    let small = initial(Version::V1, &cid(1), &[], 1199);
    assert_eq!(dropped(route(&mut router, 1, &small)), DropReason::Malformed, "RFC 9000 §14.1");
    let short_dcid = initial(Version::V1, &ConnectionId::new(&[1; 7]).unwrap(), &[], 1200);
    assert_eq!(dropped(route(&mut router, 1, &short_dcid)), DropReason::Malformed, "RFC 9000 §7.2");
    let huge = initial(Version::V1, &cid(1), &[], MAX_FIRST_DATAGRAM + 1);
    assert_eq!(dropped(route(&mut router, 1, &huge)), DropReason::Malformed);
    for byte in [20, 40, 600, 1199] {
        let mut corrupted = v1_initial(1, &[]);
        corrupted[byte] ^= 1;
        let reason = dropped(route(&mut router, 1, &corrupted));
        assert!([DropReason::Undecryptable, DropReason::Malformed].contains(&reason), "byte {byte}");
    }
    assert_eq!(router.waiting(), 0);
    assert_eq!(dropped(route(&mut client_only(), 1, &v1_initial(1, &[]))), DropReason::UnknownConnectionId);
}

#[test]
fn of_an_oversized_first_datagram_the_initial_is_kept() {
    let mut router = server(|_| {});
    let mut bytes = v1_initial(1, &[]);
    bytes.resize(60_000, 0);
    let first = incoming(route(&mut router, 1, &bytes));
    assert_eq!(first.first.bytes, v1_initial(1, &[]));
    router.ignore(first);
    assert_eq!((router.waiting(), router.cids.len()), (0, 0));
}

#[test]
fn other_versions_are_answered_with_ours() {
    let mut router = server(|config| config.transport = Arc::default());
    let mut packet = v1_initial(1, &[]);
    packet[1..5].copy_from_slice(&0x1234_5678_u32.to_be_bytes());
    let answer = response(route(&mut router, 1, &packet)).bytes;
    let header = parse_packet(&answer, 8).unwrap();
    assert_eq!(header.kind, PacketKind::VersionNegotiation);
    assert_eq!((header.dcid, header.scid), (cid(0xc11e), cid(1)));
    let mut offered: Vec<_> = offered_versions(&answer[header.pn_offset..]).collect();
    assert_eq!(offered.iter().filter(|version| version.is_greased()).count(), 1);
    offered.retain(|version| !version.is_greased());
    assert_eq!(offered, [Version::V1, Version::V2]);

    // No Version Negotiation packet answers a small datagram or a Version Negotiation packet, and an endpoint
    // that accepts no connections sends none.
    assert_eq!(dropped(route(&mut router, 1, &packet[..1199])), DropReason::UnexpectedVersion);
    assert_eq!(dropped(route(&mut client_only(), 1, &packet)), DropReason::UnexpectedVersion);
    let mut negotiation = Vec::new();
    write_version_negotiation(&mut negotiation, &cid(1), &cid(2), &[Version::V1; 300], 0);
    assert!(negotiation.len() >= 1200);
    assert_eq!(dropped(route(&mut router, 1, &negotiation)), DropReason::UnknownConnectionId);
}

#[test]
fn a_version_that_is_not_enabled_is_another_version() {
    let mut router = server(|config| {
        let mut transport = crate::config::TransportConfig::clone(&config.transport);
        transport.versions = vec![Version::V2];
        transport.grease = false;
        config.transport = Arc::new(transport);
    });
    let answer = response(route(&mut router, 1, &v1_initial(1, &[]))).bytes;
    let header = parse_packet(&answer, 8).unwrap();
    assert_eq!(offered_versions(&answer[header.pn_offset..]).collect::<Vec<_>>(), [Version::V2]);
    let first = incoming(route(&mut router, 1, &initial(Version::V2, &cid(1), &[], 1200)));
    assert_eq!(first.version(), Version::V2);
}

#[test]
fn very_long_connection_ids_of_other_versions_are_returned() {
    let mut packet = vec![0xc0, 1, 2, 3, 4, 200];
    packet.extend([7; 200]);
    packet.push(100);
    packet.extend([8; 100]);
    packet.resize(1200, 0);
    let answer = response(route(&mut server(|_| {}), 1, &packet)).bytes;
    assert_eq!(answer[5], 100);
    assert_eq!(answer[6..106], [8; 100]);
    assert_eq!(answer[106], 200);
    assert_eq!(answer[107..307], [7; 200]);
}

/// Sends a client's first Initial and checks the Retry in response. Returns the token and the Source
/// Connection ID of the Retry.
fn follow_retry(router: &mut Router, from: u32, dcid: u64) -> (Vec<u8>, ConnectionId) {
    let answer = response(route(router, from, &v1_initial(dcid, &[]))).bytes;
    let header = parse_packet(&answer, 8).unwrap();
    assert_eq!((header.kind, header.dcid), (PacketKind::Retry, cid(0xc11e)));
    let (packet, tag) = answer.split_at(answer.len() - 16);
    assert_eq!(tag, retry_tag(Version::V1.format().unwrap(), &cid(dcid), packet));
    (answer[header.token].to_vec(), header.scid)
}

#[test]
fn retry_validates_the_address() {
    let mut router = server(|config| config.retry = RetryPolicy::Always);
    let (token, retry_scid) = follow_retry(&mut router, 1, 1);
    assert_eq!(router.waiting(), 0, "a Retry leaves no state");

    let back = initial(Version::V1, &retry_scid, &token, 1200);
    let first = incoming(route(&mut router, 1, &back));
    assert!(first.address_validated() && !first.may_retry());
    assert_eq!(first.original_dcid(), cid(1));
    let first = router.retry(NOW, first).expect_err("a client follows one Retry only");
    let start = router.accept(NOW, first).unwrap().start;
    assert_eq!(
        (start.original_dcid, start.initial_dcid, start.retry_scid),
        (cid(1), retry_scid, Some(retry_scid))
    );
    assert!(start.address_validated);

    // A token of ours that arrives from another address is invalid (row 19). The client is refused with
    // INVALID_TOKEN, in a packet that it can decrypt.
    let (token, retry_scid) = follow_retry(&mut router, 1, 2);
    let back = initial(Version::V1, &retry_scid, &token, 1200);
    let refusal = response(route(&mut router, 2, &back));
    assert_eq!(refusal.transmit.tuple, tuple(2));
    let keys = initial_keys(Version::V1.format().unwrap(), &retry_scid, Side::Client).remote;
    assert_eq!(close_code(&refusal.bytes, &keys), TransportErrorCode::INVALID_TOKEN.0);
    let late = NOW + Duration::from_secs(16);
    let refusal = response(route_at(&mut router, late, 1, &back));
    assert_eq!(close_code(&refusal.bytes, &keys), TransportErrorCode::INVALID_TOKEN.0);
    // A token that was never sealed counts as none: the response is another Retry.
    let random = initial(Version::V1, &cid(3), &[0xab; 90], 1200);
    response(route(&mut router, 1, &random));
}

#[test]
fn an_application_may_ask_for_a_retry() {
    let mut router = server(|config| config.retry = RetryPolicy::Never);
    let first = incoming(route(&mut router, 1, &v1_initial(1, &[])));
    let answer = router.retry(NOW, first).unwrap();
    assert_eq!(parse_packet(&answer.bytes, 8).unwrap().kind, PacketKind::Retry);
    assert_eq!((router.waiting(), router.cids.len()), (0, 0));
}

#[test]
fn a_new_token_stands_for_a_retry_once() {
    let mut router = server(|config| config.retry = RetryPolicy::Always);
    let token = router.shared().new_token(NOW, client(1), [5; 16]);
    let first = incoming(route(&mut router, 1, &v1_initial(1, &token)));
    assert!(first.address_validated() && first.may_retry());
    assert_eq!(first.original_dcid(), cid(1));
    let again = response(route(&mut router, 1, &v1_initial(2, &token)));
    assert_eq!(parse_packet(&again.bytes, 8).unwrap().kind, PacketKind::Retry);
}

#[test]
fn a_full_server_refuses_within_a_budget() {
    let mut router = server(|config| config.max_connections = 1);
    let first = incoming(route(&mut router, 1, &v1_initial(1, &[])));
    let second = incoming(route(&mut router, 2, &v1_initial(2, &[])));
    router.accept(NOW, first).unwrap();
    let code = |response: &Response, dcid: u64| {
        assert!(response.bytes.len() < 100);
        let keys = initial_keys(Version::V1.format().unwrap(), &cid(dcid), Side::Client).remote;
        close_code(&response.bytes, &keys)
    };
    let refused = TransportErrorCode::CONNECTION_REFUSED.0;
    let refusal = router.accept(NOW, second).unwrap_err().unwrap();
    assert_eq!(code(&refusal, 2), refused);
    assert_eq!(code(&response(route(&mut router, 3, &v1_initial(3, &[]))), 3), refused);
    let told = (4..4 + 2 * u64::from(BURST))
        .filter(|&n| matches!(route(&mut router, 4, &v1_initial(n, &[])), RouterAction::Respond(_)));
    assert_eq!(told.count(), BURST as usize - 2);
    let later = NOW + Duration::from_secs(1) / REFUSALS_PER_SECOND * 3;
    let told = (4..8)
        .filter(|_| matches!(route_at(&mut router, later, 4, &v1_initial(9, &[])), RouterAction::Respond(_)));
    assert_eq!(told.count(), 3);

    let mut router = server(|_| {});
    let first = incoming(route(&mut router, 1, &v1_initial(1, &[])));
    let refusal = router.refuse(NOW, first).unwrap();
    assert_eq!(code(&refusal, 1), refused);
    assert_eq!((router.waiting(), router.cids.len()), (0, 0));
}

/// Row 9 of the attack table: a flood of Initials from spoofed addresses.
#[test]
fn row_9_a_flood_of_initials_keeps_bounded_state() {
    let mut router = server(|config| config.max_incoming = 16);
    let mut kept = Vec::new();
    let mut retries = 0;
    for n in 0..5_000 {
        match route(&mut router, n, &v1_initial(u64::from(n), &[])) {
            RouterAction::Incoming(incoming) => kept.push(incoming),
            RouterAction::Respond(response) => {
                assert_eq!(parse_packet(&response.bytes, 8).unwrap().kind, PacketKind::Retry);
                assert!(response.bytes.len() < 200);
                retries += 1;
            }
            route => panic!("{route:?}"),
        }
    }
    assert_eq!((kept.len(), retries, router.waiting()), (9, 4_991, 9));
    assert_eq!(router.cids.len(), 9);

    // Accepted connections count as waiting until their handshakes end. A client with a token is still
    // accepted.
    let handles: Vec<_> = kept.into_iter().map(|first| router.accept(NOW, first).unwrap().handle).collect();
    assert_eq!(router.waiting(), 9);
    let with_token = |router: &mut Router, n: u64| {
        let token = router.shared().new_token(NOW, client(1), [n as u8; 16]);
        route(router, 1, &v1_initial(1_000_000 + n, &token))
    };
    let validated: Vec<_> = (0..7).map(|n| incoming(with_token(&mut router, n))).collect();
    assert_eq!(router.waiting(), 16);
    let refusal = response(with_token(&mut router, 7));
    assert_eq!(parse_packet(&refusal.bytes, 8).unwrap().kind, PacketKind::Initial, "refused");
    validated.into_iter().for_each(|first| router.ignore(first));
    handles.iter().for_each(|&handle| router.on_event(handle, &EndpointEvent::HandshakeOver));
    assert_eq!(router.waiting(), 0);
    let first = incoming(route(&mut router, 1, &v1_initial(2_000_000, &[])));
    assert!(!first.address_validated());
}

/// Returns a 0-RTT packet to `dcid` whose Length field holds `len`.
fn zero_rtt(dcid: u64, len: usize) -> Vec<u8> {
    let mut packet = vec![0xd0, 0, 0, 0, 1, 8];
    packet.extend_from_slice(&cid(dcid));
    packet.extend([0, 0x40 | (len >> 8) as u8, len as u8]);
    packet.resize(packet.len() + len, 9);
    packet
}

#[test]
fn early_packets_wait_with_their_connection_within_bounds() {
    for validated in [false, true] {
        let mut router = server(|_| {});
        assert_eq!(dropped(route(&mut router, 1, &zero_rtt(1, 100))), DropReason::UnknownConnectionId);
        let token = router.shared().new_token(NOW, client(1), [1; 16]);
        let token: &[u8] = if validated { &token } else { &[] };
        let first = incoming(route(&mut router, 1, &v1_initial(1, token)));
        assert_eq!(first.address_validated(), validated);
        assert_eq!(
            dropped(route(&mut router, 2, &zero_rtt(1, 100))),
            DropReason::Unexpected,
            "not the client"
        );
        let kept =
            (0..1000).filter(|_| matches!(route(&mut router, 1, &zero_rtt(1, 100)), RouterAction::Buffered));
        let kept = kept.count();
        let limit = if validated { MAX_BUFFERED_VALIDATED } else { MAX_BUFFERED_UNVALIDATED };
        assert!(kept > 3 && kept * (100 + size_of::<StoredDatagram>()) <= limit);
        let datagrams = router.accept(NOW, first).unwrap().datagrams;
        assert_eq!(datagrams.len(), 1 + kept);
        assert!(datagrams[1..].iter().all(|datagram| datagram.bytes == zero_rtt(1, 100)));
        connection(route(&mut router, 1, &zero_rtt(1, 100)));
    }
}

#[test]
fn a_client_is_found_by_its_connection_ids() {
    let mut router = client_only();
    let (one, first) = router.connect(tuple(1)).unwrap();
    let (two, other) = router.connect(tuple(1)).unwrap();
    assert_ne!(first, other);
    assert_eq!(connection(route(&mut router, 1, &short(&first, 40))), one);
    assert_eq!(connection(route(&mut router, 9, &short(&other, 40))), two);
    router.on_event(one, &EndpointEvent::CidIssued(cid(5)));
    assert_eq!(connection(route(&mut router, 1, &short(&cid(5), 40))), one);
    // Another connection can neither take over the connection ID nor retire it.
    router.on_event(two, &EndpointEvent::CidIssued(cid(5)));
    router.on_event(two, &EndpointEvent::CidRetired(cid(5)));
    assert_eq!(connection(route(&mut router, 1, &short(&cid(5), 40))), one);
    router.on_event(one, &EndpointEvent::CidRetired(cid(5)));
    assert!(!matches!(route(&mut router, 1, &short(&cid(5), 40)), RouterAction::Connection(_)));
    router.remove(one);
    router.remove(two);
    assert_eq!((router.cids.len(), router.connections()), (0, 0));
    router.on_event(two, &EndpointEvent::CidIssued(cid(5)));
    assert!(router.cids.is_empty(), "news of a connection that is gone");
}

#[test]
fn without_connection_ids_the_addresses_decide() {
    let mut config = endpoint_config(1);
    config.cid_len = 0;
    let mut router = Router::new(&config, None);
    // The local IP address becomes known with the first datagram.
    let mut unspecified = tuple(1);
    unspecified.local.set_ip("0.0.0.0".parse().unwrap());
    let (one, local) = router.connect(unspecified).unwrap();
    assert!(local.is_empty());
    let (two, _) = router.connect(tuple(2)).unwrap();
    assert!(router.connect(tuple(2)).is_none(), "one connection between two addresses");
    assert_eq!(connection(route(&mut router, 1, &short(&[], 40))), one);
    assert_eq!(connection(route(&mut router, 2, &short(&[], 40))), two);
    assert_eq!(dropped(route(&mut router, 3, &short(&[], 40))), DropReason::UnknownConnectionId);
    router.on_event(one, &EndpointEvent::ResetTokenAdded(ResetToken([0x5a; 16])));
    assert!(matches!(route(&mut router, 1, &short(&[], 40)), RouterAction::Reset(handle) if handle == one));
    router.remove(one);
    assert!(router.tuples.len() == 1 && router.shared.group.reset_tokens().is_empty());
    assert!(router.connect(tuple(1)).is_some());
}

#[test]
fn short_connection_ids_run_out_instead_of_colliding() {
    let mut config = endpoint_config(1);
    config.cid_len = 1;
    let mut router = Router::new(&config, None);
    let mut given = BTreeMap::new();
    while let Some((handle, cid)) = router.connect(tuple(1)) {
        assert_eq!(given.insert(cid, handle), None);
    }
    assert!(given.len() > 200);
}

/// Row 20 of the attack table: which datagrams cause a stateless reset, and its size and rate.
#[test]
fn row_20_resets_shrink_and_are_capped() {
    let mut router = server(|_| {});
    let id = cid(0x0dd);
    for len in 0..MIN_RESET_TRIGGER {
        let packet = if len > 8 { short(&id, len) } else { vec![0x40; len] };
        dropped(route(&mut router, 1, &packet));
    }
    for len in [MIN_RESET_TRIGGER, 30, 42, 43, 44, 1200] {
        let reset = response(route(&mut router, 1, &short(&id, len))).bytes;
        assert!(reset.len() < len && reset.len() <= MAX_RESET_LEN && reset.len() >= MIN_RESET_LEN);
        assert_eq!(reset[0] & 0xc0, 0x40, "looks like a 1-RTT packet");
        assert_eq!(reset[reset.len() - 16..], router.shared().reset_token(&id).0);
    }
    // Two endpoints without connections answer each other's resets with resets. The exchange ends, because
    // each reset is shorter than the last one.
    let mut other = server(|_| {});
    let mut packet = short(&id, 1200);
    let mut turns = 0;
    while let RouterAction::Respond(reset) = route(&mut other, 1, &packet) {
        packet = reset.bytes;
        std::mem::swap(&mut router, &mut other);
        turns += 1;
    }
    assert!(turns <= MAX_RESET_LEN - MIN_RESET_LEN + 1, "{turns} turns");

    let mut router = server(|_| {});
    let mut sent = 0;
    for micros in 0..100_000 {
        let now = NOW + Duration::from_micros(micros);
        sent +=
            u32::from(matches!(route_at(&mut router, now, 1, &short(&id, 100)), RouterAction::Respond(_)));
    }
    assert!(
        (RESETS_PER_SECOND / 10..=RESETS_PER_SECOND / 10 + BURST).contains(&sent),
        "{sent} resets in 0.1 s"
    );
}

/// After a server restart, a client whose handshake is not confirmed may send nothing but Handshake packets
/// until it times out.
#[test]
fn a_server_resets_handshakes_that_it_knows_nothing_of() {
    let handshake = |id: &ConnectionId| {
        let mut packet = vec![0xe0, 0, 0, 0, 1, u8::try_from(id.len()).unwrap()];
        packet.extend_from_slice(id);
        // No source connection ID, 60 bytes of payload.
        packet.extend([0, 60]);
        packet.resize(packet.len() + 60, 9);
        packet
    };
    let (mut router, id) = (server(|_| {}), cid(0xbad));
    let reset = response(route(&mut router, 1, &handshake(&id))).bytes;
    assert_eq!(reset[reset.len() - 16..], router.shared().reset_token(&id).0);
    assert_eq!(dropped(route(&mut router, 1, &zero_rtt(0xbad, 100))), DropReason::UnknownConnectionId);
    assert_eq!(dropped(route(&mut client_only(), 1, &handshake(&id))), DropReason::UnknownConnectionId);
}

#[test]
fn a_stateless_reset_is_recognised_until_its_token_is_gone() {
    let mut router = client_only();
    let (handle, _) = router.connect(tuple(1)).unwrap();
    let token = ResetToken([9; 16]);
    router.on_event(handle, &EndpointEvent::ResetTokenAdded(token));
    let mut reset = short(&cid(0xbad), 40);
    reset[24..].copy_from_slice(&token.0);
    let is_reset = |route: RouterAction| matches!(route, RouterAction::Reset(to) if to == handle);
    assert!(is_reset(route(&mut router, 1, &reset)));
    assert!(is_reset(route(&mut router, 1, &reset[40 - MIN_RESET_LEN..])));
    assert!(!is_reset(route(&mut router, 1, &reset[40 - MIN_RESET_LEN + 1..])));
    let mut long = vec![0xc0, 9, 9, 9, 9, 0, 0, 0, 0];
    long.extend([9; 16]);
    assert!(is_reset(route(&mut router, 1, &long)), "any version's packet may be one");
    router.on_event(handle, &EndpointEvent::ResetTokenRemoved(token));
    assert!(!is_reset(route(&mut router, 1, &reset)));
    router.on_event(handle, &EndpointEvent::ResetTokenAdded(token));
    router.remove(handle);
    assert!(router.shared.group.reset_tokens().is_empty());
}

#[test]
fn reset_tokens_depend_on_key_and_id_alone() {
    let token = |seed, id: u64| Router::new(&endpoint_config(seed), None).shared().reset_token(&cid(id)).0;
    assert_eq!(token(1, 1), token(1, 1));
    assert_ne!(token(1, 1), token(1, 2));
    assert_ne!(token(1, 1), token(2, 1));
}

/// Row 24 of the attack table: empty and short datagrams, unknown versions.
#[test]
fn row_24_junk_costs_no_state_and_little_answer() {
    let mut router = server(|_| {});
    for _ in 0..1_000_000 {
        assert_eq!(dropped(router.route(NOW, &datagram(tuple(1), &mut []))), DropReason::Malformed);
    }
    for len in 1..22 {
        for first in [0x00, 0x40, 0x80, 0xc0, 0xff] {
            dropped(route(&mut router, 1, &vec![first; len]));
        }
    }
    let mut unknown = vec![0x33; 1200];
    unknown[0] = 0xc0;
    unknown[5] = 8;
    unknown[14] = 8;
    let mut sent = 0;
    for micros in 0..100_000 {
        let now = NOW + Duration::from_micros(micros);
        sent += u32::from(matches!(route_at(&mut router, now, 1, &unknown), RouterAction::Respond(_)));
    }
    let per_tenth = NEGOTIATIONS_PER_SECOND / 10;
    assert!((per_tenth..=per_tenth + BURST).contains(&sent), "{sent} answers in 0.1 s");
    assert_eq!((router.cids.len(), router.waiting(), router.connections()), (0, 0, 0));
}

/// Row 11 of the attack table: connection IDs that an attacker chooses without knowing the hash key. Whatever
/// pattern the IDs follow, their hashes must spread like random ones.
#[test]
fn row_11_chosen_connection_ids_do_not_collide() {
    const IDS: u64 = 100_000;
    let patterns: [fn(u64) -> u64; 4] =
        [|n| n, |n| n << 40, |n| n.wrapping_mul(0x1_0001_0000), |n| n.reverse_bits()];
    for secret in [[0; 16], [1; 16]] {
        let hash = Keyed::new(secret);
        for pattern in patterns {
            let mut buckets = vec![0u32; 1 << 17];
            for n in 0..IDS {
                buckets[(hash.hash_one(cid(pattern(n))) & 0x1_ffff) as usize] += 1;
            }
            // If a random function throws 100,000 balls into 2^17 buckets, the fullest bucket holds about 8.
            // With 16 in one bucket, the hash would not look random.
            assert!(*buckets.iter().max().unwrap() < 16);
            let empty = buckets.iter().filter(|&&load| load == 0).count() as f64 / f64::from(1 << 17);
            // e^(-100,000 / 2^17) = 0.466
            assert!((0.46..0.472).contains(&empty), "{empty}");
        }
    }
    assert_ne!(Keyed::new([0; 16]).hash_one(cid(1)), Keyed::new([1; 16]).hash_one(cid(1)));
}

/// Times of lookups reveal nothing of a token: its place in the table depends on a secret of the endpoint.
#[test]
fn a_token_has_another_hash_at_each_endpoint() {
    let routers = [1, 2].map(|seed| Router::new(&endpoint_config(seed), None));
    let [one, other] = routers.each_ref().map(|router| *router.shared.group.reset_tokens().hasher());
    for n in 0..100 {
        let mut token = [7; 16];
        token[15] = n;
        assert_ne!(one.hash_one(token), other.hash_one(token));
        assert_ne!(one.hash_one(token), one.hash_one([6; 16]), "{n}");
    }
}

#[test]
fn the_same_seed_gives_the_same_answers() {
    let answers = || {
        let mut router = server(|config| config.retry = RetryPolicy::Always);
        let retry = response(route(&mut router, 1, &v1_initial(1, &[]))).bytes;
        let reset = response(route(&mut router, 1, &short(&cid(3), 100))).bytes;
        (retry, reset, router.connect(tuple(1)).unwrap().1, router.next_seed())
    };
    assert_eq!(answers(), answers());
}

#[test]
fn arbitrary_datagrams_do_no_harm() {
    use proptest::test_runner::{Config, TestRunner};
    let router = std::cell::RefCell::new(server(|_| {}));
    let bytes = proptest::collection::vec(proptest::num::u8::ANY, 0..1400);
    let front = proptest::option::of(0usize..1200);
    TestRunner::new(Config::with_cases(2_000))
        .run(&(bytes, front), |(mut bytes, front)| {
            // Half of the inputs begin like an Initial.
            if let Some(front) = front {
                let initial = v1_initial(1, &[7; 20]);
                let len = front.min(bytes.len());
                bytes[..len].copy_from_slice(&initial[..len]);
            }
            let mut router = router.borrow_mut();
            if let RouterAction::Incoming(incoming) = route(&mut router, 1, &bytes) {
                router.ignore(incoming);
            }
            Ok(())
        })
        .unwrap();
}

#[test]
fn an_initial_without_the_fixed_bit_begins_a_connection_only_if_the_bit_is_greased() {
    let without = Initial { fixed_bit: false, ..Initial::new(&cid(1), &[]) }.seal();
    for (grease, bytes, begins) in
        [(true, &without, true), (false, &without, false), (false, &v1_initial(1, &[]), true)]
    {
        let mut router = server(|server| Arc::make_mut(&mut server.transport).grease = grease);
        match route(&mut router, 1, bytes) {
            RouterAction::Incoming(_) if begins => {}
            other => assert!(!begins && dropped(other) == DropReason::Malformed),
        }
    }
}
