//! Invariants of the token in an Initial: the router accepts any bytes without failing, and only tokens that
//! it sealed itself validate an address.
//!
//! The first byte modulo 3 selects the token: 0 the input itself, 1 a genuine NEW_TOKEN token changed by the
//! input, 2 a genuine Retry token changed by the input.

use std::cell::RefCell;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anabranch_testkit::packets::Initial;
use anabranch_testkit::seeded::{Trust, seed_thread};
use anabranch_transport::wire::{ConnectionId, Time, parse_packet};
use anabranch_transport::{
    Datagram, EndpointConfig, FourTuple, RetryPolicy, Router, RouterAction, ServerConfig,
};

/// Maximum length of a token that fits into an Initial of 1200 bytes with its headers.
const MAX_TOKEN: usize = 1_000;

const NOW: Time = Time::from_millis(1_000_000);

thread_local! {
    static SERVER: RefCell<Option<Arc<ServerConfig>>> = const { RefCell::new(None) };
}

fn server() -> Arc<ServerConfig> {
    let make = || {
        seed_thread(1);
        let tls = Trust::new("localhost").server("fuzz").build();
        Arc::new(ServerConfig::new(tls.unwrap()).with_retry(RetryPolicy::Always))
    };
    SERVER.with_borrow_mut(|server| Arc::clone(server.get_or_insert_with(make)))
}

fn client() -> SocketAddr {
    (Ipv4Addr::new(10, 0, 0, 1), 50_000).into()
}

fn tuple() -> FourTuple {
    FourTuple { local: (Ipv4Addr::new(10, 0, 0, 2), 443).into(), remote: client() }
}

fn route(router: &mut Router, dcid: &ConnectionId, token: &[u8]) -> RouterAction {
    let mut packet = Initial::new(dcid, token).seal();
    router.route(NOW, &Datagram { tuple: tuple(), ecn: None, payload: &mut packet })
}

/// Returns the Destination Connection ID and the token that a client uses after this router's Retry.
fn retried(router: &mut Router) -> (ConnectionId, Vec<u8>) {
    let RouterAction::Respond(response) = route(router, &ConnectionId::new(&[9; 8]).unwrap(), &[]) else {
        panic!("a Retry");
    };
    let header = parse_packet(&response.bytes, 8).unwrap();
    (header.scid, response.bytes[header.token.clone()].to_vec())
}

pub(crate) fn run(data: &[u8]) {
    let Some((&origin, data)) = data.split_first() else { return };
    let mut router = Router::new(&EndpointConfig::new([3; 32]), Some(server()));
    // This token is the same in every run, so a fuzzer may find it even as plain input (first byte 0).
    let sealed = router.shared().new_token(NOW, client(), [5; 16]);
    let (dcid, genuine) = match origin % 3 {
        0 => (ConnectionId::new(&[9; 8]).unwrap(), Vec::new()),
        1 => (ConnectionId::new(&[9; 8]).unwrap(), sealed.clone()),
        _ => retried(&mut router),
    };
    // XORs the genuine bytes with the input, which may also extend them.
    let mut token = genuine.clone();
    token.resize(genuine.len().max(data.len()).min(MAX_TOKEN), 0);
    token.iter_mut().zip(data).for_each(|(byte, change)| *byte ^= change);
    match route(&mut router, &dcid, &token) {
        RouterAction::Incoming(incoming) => {
            assert!(incoming.address_validated(), "under this policy nobody else comes in");
            let is_ours = token == sealed || token == genuine && !genuine.is_empty();
            assert!(is_ours, "only what was sealed here validates an address");
        }
        RouterAction::Respond(response) => {
            assert!(token != genuine || genuine.is_empty(), "a genuine token is good");
            assert!(response.bytes.len() <= 3 * 1_200);
        }
        RouterAction::Drop(_) => assert!(token != genuine),
        other => panic!("{other:?}"),
    }
}
