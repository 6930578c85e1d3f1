//! Invariants of the token of any Initial: a router survives it, and only what it sealed itself validates an
//! address.
//!
//! The first byte says where the token is from: 0 as it is, 1 laid over a genuine NEW_TOKEN token, 2 over a
//! genuine Retry token.

use std::cell::RefCell;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anabranch_testkit::packets::Initial;
use anabranch_testkit::seeded::{Trust, seed_thread};
use anabranch_transport::wire::{ConnectionId, Time, parse_packet};
use anabranch_transport::{Datagram, EndpointConfig, FourTuple, RetryPolicy, Route, Router, ServerConfig};

/// Longest token that fits an Initial of 1200 bytes with its headers.
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

fn route(router: &mut Router, dcid: &ConnectionId, token: &[u8]) -> Route {
    let mut packet = Initial::new(dcid, token).seal();
    router.route(NOW, &Datagram { tuple: tuple(), ecn: None, payload: &mut packet })
}

/// The destination and token that a client uses after this router's Retry.
fn retried(router: &mut Router) -> (ConnectionId, Vec<u8>) {
    let Route::Respond(response) = route(router, &ConnectionId::new(&[9; 8]).unwrap(), &[]) else {
        panic!("a Retry");
    };
    let header = parse_packet(&response.bytes, 8).unwrap();
    (header.scid, response.bytes[header.token.clone()].to_vec())
}

pub(crate) fn run(data: &[u8]) {
    let Some((&origin, data)) = data.split_first() else { return };
    let mut router = Router::new(&EndpointConfig::new([3; 32]), Some(server()));
    // Always the same, so that a fuzzer may come upon it under any origin.
    let sealed = router.shared().new_token(NOW, client(), [5; 16]);
    let (dcid, genuine) = match origin % 3 {
        0 => (ConnectionId::new(&[9; 8]).unwrap(), Vec::new()),
        1 => (ConnectionId::new(&[9; 8]).unwrap(), sealed.clone()),
        _ => retried(&mut router),
    };
    // Laid over: the genuine bytes, changed by and prolonged with those of the input.
    let mut token = genuine.clone();
    token.resize(genuine.len().max(data.len()).min(MAX_TOKEN), 0);
    token.iter_mut().zip(data).for_each(|(byte, change)| *byte ^= change);
    match route(&mut router, &dcid, &token) {
        Route::Incoming(incoming) => {
            assert!(incoming.address_validated(), "under this policy nobody else comes in");
            let is_ours = token == sealed || token == genuine && !genuine.is_empty();
            assert!(is_ours, "only what was sealed here validates an address");
        }
        Route::Respond(response) => {
            assert!(token != genuine || genuine.is_empty(), "a genuine token is good");
            assert!(response.bytes.len() <= 3 * 1_200);
        }
        Route::Drop(_) => assert!(token != genuine),
        other => panic!("{other:?}"),
    }
}
