//! Tunnels of one user that take an address from each other, in many orders.

use super::*;
use crate::model::{check, interleave, task};

#[test]
fn an_address_has_one_tunnel_which_knows_it() {
    check(Duration::ZERO, || async {
        let network = IpNetwork::new(["10.9.0.0/24".parse().unwrap()], Nowhere).unwrap();
        let address: IpAddr = "10.9.0.7".parse().unwrap();
        let sessions = [session(&network, "alice"), session(&network, "alice")];
        // The second tunnel asks once: a further request of it would hide that the first one has lost an address that it took back.
        let asks = sessions.iter().zip([2, 1]).map(|(session, requests)| {
            let session = Arc::clone(session);
            task(async move {
                for request in 1..=requests {
                    session.answer(&[AssignedAddress { request, prefix: single(address) }]).unwrap();
                }
            })
        });
        let delivers = network.clone();
        let deliver = task(async move {
            // An IPv4 packet without a payload.
            let mut packet = [0; 20];
            (packet[0], packet[3], packet[8], packet[9]) = (0x45, 20, 64, 17);
            packet[16..].copy_from_slice(&[10, 9, 0, 7]);
            delivers.deliver(&packet);
        });
        interleave(asks.chain([deliver])).await;
        for session in &sessions {
            let knows = session.has_addresses();
            assert_eq!(knows, network.has(address, session.tunnel), "the network and the tunnel disagree");
        }
        assert_eq!(sessions.iter().filter(|session| session.has_addresses()).count(), 1);
        sessions.iter().for_each(|session| session.release());
        let other = session(&network, "bob");
        assert_eq!(network.assign(address, other, Some("bob")), Some(address), "the address is not free");
    });
}
