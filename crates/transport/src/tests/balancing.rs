//! Connection IDs that name the server, on all paths (draft-ietf-quic-load-balancers-21).

use std::sync::Arc;
use std::time::Duration;

use anabranch_wire::{ConnectionId, PathId, Side};

use super::multipath::second_addr;
use super::pair::{Pair, pattern};
use super::paths::open_and_wait;
use crate::{
    CidRotation, Endpoint, EndpointConfig, LoadBalancing, MigrateError, MultipathConfig, Numbering,
    PathState, ServerId, ServerIdDecoder, TransportConfig,
};

fn balancing(config_id: u8) -> LoadBalancing {
    LoadBalancing::new(config_id, ServerId::new(&[1, 2, config_id]).unwrap(), 8).with_key([config_id; 16])
}

/// Returns a pair whose server issues connection IDs with the first configuration.
fn pair(numbering: Numbering) -> Pair {
    let paths = MultipathConfig::default().with_numbering(numbering);
    pair_with(|transport| transport.multipath = Some(paths.clone()))
}

fn pair_with(change: impl Fn(&mut TransportConfig)) -> Pair {
    let mut pair = Pair::with_transport(change);
    let config = EndpointConfig::new([2; 32]).with_load_balancing(balancing(0));
    let server = pair.server_config().clone();
    pair.server = Endpoint::new(&config, Some(Arc::new(server)));
    pair.server.set_auto_accept(true);
    pair
}

/// Returns whether the server has issued only connection IDs of this configuration, for open paths and further ones.
fn issues_only(pair: &mut Pair, config_id: u8) -> bool {
    let decoder = ServerIdDecoder::new(&balancing(config_id)).unwrap();
    let is_named = |cid: ConnectionId| decoder.server_id(&cid) == Some(balancing(config_id).server_id());
    let issued = pair.server().all_issued_cids();
    assert!(issued.len() >= 4, "{issued:?}");
    issued.into_iter().all(is_named)
}

#[test]
fn all_paths_lead_to_the_server() {
    for numbering in [Numbering::Multiple, Numbering::Single] {
        let mut pair = pair(numbering);
        pair.connect();
        pair.run_until_quiet();
        assert_eq!(open_and_wait(&mut pair, second_addr()), PathId(1));
        assert!(issues_only(&mut pair, 0), "{numbering:?}");
        // Another configuration: earlier connection IDs stay until they are given up.
        pair.server.set_load_balancing(balancing(1)).unwrap();
        let data = pattern(50_000);
        assert!(pair.transfer(Side::Client, &data) == data);
        assert!(issues_only(&mut pair, 0), "{numbering:?}");
        pair.server().renew_cids();
        assert!(pair.transfer(Side::Client, &data) == data);
        pair.run_until_quiet();
        assert!(issues_only(&mut pair, 1), "{numbering:?}");
        assert!(pair.transfer(Side::Server, &data) == data);
        let paths = pair.client().paths().filter(|path| path.state == PathState::Open).count();
        assert_eq!(paths, 2);
    }
}

#[test]
fn connection_ids_are_renewed_after_the_handshake() {
    let mut pair = pair(Numbering::Multiple);
    let limit = Duration::from_secs(1);
    pair.run_until(limit, |pair| pair.server_handle.is_some());
    pair.server.set_load_balancing(balancing(1)).unwrap();
    pair.server().renew_cids();
    pair.connect();
    pair.run_until_quiet();
    assert!(issues_only(&mut pair, 1));
    let data = pattern(50_000);
    assert!(pair.transfer(Side::Client, &data) == data);
}

/// Clients of a server that has used up its nonces are asked not to migrate, since load balancers go by their addresses (§3.2).
#[test]
fn without_nonces_clients_stay_where_they_are() {
    for (is_exhausted, may_migrate) in [(false, true), (true, false)] {
        let mut pair = pair(Numbering::Multiple);
        if is_exhausted {
            pair.server.router().shared().use_up_cids();
        }
        pair.connect();
        pair.run_until_quiet();
        let now = pair.now;
        let forbidden = pair.client().migrate(now, second_addr()) == Err(MigrateError::Forbidden);
        assert_eq!(forbidden, !may_migrate);
    }
}

/// Connection IDs that lead to the server are not given up for others that do not (§3.2).
#[test]
fn without_nonces_connection_ids_stay() {
    for is_exhausted in [false, true] {
        let mut pair =
            pair_with(|transport| transport.cid_rotation = Some(CidRotation::new(Duration::MAX, 100)));
        pair.connect();
        pair.run_until_quiet();
        if is_exhausted {
            pair.server.router().shared().use_up_cids();
        }
        let before = pair.client().remote_cid();
        let data = pattern(1_000_000);
        assert!(pair.transfer(Side::Client, &data) == data);
        pair.run_until_quiet();
        assert_eq!(pair.client().remote_cid() == before, is_exhausted);
    }
}
