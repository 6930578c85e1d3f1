//! The lab derives the randomness of its TLS from seeds, in the same program. Connections over a real network
//! must not use it.

use std::collections::BTreeSet;
use std::net::{SocketAddr, UdpSocket};
use std::process::Command;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::{Server, status, stderr};

/// Clients and servers that are started with the same arguments never choose the same connection IDs or
/// client randoms.
#[test]
fn nothing_random_comes_twice() {
    let mut seen = BTreeSet::new();
    let mut is_new = |what: &str, value: Vec<u8>| {
        assert!(value.len() >= 8, "{what}: {value:?}");
        assert!(seen.insert(value.clone()), "{what} came twice: {value:?}");
    };
    for _ in 0..2 {
        let server = Server::serve();
        for _ in 0..2 {
            let (relay, ids) = relay(server.address);
            let here = tempfile::tempdir().unwrap();
            let output = Command::new(env!("CARGO_BIN_EXE_anabranch"))
                .args([
                    "get",
                    "--hq",
                    &format!("https://localhost:{}/small", relay.port()),
                    "--ca",
                    &server.ca(),
                ])
                .args(["-o", "-"])
                .env("SSLKEYLOGFILE", here.path().join("secrets"))
                .output()
                .unwrap();
            assert_eq!((status(&output), &output.stdout[..]), (0, &b"small file"[..]), "{}", stderr(&output));
            for (what, id) in ids.join().unwrap() {
                is_new(what, id);
            }
            let secrets = std::fs::read_to_string(here.path().join("secrets")).unwrap();
            let random = secrets.lines().find_map(|line| {
                line.strip_prefix("CLIENT_TRAFFIC_SECRET_0 ")?.split(' ').next().map(str::to_owned)
            });
            is_new("client random", random.unwrap().into_bytes());
        }
    }
}

type Ids = [(&'static str, Vec<u8>); 3];

/// Forwards datagrams until a second after the last one, and returns the connection IDs that both ends chose.
fn relay(server: SocketAddr) -> (SocketAddr, JoinHandle<Ids>) {
    let [outside, inside] = [(), ()].map(|()| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        socket
    });
    let address = outside.local_addr().unwrap();
    let passing = std::thread::spawn(move || {
        let mut bytes = [0; 2048];
        let (mut client, mut asked, mut answered) = (None, None, None);
        let mut last = Instant::now();
        while client.is_none() || last.elapsed() < Duration::from_secs(1) {
            assert!(last.elapsed() < Duration::from_secs(60), "nobody asks");
            if let Ok((length, from)) = outside.recv_from(&mut bytes) {
                (client, last) = (Some(from), Instant::now());
                asked.get_or_insert_with(|| chosen(&bytes));
                inside.send_to(&bytes[..length], server).unwrap();
            }
            if let (Ok((length, _)), Some(client)) = (inside.recv_from(&mut bytes), client) {
                last = Instant::now();
                answered.get_or_insert_with(|| chosen(&bytes));
                outside.send_to(&bytes[..length], client).unwrap();
            }
        }
        let ([first, client], [_, server]) = (asked.unwrap(), answered.unwrap());
        [("first destination", first), ("client's connection ID", client), ("server's connection ID", server)]
    });
    (address, passing)
}

/// Returns the destination and source connection IDs of a long header.
fn chosen(bytes: &[u8]) -> [Vec<u8>; 2] {
    let (length, rest) = bytes[5..].split_first().unwrap();
    let (destination, rest) = rest.split_at(usize::from(*length));
    let (length, rest) = rest.split_first().unwrap();
    [destination.to_vec(), rest[..usize::from(*length)].to_vec()]
}
