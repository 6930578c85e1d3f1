//! A tunnel for IP packets through the proxy (RFC 9484).

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use anabranch_http3::capsule::{Capsule, CapsuleReader, CapsuleType};
use anabranch_http3::message::Malformed;
use bytes::{Buf, Bytes};
use ipnet::IpNet;

use super::capsules::CapsuleStream;
use super::stream::{TunnelReceiver, TunnelSender};
use crate::error::SendDatagramError;
use crate::http3::Datagrams;
use crate::lock::lock;
use crate::proxy::copies::LIFETIME;
use crate::proxy::ip::{
    ADDRESS_ASSIGN, ADDRESS_REQUEST, AssignedAddress, IpRange, MAX_ENTRIES, MAX_PACKET, MIN_MTU, PACKETS,
    PacketHeader, ROUTE_ADVERTISEMENT,
};
use crate::sync::Mutex;

/// Maximum number of bytes that one read takes from the tunnel's stream, without a copy.
const PIECE: usize = 64 * 1024;
/// Maximum number of packets from DATAGRAM frames that are received before the stream, which carries the capsules, is read.
const MAX_BURST: usize = 64;

/// A tunnel for IP packets between this client and the proxy's network. Packets may be lost.
///
/// Packets are sent in DATAGRAM frames. Two kinds are sent as DATAGRAM capsules on the tunnel's stream: packets that do not
/// fit into a frame although they have at most 1,280 bytes or may be fragmented, and all packets if the proxy does not
/// support DATAGRAM frames.
#[derive(Debug)]
pub struct IpTunnel {
    sender: IpSender,
    receiver: IpReceiver,
}

/// Sending end of an [`IpTunnel`]. The tunnel ends when all clones and the [`IpReceiver`] are dropped.
#[derive(Clone, Debug)]
pub struct IpSender(Arc<Outgoing>);

/// Receiving end of an [`IpTunnel`].
#[derive(Debug)]
pub struct IpReceiver {
    outgoing: Arc<Outgoing>,
    stream: TunnelReceiver,
    capsules: CapsuleReader,
    /// Bytes of the stream that are not parsed yet.
    unread: Bytes,
    /// Number of packets from DATAGRAM frames since the stream was read.
    burst: usize,
}

#[derive(Debug)]
struct Outgoing {
    /// Datagrams of the request; `None` over HTTP/2.
    datagrams: Option<Datagrams>,
    stream: Mutex<CapsuleStream>,
    /// Identifier of the next request for an address. None is used twice (RFC 9484 §4.7.2).
    next_request: AtomicU64,
}

/// Capsule or packet from the proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IpEvent {
    /// An IP packet for this client.
    Packet(Bytes),
    /// All addresses of this client, and the requests that the proxy refused (ADDRESS_ASSIGN, RFC 9484 §4.7.1).
    Addresses(Vec<AssignedAddress>),
    /// All ranges of addresses to which the proxy forwards packets (ROUTE_ADVERTISEMENT, RFC 9484 §4.7.3).
    Routes(Vec<IpRange>),
}

/// Reason why a packet or a request for addresses was dropped and not sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SendPacketError {
    /// The packet does not fit into a DATAGRAM frame, and routers may not fragment it. The limit changes with the MTU of the
    /// paths.
    #[error("at most {mtu} bytes fit")]
    TooLarge {
        /// Maximum length at present, in bytes.
        mtu: usize,
    },
    /// The bytes are not exactly one IP packet, or the number of requested addresses is 0 or too large.
    #[error("this is no IP packet")]
    Invalid,
    /// The queue is full, because packets are handed over faster than the paths carry them.
    #[error("the queue is full")]
    Full,
    /// The tunnel has ended.
    #[error("the tunnel has ended: {0}")]
    Ended(#[source] io::Error),
}

impl IpTunnel {
    pub(super) fn new(send: TunnelSender, stream: TunnelReceiver) -> Self {
        let datagrams = send.datagrams().map(|(datagrams, _)| datagrams);
        let outgoing = Arc::new(Outgoing {
            datagrams,
            stream: Mutex::new(CapsuleStream::new(send)),
            next_request: AtomicU64::new(1),
        });
        let capsules = CapsuleReader::new(&[CapsuleType::DATAGRAM, ADDRESS_ASSIGN, ROUTE_ADVERTISEMENT]);
        let receiver =
            IpReceiver { outgoing: Arc::clone(&outgoing), stream, capsules, unread: Bytes::new(), burst: 0 };
        Self { sender: IpSender(outgoing), receiver }
    }

    /// Splits the tunnel into its two ends, which different tasks can use.
    pub fn split(self) -> (IpSender, IpReceiver) {
        (self.sender, self.receiver)
    }
}

impl IpSender {
    /// Sends an ADDRESS_REQUEST capsule (RFC 9484 §4.7.2) with one request for each prefix. The unspecified address asks for
    /// any address of its family, and another one for exactly that address. The proxy responds with an
    /// [`IpEvent::Addresses`].
    ///
    /// # Errors
    /// Fails if the tunnel has ended, if too many capsules wait, or if no or too many addresses are requested.
    pub fn request(&self, prefixes: &[IpNet]) -> Result<(), SendPacketError> {
        if prefixes.is_empty() || prefixes.len() > MAX_ENTRIES {
            return Err(SendPacketError::Invalid);
        }
        let first = self.0.next_request.fetch_add(prefixes.len() as u64, Ordering::Relaxed);
        let request = |(request, prefix): (u64, &IpNet)| AssignedAddress { request, prefix: *prefix };
        let requests: Vec<_> = (first..).zip(prefixes).map(request).collect();
        match lock(&self.0.stream).send_control(AssignedAddress::capsule(ADDRESS_REQUEST, &requests)) {
            Ok(true) => Ok(()),
            Ok(false) => Err(SendPacketError::Full),
            Err(error) => Err(SendPacketError::Ended(error)),
        }
    }

    /// Queues a packet, or drops it and returns the reason. Never waits. Packets of different flows, by their addresses and ports,
    /// share the connection evenly. A packet that has waited for 250 ms is dropped.
    ///
    /// # Errors
    /// Fails if the bytes are not one IP packet, if it does not fit, if the queue is full, or if the tunnel has ended.
    pub fn send(&self, packet: &[u8]) -> Result<(), SendPacketError> {
        self.send_within(packet, LIFETIME)
    }

    /// Queues a packet like [`IpSender::send`], which is dropped if it has waited for `deadline`.
    ///
    /// # Errors
    /// Fails as [`IpSender::send`] does.
    pub fn send_within(&self, packet: &[u8], deadline: Duration) -> Result<(), SendPacketError> {
        let header = PacketHeader::parse(packet).ok_or(SendPacketError::Invalid)?;
        let Some(datagrams) = &self.0.datagrams else { return self.send_capsule(packet) };
        let mut datagram = Vec::with_capacity(1 + packet.len());
        datagram.push(PACKETS);
        datagram.extend_from_slice(packet);
        match datagrams.send_with(&datagram, &header.terms().with_lifetime(deadline)) {
            Ok(()) => Ok(()),
            Err(SendDatagramError::UnsupportedByPeer) => self.send_capsule(packet),
            // RFC 9484 §10.1: packets of 1,280 bytes fit into every tunnel. An IPv4 packet without DF may have any length;
            // the stream carries it whole, so that it need not be fragmented.
            Err(SendDatagramError::TooLarge) if packet.len() <= MIN_MTU || header.may_fragment => {
                self.send_capsule(packet)
            }
            Err(SendDatagramError::TooLarge) => Err(SendPacketError::TooLarge { mtu: self.mtu() }),
            Err(SendDatagramError::Blocked) => Err(SendPacketError::Full),
            Err(SendDatagramError::ConnectionLost(error)) => {
                Err(SendPacketError::Ended(io::Error::new(io::ErrorKind::ConnectionAborted, error)))
            }
        }
    }

    /// Returns the maximum length of a packet that routers may not fragment, in bytes, at present: at least 1,280.
    pub fn mtu(&self) -> usize {
        let max = self.0.datagrams.as_ref().and_then(Datagrams::max_len);
        max.map_or(MAX_PACKET, |max| max.saturating_sub(1)).clamp(MIN_MTU, MAX_PACKET)
    }

    fn send_capsule(&self, packet: &[u8]) -> Result<(), SendPacketError> {
        match lock(&self.0.stream).send_datagram(PACKETS, packet) {
            Ok(true) => Ok(()),
            Ok(false) => Err(SendPacketError::Full),
            Err(error) => Err(SendPacketError::Ended(error)),
        }
    }
}

impl IpReceiver {
    /// Waits for the next packet, addresses or routes; `None` when the proxy has ended the tunnel.
    ///
    /// # Errors
    /// Fails if the proxy reset the tunnel, if it violates RFC 9297 or RFC 9484, or if the connection is lost.
    pub async fn recv(&mut self) -> io::Result<Option<IpEvent>> {
        poll_fn(|cx| self.poll_recv(cx)).await
    }

    /// Polls [`IpReceiver::recv`].
    ///
    /// # Errors
    /// Fails as [`IpReceiver::recv`] does.
    pub fn poll_recv(&mut self, cx: &Context<'_>) -> Poll<io::Result<Option<IpEvent>>> {
        if let Poll::Ready(Err(error)) = lock(&self.outgoing.stream).poll_rest(Some(cx)) {
            return Poll::Ready(Err(error));
        }
        if self.burst < MAX_BURST
            && let Poll::Ready(packet) = self.poll_datagram(cx)
        {
            return Poll::Ready(Ok(Some(IpEvent::Packet(packet))));
        }
        self.burst = 0;
        if let Poll::Ready(event) = self.poll_stream(cx) {
            return Poll::Ready(event);
        }
        self.poll_datagram(cx).map(|packet| Ok(Some(IpEvent::Packet(packet))))
    }

    /// Polls for the next packet in a DATAGRAM frame.
    fn poll_datagram(&mut self, cx: &Context<'_>) -> Poll<Bytes> {
        while let Some(datagrams) = &self.outgoing.datagrams
            && let Poll::Ready(Ok(datagram)) = datagrams.poll_recv(cx)
        {
            self.burst += 1;
            if let Some(packet) = packet(datagram) {
                return Poll::Ready(packet);
            }
        }
        Poll::Pending
    }

    /// Polls the stream, which carries the capsules. Its end is the end of the tunnel. A wrong capsule, or a part of one at
    /// the end, ends both directions.
    fn poll_stream(&mut self, cx: &Context<'_>) -> Poll<io::Result<Option<IpEvent>>> {
        loop {
            while !self.unread.is_empty() {
                match self.next_event() {
                    Ok(Some(event)) => return Poll::Ready(Ok(Some(event))),
                    Ok(None) => {}
                    Err(Malformed(_)) => return Poll::Ready(Err(self.abort())),
                }
            }
            match ready!(self.stream.poll_read_chunk(cx, PIECE)) {
                Ok(Some(chunk)) => self.unread = chunk,
                Ok(None) if self.capsules.end().is_err() => return Poll::Ready(Err(self.abort())),
                Ok(None) => return Poll::Ready(Ok(None)),
                Err(error) => return Poll::Ready(Err(error.into())),
            }
        }
    }

    /// Ends both directions because of a wrong capsule.
    fn abort(&mut self) -> io::Error {
        lock(&self.outgoing.stream).abort(&mut self.stream)
    }

    /// Parses the next unread capsule; `None` if it is not complete, or is skipped.
    fn next_event(&mut self) -> Result<Option<IpEvent>, Malformed> {
        let (read, capsule) = self.capsules.read(&self.unread)?;
        self.unread.advance(read);
        Ok(capsule.map(event).transpose()?.flatten())
    }
}

fn event(capsule: Capsule) -> Result<Option<IpEvent>, Malformed> {
    let parsed = match capsule.kind {
        CapsuleType::DATAGRAM => return Ok(packet(capsule.value).map(IpEvent::Packet)),
        ADDRESS_ASSIGN => AssignedAddress::parse(&capsule.value).map(IpEvent::Addresses),
        _ => IpRange::parse(&capsule.value).map(IpEvent::Routes),
    };
    parsed.map(Some).map_err(|_| Malformed("the value of a capsule"))
}

/// Returns the IP packet in an HTTP datagram. Returns `None`, so that the datagram is dropped (RFC 9484 §6), if its context
/// ID is not 0 or its payload is not one IP packet.
fn packet(mut datagram: Bytes) -> Option<Bytes> {
    let (first, rest) = datagram.split_first()?;
    if *first != PACKETS || rest.len() > MAX_PACKET || PacketHeader::parse(rest).is_none() {
        return None;
    }
    datagram.advance(1);
    Some(datagram)
}
