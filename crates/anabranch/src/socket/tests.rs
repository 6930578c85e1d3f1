use anabranch_transport::FourTuple;
use anabranch_wire::Ecn;

use super::*;

async fn receive(socket: &Socket, batch: &mut ReceiveBatch) {
    std::future::poll_fn(|cx| socket.poll_receive(cx, batch)).await.unwrap();
}

/// Returns a batch of up to three datagrams; the last one is shorter.
fn batch(socket: &Socket, tuple: FourTuple) -> (Transmit, Vec<u8>) {
    let segments = socket.max_segments().min(3);
    let contents: Vec<u8> =
        (0..segments as u8).flat_map(|i| vec![i; 1200]).take(segments * 1200 - 200).collect();
    let segment_size = 1200.min(contents.len());
    (Transmit { tuple, ecn: Some(Ecn::Ect0), len: contents.len(), segment_size }, contents)
}

/// Checks the datagrams that arrive at `socket`, until their total length is that of `contents`.
async fn expect(socket: &Socket, tuple: FourTuple, contents: &[u8]) {
    let mut batch = ReceiveBatch::new();
    let mut received = Vec::new();
    while received.len() < contents.len() {
        receive(socket, &mut batch).await;
        for datagram in batch.datagrams() {
            assert_eq!((datagram.tuple, datagram.ecn), (tuple, Some(Ecn::Ect0)));
            assert_eq!(datagram.payload.len(), 1200.min(contents.len() - received.len()));
            received.extend_from_slice(datagram.payload);
        }
    }
    assert_eq!(received, contents);
}

fn whole_of(contents: &[u8]) -> Sent {
    Sent { done: contents.len(), unreachable: None }
}

#[test]
fn errors_that_concern_one_way_only() {
    // ENETDOWN, ENETUNREACH, EHOSTUNREACH, EADDRNOTAVAIL, EPERM, ENODEV on Linux.
    #[cfg(target_os = "linux")]
    for code in [100, 101, 113, 99, 1, 19] {
        assert!(is_about_the_way(&io::Error::from_raw_os_error(code)), "{code}");
    }
    // EMSGSIZE occurs with MTU probes, EAGAIN with a full socket.
    #[cfg(target_os = "linux")]
    for code in [90, 11] {
        assert!(!is_about_the_way(&io::Error::from_raw_os_error(code)), "{code}");
    }
}

/// A loopback address cannot reach TEST-NET-1, which is the only destination without a route on every host.
#[tokio::test]
async fn an_address_without_a_way_is_told() {
    let socket = Socket::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let tuple = FourTuple { local: socket.local_addr(), remote: "192.0.2.1:9".parse().unwrap() };
    let transmit = Transmit { tuple, ecn: None, len: 3, segment_size: 3 };
    assert!(socket.send(&transmit, b"abc").unreachable.is_some() || cfg!(not(target_os = "linux")));
}

fn sockets() -> (Socket, Socket, SocketAddr) {
    let [a, b] = [(); 2].map(|()| Socket::bind("0.0.0.0:0".parse().unwrap()).unwrap());
    let b_address = SocketAddr::new([127, 0, 0, 1].into(), b.local_addr().port());
    (a, b, b_address)
}

/// Batches keep datagram boundaries, ECN marks and addresses, even on a wildcard socket.
#[tokio::test]
async fn a_batch_arrives_as_it_was_sent() {
    let (a, b, b_address) = sockets();
    let a_address = SocketAddr::new([127, 0, 0, 1].into(), a.local_addr().port());
    let (transmit, contents) = batch(&a, FourTuple { local: a_address, remote: b_address });
    assert_eq!(a.send(&transmit, &contents), whole_of(&contents));
    expect(&b, FourTuple { local: b_address, remote: a_address }, &contents).await;

    let whole = quinn_udp::Transmit {
        destination: b_address,
        ecn: Some(EcnCodepoint::Ect0),
        contents: &contents,
        segment_size: Some(1200),
        src_ip: None,
    };
    assert_eq!(a.send_singly(&whole), whole_of(&contents));
    expect(&b, FourTuple { local: b_address, remote: a_address }, &contents).await;
}

#[tokio::test]
async fn an_address_that_is_gone_costs_nothing() {
    let (a, b, b_address) = sockets();
    let a_address = SocketAddr::new([127, 0, 0, 1].into(), a.local_addr().port());
    let segments = a.max_segments();
    let gone = SocketAddr::new([192, 0, 2, 55].into(), a_address.port());
    let (transmit, contents) = batch(&a, FourTuple { local: gone, remote: b_address });
    assert_eq!(a.send(&transmit, &contents), whole_of(&contents));
    expect(&b, FourTuple { local: b_address, remote: a_address }, &contents).await;
    assert_eq!(a.max_segments(), segments, "batches go on");
}

#[tokio::test]
async fn sockets_know_whom_they_serve() {
    let wildcard = Socket::bind("0.0.0.0:0".parse().unwrap()).unwrap();
    let port = wildcard.local_addr().port();
    assert!(wildcard.serves(SocketAddr::new([127, 0, 0, 1].into(), port)));
    assert!(!wildcard.serves(SocketAddr::new([127, 0, 0, 1].into(), port ^ 1)));
    assert!(wildcard.address_for("[::1]:1".parse().unwrap()).is_none());
    let Ok(v6) = Socket::bind("[::]:0".parse().unwrap()) else { return };
    let mapped = v6.address_for("192.0.2.1:4".parse().unwrap());
    assert_eq!(mapped, Some("[::ffff:192.0.2.1]:4".parse().unwrap()));
}
