use std::time::Duration;

use anabranch_transport::FourTuple;

use super::*;

const ANY: ([u8; 4], u16) = ([127, 0, 0, 1], 0);

#[cfg(any(target_os = "linux", target_os = "android"))]
#[test]
fn packets_reach_the_worker_that_they_name() {
    for count in [2, 3, 4, 32] {
        let workers = bind_workers(ANY.into(), count).unwrap();
        let address = workers[0].local_addr().unwrap();
        for name in 0..=255_u8 {
            let worker = usize::from(name & 0x1f) % count;
            workers[worker].set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            let client = UdpSocket::bind(SocketAddr::from(ANY)).unwrap();
            for packet in [vec![0x40, name, 9, 9], vec![0xc0, 0, 0, 0, 1, 8, name, 9, 9]] {
                client.send_to(&packet, address).unwrap();
                let mut received = [0; 16];
                let (len, from) = workers[worker].recv_from(&mut received).unwrap();
                assert_eq!((&received[..len], from), (&packet[..], client.local_addr().unwrap()));
            }
        }
        // Packets without a connection ID do not disturb.
        for packet in [vec![], vec![0x40], vec![0xc0, 0, 0, 0, 1]] {
            UdpSocket::bind(SocketAddr::from(ANY)).unwrap().send_to(&packet, address).unwrap();
        }
    }
}

#[test]
fn the_number_of_workers_is_checked() {
    for count in [0, MAX_WORKERS + 1] {
        assert_eq!(bind_workers(ANY.into(), count).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
    let alone = bind_workers(ANY.into(), 1).unwrap();
    let several = bind_workers(ANY.into(), 2).unwrap();
    for taken in [&alone, &several] {
        let again = bind_workers(taken[0].local_addr().unwrap(), 2).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AddrInUse, "no other process joins");
    }
}

#[test]
fn a_mailbox_is_bounded() {
    let mut mailbox = Mailbox::default();
    let tuple = FourTuple { local: ANY.into(), remote: ANY.into() };
    let mut stored = 0;
    let mut bytes = [7; 1_200];
    while mailbox.push(&Datagram { tuple, ecn: None, payload: &mut bytes }) {
        stored += 1;
        assert!(stored * bytes.len() <= MAX_HANDED_OVER);
    }
    assert!(stored * (bytes.len() + 200) > MAX_HANDED_OVER);
    assert_eq!(mailbox.take().len(), stored);
    assert!(mailbox.push(&Datagram { tuple, ecn: None, payload: &mut bytes }));
    mailbox.close();
    assert!(mailbox.take().is_empty());
    assert!(!mailbox.push(&Datagram { tuple, ecn: None, payload: &mut bytes }), "the worker has ended");
}
