//! Routes, rules and resolvers after a VPN has ended or was killed.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::spaces::{RESOLVER, Spaces, TARGET};

/// Starts a TCP server on the target, which closes each connection. Returns its address.
fn listen(spaces: &Spaces) -> SocketAddr {
    let listener = spaces.within("t", || TcpListener::bind((TARGET[0], 80)).unwrap());
    let address = listener.local_addr().unwrap();
    spaces.serve_within("t", move || {
        for stream in listener.incoming() {
            drop(stream);
        }
    });
    address
}

fn reach(spaces: &Spaces, target: SocketAddr) -> io::Result<SocketAddr> {
    spaces.within("c", || TcpStream::connect_timeout(&target, Duration::from_secs(5))?.local_addr())
}

#[test]
fn everything_is_as_before_after_the_end() {
    let Some(spaces) = Spaces::make("everything_is_as_before_after_the_end") else { return };
    let before = spaces.situation();
    assert!(before.starts_with(RESOLVER));
    let _proxy = spaces.proxy();
    let mut vpn = spaces.connect(&["--dns", "10.70.0.2", "--exclude", "192.0.2.0/24", "--kill-switch"]);
    let during = spaces.situation();
    for part in ["nameserver 10.70.0.2", "192.0.2.0/24", "10.71.1.1", "anabranch0", "search before.example"] {
        assert!(during.contains(part), "{part}: {during}");
    }
    assert!(vpn.terminate().success(), "{}", vpn.log());
    assert_eq!(spaces.situation(), before);
    assert!(!spaces.path("run").exists(), "no file is left");
    let clean = spaces.run("c", &["vpn", "clean"]);
    assert_eq!(String::from_utf8(clean.stdout).unwrap(), "nothing was left\n");
}

#[test]
fn everything_is_as_before_after_a_kill_and_a_clean_up() {
    let Some(spaces) = Spaces::make("everything_is_as_before_after_a_kill_and_a_clean_up") else { return };
    let target = listen(&spaces);
    let before = spaces.situation();
    // Without a VPN, packets use the host's own route.
    assert_eq!(reach(&spaces, target).unwrap().ip().to_string(), "10.71.1.2");
    let proxy = spaces.proxy();
    let mut vpn = spaces.connect(&["--dns", "10.70.0.2", "--kill-switch"]);
    assert_eq!(reach(&spaces, target).unwrap().ip().to_string(), "10.9.0.2");
    vpn.kill();
    // The kill switch keeps packets from going around the tunnel.
    assert!(reach(&spaces, target).is_err());
    assert_ne!(spaces.situation(), before);
    // The next VPN starts while the kill switch is set, and connects.
    let mut next = spaces.connect(&["--dns", "10.70.0.2", "--kill-switch"]);
    assert_eq!(reach(&spaces, target).unwrap().ip().to_string(), "10.9.0.2");
    next.kill();
    // Without a proxy the next VPN does not start, and the kill switch stays.
    drop(proxy);
    let failed = spaces.run("c", &spaces.vpn(&["--kill-switch", "--timeout", "1"]));
    assert!(!failed.status.success() && reach(&spaces, target).is_err());
    let clean = spaces.run("c", &["vpn", "clean"]);
    let said = String::from_utf8(clean.stdout).unwrap();
    assert!(said.starts_with("removed ") && said.ends_with("and the resolvers\n"), "{said}");
    assert_eq!(spaces.situation(), before);
    assert!(!spaces.path("run").exists(), "no file is left");
    assert!(reach(&spaces, target).is_ok());
}

#[test]
fn no_packet_goes_around_the_tunnel_while_a_kill_switch_is_taken_over() {
    let Some(spaces) = Spaces::make("no_packet_goes_around_the_tunnel_while_a_kill_switch_is_taken_over")
    else {
        return;
    };
    let seen = spaces.within("t", || UdpSocket::bind((TARGET[0], 7)).unwrap());
    let program = spaces.within("c", || UdpSocket::bind("0.0.0.0:0").unwrap());
    let before = spaces.situation();
    let _proxy = spaces.proxy();
    let split = ["--kill-switch", "--exclude", "192.0.2.0/24", "--dns", "10.70.0.2"];
    spaces.connect(&split).kill();
    let (over, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut next = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                // Most of the time there is no route.
                let _ = program.send_to(b"leak?", (TARGET[0], 7));
                sent.fetch_add(1, Ordering::Relaxed);
            }
        });
        let next = spaces.connect(&["--kill-switch"]);
        over.store(true, Ordering::Relaxed);
        next
    });
    // Those that were sent after the start went through the tunnel.
    seen.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let mut through = 0_u32;
    while let Ok((_, from)) = seen.recv_from(&mut [0; 10]) {
        assert_eq!(from.ip().to_string(), "10.9.0.2");
        through += 1;
    }
    eprintln!("{} packets were sent, {through} through the tunnel", sent.into_inner());
    // The new VPN has no exclusion and no resolver.
    let during = spaces.situation();
    assert!(during.starts_with(RESOLVER) && !during.contains("192.0.2.0/24"), "{during}");
    assert!(next.terminate().success());
    assert_eq!(spaces.situation(), before);
}

#[test]
fn the_next_start_undoes_what_a_killed_vpn_left() {
    let Some(spaces) = Spaces::make("the_next_start_undoes_what_a_killed_vpn_left") else { return };
    let target = listen(&spaces);
    let before = spaces.situation();
    let _proxy = spaces.proxy();
    spaces.connect(&["--dns", "10.70.0.2"]).kill();
    let mut next = spaces.connect(&["--route", "10.70.0.0/16"]);
    assert!(next.log().contains("undid what a VPN had left"), "{}", next.log());
    let during = spaces.situation();
    assert!(during.starts_with(RESOLVER) && during.contains("10.70.0.0/16 dev anabranch0"), "{during}");
    assert_eq!(reach(&spaces, target).unwrap().ip().to_string(), "10.9.0.2");
    assert!(next.terminate().success());
    assert_eq!(spaces.situation(), before);
}
