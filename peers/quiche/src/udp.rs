//! UDP socket with many datagrams per system call, in both directions.

use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use peer_common::socket;
use quinn_udp::{BATCH_SIZE, RecvMeta, Transmit, UdpSocketState};

/// Maximum UDP payload, and therefore maximum size of a run of coalesced datagrams, in bytes.
pub const MAX_RUN: usize = 65_507;

/// Time to wait for room in a full socket before a run of packets is dropped.
const SEND_WAIT: Duration = Duration::from_millis(100);

/// Socket with buffers for received datagrams.
pub struct Udp {
    socket: UdpSocket,
    state: UdpSocketState,
    local: SocketAddr,
    max_segments: usize,
    received: Vec<u8>,
    about: [RecvMeta; BATCH_SIZE],
}

impl Udp {
    /// Binds a socket. Without `gso`, every packet needs a system call of its own.
    pub fn bind(address: SocketAddr, gso: bool) -> io::Result<Self> {
        let socket = socket::bind(address)?;
        let state = UdpSocketState::new((&socket).into())?;
        let max_segments = if gso { state.max_gso_segments() } else { 1 };
        let received = vec![0; BATCH_SIZE * (MAX_RUN + 1)];
        let (local, about) = (socket.local_addr()?, [RecvMeta::default(); BATCH_SIZE]);
        Ok(Self { socket, state, local, max_segments, received, about })
    }

    /// Returns the local address.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// Returns the number of equal packets that one call can send.
    pub fn max_segments(&self) -> usize {
        self.max_segments
    }

    /// Waits until a datagram can be received, or until `timeout` has passed.
    pub fn wait(&self, timeout: Duration) -> io::Result<()> {
        self.poll(PollFlags::POLLIN, timeout)
    }

    fn poll(&self, what: PollFlags, timeout: Duration) -> io::Result<()> {
        let mut fds = [PollFd::new(self.socket.as_fd(), what)];
        // The timeout is rounded up, so that a timer due within a millisecond does not cause a busy loop.
        let millis = u16::try_from(timeout.as_micros().div_ceil(1000)).unwrap_or(u16::MAX);
        poll(&mut fds, PollTimeout::from(millis))?;
        Ok(())
    }

    /// Passes the datagrams of one system call to `each`, with their source. Returns `false` if there were
    /// none.
    pub fn receive(&mut self, mut each: impl FnMut(SocketAddr, &mut [u8])) -> io::Result<bool> {
        let mut buffers = self.received.chunks_mut(MAX_RUN + 1).map(IoSliceMut::new);
        let mut slices: [IoSliceMut<'_>; BATCH_SIZE] =
            std::array::from_fn(|_| buffers.next().unwrap_or(IoSliceMut::new(&mut [])));
        let count = match self.state.recv((&self.socket).into(), &mut slices, &mut self.about) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        };
        for (about, run) in self.about.iter().zip(&mut slices).take(count) {
            for datagram in run[..about.len].chunks_mut(about.stride.max(1)) {
                each(about.addr, datagram);
            }
        }
        Ok(count > 0)
    }

    /// Sends `contents` as packets of `segment` bytes each; the last may be shorter.
    pub fn send(&self, destination: SocketAddr, contents: &[u8], segment: usize) -> io::Result<()> {
        let segment_size = (segment < contents.len()).then_some(segment);
        let transmit = Transmit { destination, ecn: None, contents, segment_size, src_ip: None };
        match self.state.try_send((&self.socket).into(), &transmit) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.poll(PollFlags::POLLOUT, SEND_WAIT)?;
                match self.state.try_send((&self.socket).into(), &transmit) {
                    // The packets are lost, as on a network.
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
                    other => other,
                }
            }
            other => other,
        }
    }
}

/// Packets to one address that one system call can send. All have the same size, but the last may be shorter.
#[derive(Default)]
pub struct Run {
    pub filled: usize,
    pub packets: usize,
    /// Size of all packets, except possibly the last.
    pub segment: usize,
    pub last: usize,
    to: Option<SocketAddr>,
}

impl Run {
    /// Returns whether a packet of `n` bytes to `to` can be added.
    pub fn takes(&self, n: usize, to: SocketAddr) -> bool {
        self.packets == 0 || (n <= self.segment && self.to == Some(to))
    }

    /// Counts a packet.
    pub fn add(&mut self, n: usize, to: SocketAddr) {
        if self.packets == 0 {
            (self.segment, self.to) = (n, Some(to));
        }
        self.filled += n;
        self.packets += 1;
        self.last = n;
    }

    /// Sends the packets, if there are any.
    pub fn send(&self, udp: &Udp, packets: &[u8]) -> io::Result<()> {
        match self.to {
            Some(to) => udp.send(to, &packets[..self.filled], self.segment),
            None => Ok(()),
        }
    }
}
