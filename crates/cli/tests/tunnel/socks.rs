//! Support: a SOCKS5 client (RFC 1928).

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};

use super::process::PATIENCE;

/// Opens a TCP connection to `host`, a name or an IPv4 address, through the SOCKS5 proxy `socks`. Fails with
/// the reply's code (RFC 1928 §6).
pub fn connect(socks: SocketAddr, host: &str, port: u16) -> Result<TcpStream, u8> {
    let mut stream = greeted(socks);
    stream.write_all(&[&[5, 1, 0][..], &address(host, port)].concat()).unwrap();
    reply(&mut stream).map(|_| stream)
}

/// A UDP association (RFC 1928 §7).
pub struct Association {
    /// TCP connection whose end ends the association.
    pub control: TcpStream,
    socket: UdpSocket,
}

impl Association {
    pub fn new(socks: SocketAddr) -> Result<Self, u8> {
        let mut control = greeted(socks);
        control.write_all(&[&[5, 3, 0][..], &address("0.0.0.0", 0)].concat()).unwrap();
        let relay = reply(&mut control)?;
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.connect(relay).unwrap();
        Ok(Self { control, socket })
    }

    pub fn send(&self, host: &str, port: u16, payload: &[u8]) {
        self.send_fragment(0, host, port, payload);
    }

    pub fn send_fragment(&self, fragment: u8, host: &str, port: u16, payload: &[u8]) {
        let datagram = [&[0, 0, fragment][..], &address(host, port), payload].concat();
        self.socket.send(&datagram).unwrap();
    }

    /// Returns the next payload, which must be from the target `host`.
    pub fn receive(&self, host: &str, port: u16) -> Vec<u8> {
        let mut datagram = vec![0; 65_535];
        let len = self.socket.recv(&mut datagram).unwrap();
        let header = [&[0, 0, 0][..], &address(host, port)].concat();
        assert_eq!(datagram[..header.len()], header);
        datagram[header.len()..len].to_vec()
    }

    /// Returns whether the relay's socket is closed.
    pub fn is_gone(&self) -> bool {
        self.socket.send(b"?").is_err()
    }
}

fn greeted(socks: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(socks).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(&[5, 1, 0]).unwrap();
    let mut chosen = [0; 2];
    stream.read_exact(&mut chosen).unwrap();
    assert_eq!(chosen, [5, 0]);
    stream
}

fn address(host: &str, port: u16) -> Vec<u8> {
    let mut bytes = match host.parse::<std::net::Ipv4Addr>() {
        Ok(address) => [&[1][..], &address.octets()].concat(),
        Err(_) => [&[3, host.len() as u8][..], host.as_bytes()].concat(),
    };
    bytes.extend(port.to_be_bytes());
    bytes
}

/// Reads a reply with an IPv4 address. Fails with the reply's code.
fn reply(stream: &mut TcpStream) -> Result<SocketAddr, u8> {
    let mut reply = [0; 10];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!((reply[0], reply[3]), (5, 1));
    let [_, code, _, _, a, b, c, d, high, low] = reply;
    let address = SocketAddr::from(([a, b, c, d], u16::from_be_bytes([high, low])));
    if code == 0 { Ok(address) } else { Err(code) }
}
