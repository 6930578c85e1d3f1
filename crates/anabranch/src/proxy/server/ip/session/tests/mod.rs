#[cfg(feature = "model")]
mod model;

use std::time::Duration;

use http::Version;
use tokio::sync::Semaphore;

use super::super::super::flow::{Facts, Record};
use super::super::super::limits::{UserLimits, UserState};
use super::super::super::target::Carried;
use super::super::{IpFlow, PacketSink};
use super::*;

struct Nowhere;

impl PacketSink for Nowhere {
    fn send(&self, _: &[u8]) -> bool {
        false
    }
}

/// Returns a tunnel of a user.
fn session(network: &IpNetwork, user: &str) -> Arc<Session> {
    let client = ([192, 0, 2, 1], 1).into();
    let record = Record {
        user: None,
        client,
        version: Version::HTTP_3,
        carried: Carried::Ip,
        target: None,
        address: None,
        sent: 0,
        received: 0,
        dropped: 0,
        duration: Duration::ZERO,
        outcome: Outcome::Complete,
    };
    let place = Arc::new(UserState::default()).enter(&UserLimits::default(), client).unwrap();
    let permit = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
    let flow = Flow::new(Facts { begun: Instant::now(), record }, place, None, permit);
    let ip = IpFlow {
        network: network.clone(),
        flow: Arc::new(flow),
        allow: Box::new(|_, _| true),
        user: Some(user.to_owned()),
    };
    Arc::new(Session::new(ip, None))
}

#[test]
fn an_address_that_another_tunnel_has_taken_is_not_kept() {
    let network = IpNetwork::new(["10.9.0.0/24".parse().unwrap()], Nowhere).unwrap();
    let (first, second) = (session(&network, "alice"), session(&network, "alice"));
    let address: IpAddr = "10.9.0.7".parse().unwrap();
    assert_eq!(network.assign(address, first.clone(), Some("alice")), Some(address));
    // The second tunnel takes the address before the first one has stored it.
    assert_eq!(network.assign(address, second.clone(), Some("alice")), Some(address));
    assert!(!first.keep(address) && second.keep(address));
    assert!(!first.has_addresses() && second.has_addresses());
    // A tunnel that stores the address first loses it.
    assert_eq!(network.assign(address, first.clone(), Some("alice")), Some(address));
    assert!(first.keep(address) && first.has_addresses() && !second.has_addresses());
}
