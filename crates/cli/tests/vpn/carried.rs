//! Packets and connections through the VPN.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anabranch_testkit::pattern;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, recv, sendto, setsockopt, socket,
    sockopt,
};
use nix::sys::time::TimeVal;

use super::spaces::{PATIENCE, Spaces, TARGET, eventually, ip};

/// Length of the download, in bytes.
const LEN: usize = 20_000_000;

/// Starts a TCP server on each address of the target, which sends `len` bytes after the client's first bytes.
fn web(spaces: &Spaces, len: usize) {
    for address in TARGET {
        let (tell, told) = std::sync::mpsc::channel();
        spaces.serve_within("t", move || {
            let listener = TcpListener::bind((address, 80)).unwrap();
            tell.send(()).unwrap();
            for stream in listener.incoming() {
                std::thread::spawn(move || {
                    let mut stream = stream.unwrap();
                    let _ = stream.read(&mut [0; 100]);
                    let _ = stream.write_all(&pattern(len));
                });
            }
        });
        told.recv().unwrap();
    }
}

/// Starts a UDP server on each address of the target, which echoes datagrams.
fn echo(spaces: &Spaces) {
    for address in TARGET {
        let (tell, told) = std::sync::mpsc::channel();
        spaces.serve_within("t", move || {
            let socket = UdpSocket::bind((address, 7)).unwrap();
            tell.send(()).unwrap();
            let mut buffer = vec![0; 65_535];
            while let Ok((len, from)) = socket.recv_from(&mut buffer) {
                let _ = socket.send_to(&buffer[..len], from);
            }
        });
        told.recv().unwrap();
    }
}

/// Limits the rate at which a device sends. `limits` are arguments of tc-tbf(8).
fn limit(space: &str, device: &str, limits: &str) {
    let args = format!("-n {space} qdisc add dev {device} root tbf {limits}");
    let output = std::process::Command::new("tc").args(args.split(' ')).output().unwrap();
    assert!(output.status.success(), "tc {args}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Opens a UDP socket that is connected to the target's echo server.
fn udp(address: &str) -> UdpSocket {
    let any = if address.contains(':') { "[::]:0" } else { "0.0.0.0:0" };
    let socket = UdpSocket::bind(any).unwrap();
    socket.connect((address, 7)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    socket
}

/// Sends an ICMP echo request to the target, and waits for the reply.
fn ping() {
    let raw = socket(AddressFamily::Inet, SockType::Raw, SockFlag::empty(), SockProtocol::Icmp).unwrap();
    setsockopt(&raw, sockopt::ReceiveTimeout, &TimeVal::new(5, 0)).unwrap();
    // Type, code, checksum, identifier, sequence number.
    let request = [8, 0, 0xe5, 0xfd, 0x12, 0x02, 0, 0];
    let fd = std::os::fd::AsRawFd::as_raw_fd(&raw);
    sendto(fd, &request, &SockaddrIn::new(10, 70, 0, 2, 0), MsgFlags::empty()).unwrap();
    let mut reply = [0; 100];
    loop {
        let len = recv(fd, &mut reply, MsgFlags::empty()).unwrap();
        if reply[20..len].starts_with(&[0, 0]) {
            assert_eq!((&reply[12..16], &reply[24..26]), (&[10, 70, 0, 2][..], &[0x12, 0x02][..]));
            return;
        }
    }
}

#[test]
fn everything_passes_and_a_download_survives_the_death_of_a_link() {
    let Some(spaces) = Spaces::make("everything_passes_and_a_download_survives_the_death_of_a_link") else {
        return;
    };
    web(&spaces, LEN);
    echo(&spaces);
    for link in ["wifi0", "lte0"] {
        // Limits the rate from the proxy to the client.
        limit(&spaces.space("s"), &link.replace('0', "1"), "rate 60mbit burst 32k latency 30ms");
    }
    let _proxy = spaces.proxy();
    let mut vpn = spaces.connect(&[]);
    spaces.within("c", || {
        ping();
        for address in TARGET {
            let socket = udp(address);
            socket.send(b"hello").unwrap();
            let mut reply = [0; 100];
            assert_eq!(socket.recv(&mut reply).unwrap(), 5, "{address}");
            // No socket listens on the port, so the target's refusal reaches the program.
            let error = TcpStream::connect((address, 81)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused, "{address}");
        }
        // ICMP errors reach programs that use UDP, too.
        let closed = UdpSocket::bind("0.0.0.0:0").unwrap();
        closed.connect((TARGET[0], 9)).unwrap();
        closed.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        closed.send(b"anybody?").unwrap();
        assert_eq!(closed.recv(&mut [0; 10]).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    });
    for (address, dies) in [(TARGET[1], false), (TARGET[0], true)] {
        let begin = Instant::now();
        let mut stream = spaces.within("c", || TcpStream::connect((address, 80)).unwrap());
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(b"GET\n").unwrap();
        let (mut received, mut piece, mut died, mut gap) =
            (Vec::new(), vec![0; 65_536], false, Duration::ZERO);
        let mut last = Instant::now();
        loop {
            let len = stream.read(&mut piece).unwrap();
            gap = gap.max(last.elapsed());
            last = Instant::now();
            if len == 0 {
                break;
            }
            received.extend_from_slice(&piece[..len]);
            if dies && !died && received.len() > LEN / 3 {
                ip(&format!("-n {} link set wifi0 down", spaces.space("c")));
                died = true;
            }
        }
        assert!(received == pattern(LEN), "{} bytes", received.len());
        let took = begin.elapsed();
        let rate = LEN as f64 * 8.0 / took.as_secs_f64() / 1e6;
        eprintln!("{address}: {LEN} bytes in {took:?} ({rate:.0} Mbit/s), longest gap {gap:?}");
    }
    // Packets pass on the other link.
    spaces.within("c", ping);
    assert!(vpn.terminate().success(), "{}", vpn.log());
}

#[test]
fn programs_learn_which_packets_fit() {
    let Some(spaces) = Spaces::make("programs_learn_which_packets_fit") else { return };
    echo(&spaces);
    let _proxy = spaces.proxy();
    let _vpn = spaces.connect(&[]);
    spaces.within("c", || {
        for address in TARGET {
            let socket = udp(address);
            // After the ICMP message, the kernel no longer sends such a datagram in one piece.
            let header = if address.contains(':') { 48 } else { 28 };
            let begin = Instant::now();
            let mut fragments = false;
            while begin.elapsed() < PATIENCE && !fragments {
                let _ = socket.send(&vec![7; 1_500 - header]);
                socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
                // The datagram arrives once the kernel fragments it.
                fragments = socket.recv(&mut [0; 2_000]).is_ok_and(|len| len == 1_500 - header);
            }
            assert!(fragments, "{address}");
        }
    });
    // In the other direction, the target gets the ICMP message.
    let from_target = spaces.within("t", || UdpSocket::bind("10.70.0.2:0").unwrap());
    let at_client = spaces.within("c", || UdpSocket::bind("10.9.0.2:0").unwrap());
    at_client.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let begin = Instant::now();
    let mut arrived = false;
    while begin.elapsed() < PATIENCE && !arrived {
        let _ = from_target.send_to(&[7; 1_472], at_client.local_addr().unwrap());
        arrived = at_client.recv(&mut [0; 2_000]).is_ok();
    }
    assert!(arrived, "the target fragments what does not fit");
}

#[test]
fn packets_that_the_proxy_does_not_forward_do_not_go_around_the_tunnel() {
    let Some(spaces) = Spaces::make("packets_that_the_proxy_does_not_forward_do_not_go_around_the_tunnel")
    else {
        return;
    };
    // An address to which the proxy does not forward packets, and that the client reaches by its default route.
    ip(&format!("-n {} address add 10.66.0.1/32 dev lo", spaces.space("s")));
    let forbidden = spaces.within("s", || UdpSocket::bind("10.66.0.1:7").unwrap());
    forbidden.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let refused = || {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        socket.connect(("10.66.0.1", 7)).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        socket.send(b"leak?").unwrap();
        socket.recv(&mut [0; 10]).unwrap_err().kind()
    };
    let arrived = || forbidden.recv(&mut [0; 10]).is_ok();
    spaces.within("c", refused);
    assert!(arrived(), "without a VPN the packet takes the host's own route");
    let _proxy =
        spaces.proxy_at("0.0.0.0:4433", &["--vpn-route", "10.70.0.0/16", "--vpn-route", "fd70::/16"]);
    let vpn = spaces.connect(&[]);
    assert!(
        vpn.log().contains("the proxy carries nothing but TCP to some networks, 0.0.0.0 among"),
        "{}",
        vpn.log()
    );
    spaces.within("c", ping);
    // The report arrives like that of a router (ICMP, "administratively prohibited").
    assert_eq!(spaces.within("c", refused), io::ErrorKind::HostUnreachable);
    drop(vpn);
    // Packets to excluded networks take the host's own route.
    let vpn = spaces.connect(&["--exclude", "10.66.0.1"]);
    spaces.within("c", refused);
    assert!(arrived());
    forbidden.set_nonblocking(true).unwrap();
    assert!(!arrived(), "one packet came from around the tunnel");
    drop(vpn);
}

#[test]
fn a_call_does_not_notice_a_flood() {
    let Some(spaces) = Spaces::make("a_call_does_not_notice_a_flood") else { return };
    echo(&spaces);
    for device in ["wifi0", "lte0"] {
        // Limits the rate from the client to the proxy.
        limit(&spaces.space("c"), device, "rate 5mbit burst 8k latency 100ms");
    }
    let _proxy = spaces.proxy();
    let _vpn = spaces.connect(&[]);
    let call = spaces.within("c", || udp(TARGET[0]));
    let flood = spaces.within("c", || {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        socket.connect((TARGET[0], 9)).unwrap();
        socket
    });
    let over = AtomicBool::new(false);
    // The most bytes that both links carry in this time are a third of the flood.
    let (sent, answered) = std::thread::scope(|scope| {
        scope.spawn(|| {
            let begin = Instant::now();
            let mut sent = 0.0;
            while !over.load(Ordering::Relaxed) {
                // The port is closed, so that sending reports ICMP errors.
                let _ = flood.send(&[0; 1_200]);
                sent += 1_200.0 * 8.0;
                let due = Duration::from_secs_f64(sent / 30e6);
                std::thread::sleep(due.saturating_sub(begin.elapsed()));
            }
        });
        // Lets the queues fill.
        std::thread::sleep(Duration::from_secs(1));
        let begin = Instant::now();
        let (mut sent, mut answered) = (0_u32, 0_u32);
        call.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        while begin.elapsed() < Duration::from_secs(5) {
            sent += u32::from(call.send(&[7; 160]).is_ok());
            let next = begin + sent * Duration::from_millis(20);
            while Instant::now() < next {
                answered += u32::from(call.recv(&mut [0; 200]).is_ok());
            }
        }
        call.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        while call.recv(&mut [0; 200]).is_ok() {
            answered += 1;
        }
        over.store(true, Ordering::Relaxed);
        (sent, answered)
    });
    eprintln!("{answered} of {sent} datagrams of the call were answered");
    assert!(answered * 20 >= sent * 19, "{answered} of {sent}");
}

#[test]
fn rules_by_port_hold_in_the_vpn() {
    let Some(spaces) = Spaces::make("rules_by_port_hold_in_the_vpn") else { return };
    echo(&spaces);
    let (tell, told) = std::sync::mpsc::channel();
    spaces.serve_within("t", move || {
        // Tells the addresses from which datagrams come.
        let socket = UdpSocket::bind((TARGET[0], 5_060)).unwrap();
        tell.send(None).unwrap();
        let mut buffer = [0; 100];
        while let Ok((len, from)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(&buffer[..len], from);
            let _ = tell.send(Some((from.ip().to_string(), buffer[..len].to_vec())));
        }
    });
    assert_eq!(told.recv().unwrap(), None);
    let _proxy = spaces.proxy();
    let _vpn = spaces.connect(&["--preset", "calls", "--ordered", "udp:7=100"]);
    spaces.within("c", || {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.connect((TARGET[0], 5_060)).unwrap();
        for number in 0..50_u8 {
            socket.send(&[number]).unwrap();
            let mut reply = [0; 10];
            assert_eq!((socket.recv(&mut reply).unwrap(), reply[0]), (1, number));
        }
        for address in TARGET {
            let ordered = udp(address);
            ordered.send(b"hello").unwrap();
            assert_eq!(ordered.recv(&mut [0; 10]).unwrap(), 5, "{address}");
        }
    });
    // Each datagram arrives once, from the proxy's own address, although it was sent on two paths.
    let seen: Vec<_> = told.try_iter().flatten().collect();
    assert_eq!(seen.len(), 50);
    assert!(seen.iter().all(|(from, _)| from == "10.70.0.1"), "{seen:?}");
    eventually(|| {
        let status = String::from_utf8(spaces.run("c", &["status"]).stdout).unwrap();
        if status.contains("3 udp (3 opened, 0 failed)") { Ok(()) } else { Err(status) }
    });
}
