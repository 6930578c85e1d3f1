//! Packets and connections through the VPN.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use anabranch_testkit::pattern;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, recv, sendto, setsockopt, socket,
    sockopt,
};
use nix::sys::time::TimeVal;

use super::spaces::{PATIENCE, Spaces, TARGET, ip};

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
        let device = link.replace('0', "1");
        let args = format!(
            "-n {} qdisc add dev {device} root tbf rate 60mbit burst 32k latency 30ms",
            spaces.space("s")
        );
        let output = std::process::Command::new("tc").args(args.split(' ')).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
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
