//! WireGuard in user space as a tunnel for one UDP flow: both ends in this process, a thread each.
//!
//! `peer-boringtun tunnel --target IP:PORT` prints `listening IP:PORT`, and carries what arrives there to the target until its
//! standard input ends.
#![forbid(unsafe_code)]

mod packet;

use std::io::{Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::process::ExitCode;
use std::thread;

use boringtun::noise::{Tunn, TunnResult};
use boringtun::x25519::{PublicKey, StaticSecret};

use crate::packet::{HEADERS, payload, wrap};

/// Size of a buffer that every packet fits into, in bytes.
const BUFFER: usize = 2_048;
/// Number that a program that cannot do what is asked ends with.
const USAGE: u8 = 2;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// End of a WireGuard tunnel, and its socket.
struct End {
    tunnel: Tunn,
    socket: UdpSocket,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [command, flag, target] = words.as_slice() else { return usage() };
    let Ok(target) = target.parse() else { return usage() };
    if command != "tunnel" || flag != "--target" {
        return usage();
    }
    match run(target) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("peer-boringtun: {error}");
            ExitCode::FAILURE
        }
    }
}

fn usage() -> ExitCode {
    eprintln!("peer-boringtun tunnel --target IP:PORT");
    ExitCode::from(USAGE)
}

fn run(target: SocketAddr) -> Result<(), Error> {
    let (mut near, mut far) = ends()?;
    handshake(&mut near, &mut far)?;
    let local = UdpSocket::bind("127.0.0.1:0")?;
    println!("listening {}", local.local_addr()?);
    std::io::stdout().flush()?;
    let sender = thread::spawn(move || near.carry_out(&local));
    let receiver = thread::spawn(move || far.carry_in(target));
    let mut end = Vec::new();
    std::io::stdin().read_to_end(&mut end)?;
    for thread in [sender, receiver] {
        if thread.is_finished() {
            thread.join().map_err(|_| "a thread failed")??;
        }
    }
    Ok(())
}

/// Creates both ends, connected by loopback.
fn ends() -> Result<(End, End), Error> {
    // These keys protect nothing.
    let keys = [[1_u8; 32], [2; 32]].map(StaticSecret::from);
    let public = [PublicKey::from(&keys[0]), PublicKey::from(&keys[1])];
    let sockets = [UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?];
    sockets[0].connect(sockets[1].local_addr()?)?;
    sockets[1].connect(sockets[0].local_addr()?)?;
    let [near_key, far_key] = keys;
    let [near_socket, far_socket] = sockets;
    let near = Tunn::new(near_key, public[1], None, None, 1, None);
    let far = Tunn::new(far_key, public[0], None, None, 2, None);
    Ok((End { tunnel: near, socket: near_socket }, End { tunnel: far, socket: far_socket }))
}

/// Sets up the session of both ends.
fn handshake(near: &mut End, far: &mut End) -> Result<(), Error> {
    let mut buffers = [[0; BUFFER], [0; BUFFER]];
    let [first, second] = &mut buffers;
    let TunnResult::WriteToNetwork(initiation) = near.tunnel.format_handshake_initiation(first, false) else {
        return Err("no handshake initiation".into());
    };
    let TunnResult::WriteToNetwork(response) = far.tunnel.decapsulate(None, initiation, second) else {
        return Err("no handshake response".into());
    };
    let mut third = [0; BUFFER];
    let TunnResult::WriteToNetwork(keepalive) = near.tunnel.decapsulate(None, response, &mut third) else {
        return Err("no end of the handshake".into());
    };
    match far.tunnel.decapsulate(None, keepalive, second) {
        TunnResult::Done => Ok(()),
        _ => Err("the handshake does not end".into()),
    }
}

impl End {
    /// Encapsulates what arrives on `local` until an error.
    fn carry_out(&mut self, local: &UdpSocket) -> Result<(), Error> {
        let (mut packet, mut sealed) = ([0; BUFFER], [0; BUFFER]);
        loop {
            let len = local.recv(&mut packet[HEADERS..])?;
            wrap(&mut packet, len);
            if let TunnResult::WriteToNetwork(datagram) =
                self.tunnel.encapsulate(&packet[..HEADERS + len], &mut sealed)
            {
                self.socket.send(datagram)?;
            }
        }
    }

    /// Sends the payload of what arrives in the tunnel to `target` until an error.
    fn carry_in(&mut self, target: SocketAddr) -> Result<(), Error> {
        let outgoing = UdpSocket::bind("127.0.0.1:0")?;
        outgoing.connect(target)?;
        let (mut datagram, mut opened) = ([0; BUFFER], [0; BUFFER]);
        loop {
            let len = self.socket.recv(&mut datagram)?;
            if let TunnResult::WriteToTunnelV4(packet, _) =
                self.tunnel.decapsulate(None, &datagram[..len], &mut opened)
            {
                outgoing.send(payload(packet))?;
            }
        }
    }
}
