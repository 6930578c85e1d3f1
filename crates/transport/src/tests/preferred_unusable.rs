//! Preferred addresses of servers that must not have one, or that do not answer there (RFC 9000 §9.6, §18.2).

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anabranch_wire::{
    ConnectionId, Frame, PreferredAddress, ResetToken, Side, Time, TransportErrorCode as Code,
    TransportParameters,
};

use super::migration::preferring;
use super::pair::{Pair, pattern, server_addr};
use crate::trace::{Observer, TraceEvent};
use crate::{Endpoint, EndpointConfig, TransportConfig};

fn preferred() -> SocketAddr {
    (Ipv4Addr::new(127, 0, 0, 9), 4434).into()
}

/// Stores the peer's preferred address, if it has sent its parameters.
struct Announced(Arc<Mutex<Option<Option<PreferredAddress>>>>);

impl Observer for Announced {
    fn event(&mut self, _: Time, event: &TraceEvent<'_>) {
        if let TraceEvent::Parameters { local: false, parameters } = event {
            *self.0.lock().unwrap() = Some(parameters.preferred_address);
        }
    }
}

/// Returns a pair whose server has connection IDs of `cid_len` bytes and a preferred address, and what the client
/// learns of that address.
fn announced(
    cid_len: usize,
    change: impl FnOnce(&mut TransportConfig),
) -> (Pair, Arc<Mutex<Option<Option<PreferredAddress>>>>) {
    let mut pair = preferring(preferred());
    let mut config = pair.server_config().clone();
    change(Arc::make_mut(&mut config.transport));
    let endpoint = EndpointConfig::new([2; 32]).with_cid_len(cid_len);
    pair.server = Endpoint::new(&endpoint, Some(Arc::new(config)));
    pair.server.set_auto_accept(true);
    let learned = Arc::default();
    let now = pair.now;
    pair.client().set_observer(now, Box::new(Announced(Arc::clone(&learned))));
    pair.run_until_quiet();
    (pair, learned)
}

#[test]
fn a_server_without_connection_ids_prefers_no_address() {
    let (mut pair, learned) = announced(8, |_| {});
    pair.connect();
    assert!(matches!(*learned.lock().unwrap(), Some(Some(_))));
    let (mut pair, learned) = announced(0, |_| {});
    pair.connect();
    assert!(matches!(*learned.lock().unwrap(), Some(None)));
    // A client takes the parameter from no such server.
    let (pair, _) = announced(0, |transport| {
        transport.hooks.parameters = Some(|parameters: &mut TransportParameters| {
            let (cid, token) = (ConnectionId::new(&[9; 8]).unwrap(), ResetToken([1; 16]));
            parameters.preferred_address = Some(PreferredAddress { v4: None, v6: None, cid, token });
        });
    });
    assert_eq!(pair.code_seen_by(Side::Server), Some(Code::TRANSPORT_PARAMETER_ERROR));
}

#[test]
fn only_probing_frames_go_to_a_preferred_address_before_it_answers() {
    let mut pair = preferring(preferred());
    pair.network = Some(Box::new(move |_, flying| {
        let is_lost = flying.tuple.local == preferred() || flying.tuple.remote == preferred();
        if is_lost { Vec::new() } else { vec![flying] }
    }));
    let log = pair.log(Side::Client);
    pair.connect();
    let data = pattern(500_000);
    assert!(pair.transfer(Side::Client, &data) == data);
    pair.run_for(Duration::from_secs(4));
    assert!(pair.sent_to[&preferred()] >= 1200);
    let usual = pair.client().remote_cid();
    let sent = log.sent();
    // The server has issued the second connection ID for its preferred address.
    let confirmed = sent.iter().position(|packet| packet.dcid == usual).unwrap();
    let probes: Vec<_> = sent[confirmed..].iter().filter(|packet| packet.dcid != usual).collect();
    assert!(!probes.is_empty());
    for packet in probes {
        assert!(packet.frames().all(|frame| frame.is_probing()), "{packet:?}");
        assert!(packet.has(|frame| matches!(frame, Frame::PathChallenge(_))));
    }
    assert_eq!(pair.client().paths().next().unwrap().tuple.remote, server_addr());
}
