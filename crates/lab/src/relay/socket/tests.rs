use mio::Poll;

use super::*;

/// Returns a socket. Datagrams over the loopback interface can be read once they are sent.
fn socket() -> Socket {
    let poll = Poll::new().unwrap();
    Socket::bind(([127, 0, 0, 1], 0).into(), poll.registry(), Token(0)).unwrap()
}

/// Packets sent in batches arrive unchanged, one datagram for each packet.
#[test]
fn batches_keep_packets_and_marks_apart() {
    let (from, to, other) = (socket(), socket(), socket());
    let packet = |len: usize, fill: u8, ecn, to: &Socket| Packet {
        source: from.local_addr().unwrap(),
        destination: to.local_addr().unwrap(),
        ecn,
        payload: vec![fill; len],
    };
    let ect = Some(Ecn::Ect0);
    let sent = [
        packet(1200, 1, ect, &to),
        packet(1200, 2, ect, &to),
        packet(700, 3, ect, &to),
        packet(1200, 4, ect, &to),
        packet(1400, 5, None, &to),
        packet(9, 6, None, &other),
        packet(1400, 7, None, &to),
    ];
    let mut batch = Batch::default();
    sent.iter().for_each(|packet| batch.add(&from, packet));
    batch.flush(&from);
    let read = |socket: &Socket, count: usize| {
        let (mut buffer, mut all) = (vec![0; MAX_RECEIVE_BYTES], Vec::new());
        while all.len() < count {
            let arrived = socket.receive(&mut buffer).unwrap();
            all.extend(arrived.datagrams().map(|(ecn, bytes)| (ecn, bytes.to_vec())));
        }
        all
    };
    let expected: Vec<_> = sent
        .iter()
        .filter(|packet| packet.destination == to.local_addr().unwrap())
        .map(|packet| (packet.ecn, packet.payload.clone()))
        .collect();
    assert_eq!(read(&to, expected.len()), expected);
    assert_eq!(read(&other, 1), [(None, vec![6; 9])]);
}

#[test]
fn batches_are_bounded() {
    let (from, to) = (socket(), socket());
    let packet = Packet {
        source: from.local_addr().unwrap(),
        destination: to.local_addr().unwrap(),
        ecn: None,
        payload: vec![1; 1472],
    };
    let mut batch = Batch::default();
    for _ in 0..2 * MAX_SEGMENTS {
        batch.add(&from, &packet);
        assert!(batch.bytes.len() <= MAX_SEGMENTS * 1472);
    }
}
