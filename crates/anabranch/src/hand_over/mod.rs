//! Hand-over of an endpoint's sockets to another process, which continues with new clients while this one finishes its connections.

mod channel;
mod endpoint;
mod message;
mod neighbours;
mod passing;

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use anabranch_transport::MAX_WORKERS;

pub(crate) use self::neighbours::{Course, Links, Neighbours, Origin};

/// Maximum number of processes that finish their connections while a younger one has their sockets. Each forwards packets to the one before
/// it.
pub const MAX_OLDER_PROCESSES: usize = 4;
/// Maximum number of sockets of one worker.
const MAX_ADDRESSES: usize = 64;
/// Maximum number of descriptors of the application.
const MAX_FURTHER: usize = 128;

/// First bytes of a hand-over, with the version of its form.
const MAGIC: [u8; 8] = *b"anabrHO1";
/// Length of the part with a fixed length: magic, two keys, and six numbers.
const FIXED: usize = 8 + 64 + 6;

/// An endpoint's sockets and secrets on their way to another process: [`Endpoint::hand_over`] makes one, and [`Endpoint::take_over`]
/// creates an endpoint from it. In between, it passes through a Unix socket ([`HandOver::send`], [`HandOver::receive`]). Until
/// an endpoint is created from it, nothing changes for the old endpoint.
///
/// [`Endpoint::hand_over`]: crate::Endpoint::hand_over
/// [`Endpoint::take_over`]: crate::Endpoint::take_over
pub struct HandOver {
    keys: [[u8; 32]; 2],
    cid_len: usize,
    /// `true` if the key of stateless resets is that of all servers behind a load balancer.
    is_balanced: bool,
    /// Number of processes before the receiving one.
    older: u8,
    /// Sockets of each worker: first its own, then those of further addresses.
    workers: Vec<Vec<OwnedFd>>,
    /// Channel of each worker to the one of the old process.
    channels: Vec<OwnedFd>,
    further: Vec<(u8, OwnedFd)>,
}

/// Prints the hand-over without its keys.
impl std::fmt::Debug for HandOver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HandOver").field("workers", &self.workers.len()).finish_non_exhaustive()
    }
}

impl HandOver {
    /// Adds descriptors of the application, each with a number by which it knows them again, such as listeners for TCP; 128 at most.
    #[must_use]
    pub fn with_further(mut self, further: Vec<(u8, OwnedFd)>) -> Self {
        self.further = further;
        self
    }

    /// Removes the application's descriptors.
    pub fn take_further(&mut self) -> Vec<(u8, OwnedFd)> {
        std::mem::take(&mut self.further)
    }

    /// Returns the number of workers whose sockets are handed over.
    pub fn workers(&self) -> usize {
        self.workers.len()
    }

    /// Returns the addresses of the sockets; the first one is the endpoint's own.
    ///
    /// # Errors
    /// Fails if a descriptor is no UDP socket.
    pub fn local_addrs(&self) -> io::Result<Vec<SocketAddr>> {
        let first = self.workers.first().into_iter().flatten();
        first.map(|socket| UdpSocket::from(socket.try_clone()?).local_addr()).collect()
    }

    /// Sends the hand-over, with its secrets, to the process at the other end of `stream`. Make sure who that is.
    ///
    /// # Errors
    /// Fails if the stream does, or if there are too many descriptors.
    pub fn send(self, stream: &UnixStream) -> io::Result<()> {
        let addresses = self.workers.first().map_or(0, Vec::len);
        if addresses > MAX_ADDRESSES || self.further.len() > MAX_FURTHER {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many descriptors to hand over"));
        }
        let mut head = MAGIC.to_vec();
        head.extend(self.keys.as_flattened());
        let numbers = [self.cid_len, self.workers.len(), addresses, self.further.len()];
        head.extend(numbers.map(|number| number as u8));
        head.extend([self.older, u8::from(self.is_balanced)]);
        head.extend(self.further.iter().map(|(number, _)| *number));
        let further = self.further.iter().map(|(_, descriptor)| descriptor);
        let all: Vec<_> = self.workers.iter().flatten().chain(&self.channels).chain(further).collect();
        passing::send(stream, &head, &all)
    }

    /// Receives a hand-over.
    ///
    /// # Errors
    /// Fails if the stream does or ends, or if the other process sends something else.
    pub fn receive(stream: &UnixStream) -> io::Result<Self> {
        let wrong = || io::Error::new(io::ErrorKind::InvalidData, "this is no hand-over of the same version");
        let head: [u8; FIXED] = passing::receive_bytes(stream, FIXED)?.try_into().map_err(|_| wrong())?;
        let (magic, rest) = head.split_first_chunk::<8>().ok_or_else(wrong)?;
        let (keys, numbers) = rest.split_first_chunk::<64>().ok_or_else(wrong)?;
        let (keys, _) = keys.as_chunks::<32>();
        let (&keys, &[cid_len, workers, addresses, further, older, balanced]) = (
            <&[_; 2]>::try_from(keys).map_err(|_| wrong())?,
            <&[_; 6]>::try_from(numbers).map_err(|_| wrong())?,
        );
        let [cid_len, workers, addresses, further] = [cid_len, workers, addresses, further].map(usize::from);
        let is_possible = (1..=MAX_WORKERS).contains(&workers)
            && (1..=MAX_ADDRESSES).contains(&addresses)
            && further <= MAX_FURTHER;
        if *magic != MAGIC || !is_possible {
            return Err(wrong());
        }
        let names = passing::receive_bytes(stream, further)?;
        let count = workers * addresses + workers + further;
        let mut descriptors = passing::receive_descriptors(stream, count)?.into_iter();
        let mut next = |count: usize| descriptors.by_ref().take(count).collect::<Vec<_>>();
        let sockets = (0..workers).map(|_| next(addresses)).collect();
        let channels = next(workers);
        let further = names.into_iter().zip(next(further)).collect();
        let is_balanced = balanced != 0;
        Ok(Self { keys, cid_len, is_balanced, older, workers: sockets, channels, further })
    }
}

#[cfg(test)]
mod tests;
