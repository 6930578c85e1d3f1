//! Socket of an endpoint: one datagram per system call.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use peer_common::socket;
use tquic::{Error, PacketInfo, PacketSendHandler};

/// Longest wait for a datagram, so that an end that was asked for is noticed.
const MAX_WAIT: Duration = Duration::from_millis(50);

/// Socket with its address, of which tquic wants to know.
pub struct Socket {
    socket: UdpSocket,
    pub address: SocketAddr,
}

impl Socket {
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = socket::bind(address)?;
        socket.set_nonblocking(true)?;
        let address = socket.local_addr()?;
        Ok(Self { socket, address })
    }

    /// Waits for a datagram, but not longer than `timeout`.
    pub fn wait(&self, timeout: Option<Duration>) {
        let wait = timeout.unwrap_or(MAX_WAIT).min(MAX_WAIT);
        // Rounded up: a timer that has not expired would be asked for again and again.
        let wait = u16::try_from(wait.as_micros().div_ceil(1000)).unwrap_or(u16::MAX);
        let mut ready = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
        let _ = poll(&mut ready, PollTimeout::from(wait));
    }

    /// Receives the next datagram, if there is one.
    pub fn receive(&self, buffer: &mut [u8]) -> Option<(usize, PacketInfo)> {
        let (length, src) = self.socket.recv_from(buffer).ok()?;
        Some((length, PacketInfo { src, dst: self.address, time: Instant::now() }))
    }
}

impl PacketSendHandler for Socket {
    fn on_packets_send(&self, packets: &[(Vec<u8>, PacketInfo)]) -> tquic::Result<usize> {
        for (count, (packet, info)) in packets.iter().enumerate() {
            match self.socket.send_to(packet, info.dst) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(count),
                // Probes of the path MTU may be too large, and a closed port is not the end.
                Err(error) if !matches!(error.raw_os_error(), Some(EMSGSIZE | ECONNREFUSED)) => {
                    return Err(Error::IoError(error.to_string()));
                }
                _ => {}
            }
        }
        Ok(packets.len())
    }
}

const EMSGSIZE: i32 = nix::errno::Errno::EMSGSIZE as i32;
const ECONNREFUSED: i32 = nix::errno::Errno::ECONNREFUSED as i32;
