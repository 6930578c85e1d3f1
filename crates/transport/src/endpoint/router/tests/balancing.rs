//! Servers behind one load balancer, which share secrets.

use super::super::super::shared::MAX_CLOCK_SKEW;
use super::*;
use crate::endpoint::{LoadBalancing, ServerId, ServerIdDecoder};

const CID_LEN: usize = 10;

fn balancing(server: u8) -> LoadBalancing {
    LoadBalancing::new(2, ServerId::new(&[server, 0]).unwrap(), 7).with_key([4; 16])
}

/// Returns the configuration of the server with this number. The seeds of no two are equal.
fn config(server: u8) -> EndpointConfig {
    let config = endpoint_config(server).with_load_balancing(balancing(server));
    config.with_reset_key([5; 32]).with_token_key([6; 32])
}

fn router(config: &EndpointConfig) -> Router {
    Router::new(config, server_with(|server| server.retry = RetryPolicy::Always))
}

/// Returns the server that a connection ID names.
#[track_caller]
fn named(cid: &[u8]) -> u8 {
    ServerIdDecoder::new(&balancing(0)).unwrap().server_id(cid).unwrap()[0]
}

/// Sends a client's first Initial to a server, and returns the token and the Source Connection ID of its Retry.
fn retry(router: &mut Router, now: Time) -> (Vec<u8>, ConnectionId) {
    let answer = response(route_at(router, now, 1, &v1_initial(1, &[]))).bytes;
    let header = parse_packet(&answer, CID_LEN).unwrap();
    assert_eq!(header.kind, PacketKind::Retry);
    (answer[header.token].to_vec(), header.scid)
}

#[test]
fn every_connection_id_names_the_server() {
    let mut router = router(&config(3));
    let (token, retry_scid) = retry(&mut router, NOW);
    let client = incoming(route(&mut router, 1, &initial(Version::V1, &retry_scid, &token, 1200)));
    let accepted = router.accept(NOW, client).unwrap();
    let issued = router.shared().cid(&mut Random::new([9; 32]));
    for cid in [retry_scid, accepted.start.local_cid, issued] {
        assert_eq!((cid.len(), named(&cid)), (CID_LEN, 3));
    }
    // One for the connection, one for this test, and none for the Retry.
    assert_eq!(router.remaining_cids(), Some((1 << 56) - 2));
}

#[test]
fn a_server_resets_its_own_connection_ids_alone() {
    let (mut first, mut second) = (router(&config(1)), router(&config(2)));
    let cid = first.shared().cid(&mut Random::new([9; 32]));
    let reset = response(route(&mut first, 1, &short(&cid, 60)));
    assert_eq!(reset.bytes.last_chunk::<16>(), Some(&second.shared().reset_token(&cid).0));
    assert_eq!(dropped(route(&mut second, 1, &short(&cid, 60))), DropReason::UnknownConnectionId);
    assert_eq!(dropped(route(&mut second, 1, &short(&[0xe9; CID_LEN], 60))), DropReason::UnknownConnectionId);
    // After a restart, the secrets are the same and the seed is not.
    let mut restarted = router(&config(1).with_seed([77; 32]));
    assert_eq!(
        response(route(&mut restarted, 1, &short(&cid, 60))).bytes.last_chunk(),
        reset.bytes.last_chunk::<16>()
    );
    // If the load balancer never leads packets to the wrong server, clients of one that has died need not wait.
    second.set_load_balancing(balancing(2).with_resets_for_others(true)).unwrap();
    assert_eq!(
        response(route(&mut second, 1, &short(&cid, 60))).bytes.last_chunk(),
        reset.bytes.last_chunk::<16>()
    );
}

#[test]
fn any_server_accepts_the_tokens_of_all() {
    let (mut first, mut second) = (router(&config(1)), router(&config(2)));
    // The clock of the first server is fast.
    let (token, retry_scid) = retry(&mut first, NOW + MAX_CLOCK_SKEW);
    let back = initial(Version::V1, &retry_scid, &token, 1200);
    assert!(incoming(route_at(&mut second, NOW, 1, &back)).address_validated());
    let token = first.shared().new_token(NOW, client(7), [5; 16]);
    let later = route_at(&mut second, NOW, 7, &v1_initial(8, &token));
    assert!(incoming(later).address_validated());
    // But not by more than the limit.
    let mut third = router(&config(3));
    let refusal = response(route_at(&mut third, NOW - Duration::from_nanos(1), 1, &back));
    let keys = initial_keys(Version::V1.format().unwrap(), &retry_scid, Side::Client).remote;
    assert_eq!(close_code(&refusal.bytes, &keys), TransportErrorCode::INVALID_TOKEN.0);
}

#[test]
fn tokens_are_accepted_while_the_secret_changes() {
    let (old, new) = ([6; 32], [7; 32]);
    let mut behind = router(&config(1).with_earlier_token_keys([new]));
    let mut ahead = router(&config(2).with_token_key(new).with_earlier_token_keys([old]));
    let mut done = router(&config(3).with_token_key(new));
    let validated = |router: &mut Router, token: &[u8]| matches!(route(router, 1, &v1_initial(9, token)), RouterAction::Incoming(client) if client.address_validated());
    let old = behind.shared().new_token(NOW, client(1), [5; 16]);
    assert!(!validated(&mut done, &old));
    assert!(validated(&mut ahead, &old));
    let new = ahead.shared().new_token(NOW, client(1), [6; 16]);
    assert!(validated(&mut behind, &new));
    assert!(validated(&mut done, &new));
}

#[test]
fn another_configuration_has_to_fit() {
    let mut workers = Router::workers(&config(1), server_with(|_| {}).as_ref(), 4);
    let encoded = balancing(1).with_encoded_length(true);
    assert_eq!(workers[3].set_load_balancing(encoded).unwrap_err().setting(), "encoded_length");
    let long = LoadBalancing::new(3, ServerId::new(&[1]).unwrap(), 9);
    assert_eq!(workers[3].set_load_balancing(long).unwrap_err().setting(), "cid_len");
    // A configuration that one worker is given holds for all.
    let next = LoadBalancing::new(3, ServerId::new(&[9]).unwrap(), 8);
    workers[3].set_load_balancing(next).unwrap();
    let cid = workers[0].shared().cid(&mut Random::new([9; 32]));
    assert_eq!((cid[0] >> 5, cid[1], cid.len()), (3, 9, CID_LEN));
}
