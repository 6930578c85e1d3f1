use std::io::Write;
use std::thread;

use super::*;

fn descriptor() -> OwnedFd {
    UdpSocket::bind("127.0.0.1:0").unwrap().into()
}

fn hand_over(workers: usize, addresses: usize, further: usize) -> HandOver {
    let sockets = (0..workers).map(|_| (0..addresses).map(|_| descriptor()).collect()).collect();
    let channels = (0..workers).map(|_| channel::pair().unwrap().0).collect();
    let further = (0..further).map(|number| (number as u8, descriptor())).collect();
    HandOver {
        keys: [[1; 32], [2; 32]],
        cid_len: 9,
        is_balanced: true,
        older: 3,
        workers: sockets,
        channels,
        further,
    }
}

#[test]
fn a_hand_over_arrives_whole() {
    for (workers, addresses, count) in [(1, 1, 0), (3, 2, 5), (MAX_WORKERS, 2, 70)] {
        let sent = hand_over(workers, addresses, count);
        let expected = sent.local_addrs().unwrap();
        let (one, other) = UnixStream::pair().unwrap();
        let sending = thread::spawn(move || sent.send(&one));
        let mut received = HandOver::receive(&other).unwrap();
        sending.join().unwrap().unwrap();
        assert_eq!(received.local_addrs().unwrap(), expected);
        assert_eq!((received.keys, received.cid_len, received.older), ([[1; 32], [2; 32]], 9, 3));
        assert_eq!((received.workers.len(), received.channels.len()), (workers, workers));
        let further: Vec<_> = received.take_further().iter().map(|(number, _)| *number).collect();
        assert_eq!(further, (0..count as u8).collect::<Vec<_>>());
    }
}

/// `MAX_ADDRESSES` and `MAX_FURTHER` hold at both ends.
#[test]
fn too_many_descriptors_are_refused() {
    let (one, other) = UnixStream::pair().unwrap();
    assert!(hand_over(1, MAX_ADDRESSES + 1, 0).send(&one).is_err());
    assert!(hand_over(1, 1, MAX_FURTHER + 1).send(&one).is_err());
    let mut head = [&MAGIC[..], &[0; 64]].concat();
    head.extend([8, 1, 1, MAX_FURTHER as u8 + 1, 1, 0]);
    (&one).write_all(&head).unwrap();
    assert_eq!(HandOver::receive(&other).unwrap_err().kind(), io::ErrorKind::InvalidData);
}

#[test]
fn other_content_is_refused() {
    let (one, other) = UnixStream::pair().unwrap();
    (&one).write_all(&[b'x'; FIXED]).unwrap();
    assert_eq!(HandOver::receive(&other).unwrap_err().kind(), io::ErrorKind::InvalidData);
    (&one).write_all(&MAGIC).unwrap();
    drop(one);
    assert_eq!(HandOver::receive(&other).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
}
