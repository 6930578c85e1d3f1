//! One tunnel for IP packets: its addresses, and both directions of its packets.

use std::cell::RefCell;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use anabranch_http3::capsule::{Capsule, CapsuleReader, CapsuleType};
use anabranch_wire::{Direction, Reader};
use ipnet::IpNet;
use tokio::time::Instant;

use super::super::flow::{Flow, Outcome};
use super::super::udp::{Queue, Stop, rest};
use super::network::{Client, IpNetwork};
use crate::error::SendDatagramError;
use crate::http3::{Code, Datagrams};
use crate::lock::lock;
use crate::proxy::ip::{
    ADDRESS_ASSIGN, ADDRESS_REQUEST, AssignedAddress, IcmpLimit, IpRange, MAX_PACKET, MIN_MTU, PACKETS,
    PacketHeader, ROUTE_ADVERTISEMENT, bits, prohibited, too_big,
};
use crate::sync::Mutex;

/// Maximum number of addresses of one tunnel. Requests for more are refused.
pub(super) const MAX_ADDRESSES: usize = 8;

/// Types of the capsules that are parsed; others are skipped (RFC 9297 §3.2).
pub(super) const WANTED: &[CapsuleType] =
    &[CapsuleType::DATAGRAM, ADDRESS_ASSIGN, ADDRESS_REQUEST, ROUTE_ADVERTISEMENT];

thread_local! {
    /// Buffer for one packet and its context ID, which all tunnels of a thread share.
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(Vec::with_capacity(1 + MAX_PACKET));
}

/// Function that returns whether packets to an address are forwarded. The port is the destination port of TCP and UDP, if it
/// is known.
pub(in crate::proxy::server) type Allow = Box<dyn Fn(IpAddr, Option<u16>) -> bool + Send + Sync>;

/// A tunnel for IP packets.
pub(in crate::proxy::server) struct Session {
    network: IpNetwork,
    tunnel: u64,
    /// Name of the user; `None` for a client without credentials.
    user: Option<String>,
    flow: Arc<Flow>,
    allow: Allow,
    datagrams: Option<Datagrams>,
    queue: Arc<Queue>,
    addresses: Mutex<Vec<IpAddr>>,
    icmp: Mutex<IcmpLimit>,
}

impl Session {
    pub(super) fn new(ip: super::IpFlow, datagrams: Option<Datagrams>) -> Self {
        let super::IpFlow { network, flow, allow, user } = ip;
        let queue = Arc::new(Queue::of(&flow, None));
        let tunnel = network.tunnel();
        let (addresses, icmp) = (Mutex::default(), Mutex::default());
        Self { network, tunnel, user, flow, allow, datagrams, queue, addresses, icmp }
    }

    pub(super) fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }

    pub(super) fn flow(&self) -> &Flow {
        &self.flow
    }

    /// Returns whether the client has an address.
    pub(super) fn has_addresses(&self) -> bool {
        !lock(&self.addresses).is_empty()
    }

    /// Queues a ROUTE_ADVERTISEMENT capsule with the network's routes.
    pub(super) fn announce(&self) -> Result<(), Stop> {
        self.control(IpRange::capsule(&self.network.routes()))
    }

    /// Assigns an address of each family to a client that has requested none.
    pub(super) fn assign_unasked(self: &Arc<Self>) -> Result<(), Stop> {
        let wanted = self.network.families().into_iter();
        let unasked = |any: IpAddr| AssignedAddress { request: 0, prefix: single(any) };
        self.answer(&wanted.map(unasked).collect::<Vec<_>>())
    }

    /// Frees all addresses of the client.
    pub(super) fn release(&self) {
        let addresses = std::mem::take(&mut *lock(&self.addresses));
        self.network.release(&addresses, self.tunnel);
    }

    /// Responds to requests for addresses with an ADDRESS_ASSIGN capsule (RFC 9484 §4.7.2). Each request gets one address,
    /// whatever the length of its prefix, or is refused by the unspecified address. Because the capsule replaces earlier ones,
    /// it also has the client's other addresses.
    fn answer(self: &Arc<Self>, requests: &[AssignedAddress]) -> Result<(), Stop> {
        let mut answers = Vec::new();
        for request in requests {
            let wanted = request.prefix.addr();
            let room = lock(&self.addresses).len() < MAX_ADDRESSES;
            let user = self.user.as_deref();
            let address = if room { self.network.assign(wanted, self.clone(), user) } else { None };
            let address = address.filter(|address| self.keep(*address));
            if address.is_some() || request.request != 0 {
                let prefix = address.map_or_else(|| refusal(wanted), single);
                answers.push(AssignedAddress { request: request.request, prefix });
            }
        }
        let addresses = lock(&self.addresses);
        // Requests whose addresses the client has lost meanwhile are refused.
        answers.retain(|answer| answer.request != 0 || addresses.contains(&answer.prefix.addr()));
        for answer in answers.iter_mut().filter(|answer| !addresses.contains(&answer.prefix.addr())) {
            answer.prefix = refusal(answer.prefix.addr());
        }
        let known: Vec<_> = answers.iter().map(|answer| answer.prefix).collect();
        answers.extend(entries(&addresses).filter(|own| !known.contains(&own.prefix)));
        // The lock is held, so the capsules about losses follow this one.
        self.control(AssignedAddress::capsule(ADDRESS_ASSIGN, &answers))
    }

    /// Stores an address that the network has assigned to this tunnel. Returns `false`, and does not store it, if another tunnel
    /// has taken the address meanwhile.
    fn keep(&self, address: IpAddr) -> bool {
        let mut addresses = lock(&self.addresses);
        addresses.retain(|own| *own != address);
        // The other tunnel is recorded in the network before `lose` removes the address here. So the address is either refused
        // here, or removed after it was stored.
        let is_own = self.network.has(address, self.tunnel);
        if is_own {
            addresses.push(address);
        }
        is_own
    }

    /// Queues a capsule other than DATAGRAM. Fails, which aborts the tunnel, if the client reads its stream so slowly that too
    /// many such capsules wait.
    fn control(&self, capsule: Vec<u8>) -> Result<(), Stop> {
        if self.queue.push_control(capsule) {
            return Ok(());
        }
        Err(Stop::Abort(Outcome::ByClient, Code::EXCESSIVE_LOAD))
    }

    /// Forwards the packets in the client's DATAGRAM frames to the network. Returns only if a datagram is malformed.
    pub(super) async fn read_datagrams(&self) -> Stop {
        if let Some(datagrams) = &self.datagrams {
            let mut burst = 0;
            while let Ok(datagram) = datagrams.recv().await {
                if let Err(stop) = self.to_network(&datagram) {
                    return stop;
                }
                rest(&mut burst).await;
            }
        }
        // No more datagrams arrive. The task that reads the stream ends the tunnel.
        std::future::pending().await
    }

    /// Handles the capsules that `piece`, a part of the stream, completes.
    pub(super) fn capsules(self: &Arc<Self>, reader: &mut CapsuleReader, piece: &[u8]) -> Result<(), Stop> {
        let mut rest = piece;
        while !rest.is_empty() {
            // RFC 9297 §3.3: a malformed capsule makes the message malformed.
            let (read, capsule) = reader.read(rest).map_err(|_| MALFORMED)?;
            rest = &rest[read..];
            if let Some(capsule) = capsule {
                self.capsule(&capsule)?;
            }
        }
        Ok(())
    }

    fn capsule(self: &Arc<Self>, capsule: &Capsule) -> Result<(), Stop> {
        match capsule.kind {
            CapsuleType::DATAGRAM => self.to_network(&capsule.value),
            ADDRESS_REQUEST => {
                let requests = AssignedAddress::parse(&capsule.value).map_err(|_| MALFORMED)?;
                // RFC 9484 §4.7.2: a capsule has at least one request, and no request has the ID 0.
                if requests.is_empty() || requests.iter().any(|request| request.request == 0) {
                    return Err(MALFORMED);
                }
                self.answer(&requests)
            }
            // The proxy uses no addresses that a client assigns and no routes to networks behind a client, but these capsules
            // must be well-formed.
            ADDRESS_ASSIGN => AssignedAddress::parse(&capsule.value).map(drop).map_err(|_| MALFORMED),
            _ => IpRange::parse(&capsule.value).map(drop).map_err(|_| MALFORMED),
        }
    }

    /// Forwards the packet in an HTTP datagram to the network.
    fn to_network(&self, datagram: &[u8]) -> Result<(), Stop> {
        let mut reader = Reader::new(datagram, Direction::Forward);
        let malformed = Stop::Abort(Outcome::ByClient, Code::DATAGRAM_ERROR);
        let context = reader.varint().map_err(|_| malformed)?;
        // Datagrams with an unknown context ID are dropped (RFC 9484 §6).
        if context == u64::from(PACKETS) {
            self.forward(reader.rest());
        }
        Ok(())
    }

    fn forward(&self, packet: &[u8]) {
        let counts = self.network.counts();
        let Some(header) = PacketHeader::parse(packet) else { return self.flow.drop_datagram() };
        // RFC 9484 §11: a client may send only from its own addresses.
        if !lock(&self.addresses).contains(&header.source) {
            counts.foreign.fetch_add(1, Ordering::Relaxed);
            return self.flow.drop_datagram();
        }
        let is_allowed = self.network.forwards(header.destination)
            && (self.allow)(header.destination, header.destination_port);
        if !is_allowed {
            counts.denied.fetch_add(1, Ordering::Relaxed);
            self.flow.drop_datagram();
            if let Some(report) = prohibited(packet).filter(|_| lock(&self.icmp).allows()) {
                self.push(&report);
            }
            return;
        }
        if self.flow.place.may_spend(Instant::now()) && self.network.send(packet) {
            _ = self.flow.sent(packet.len());
        } else {
            self.flow.drop_datagram();
        }
    }

    /// Drops a packet from the network that does not fit, and sends its sender an ICMP message with the MTU of the tunnel.
    fn report_too_big(&self, packet: &[u8]) {
        self.network.counts().too_big.fetch_add(1, Ordering::Relaxed);
        self.flow.drop_datagram();
        let max = self.datagrams.as_ref().and_then(Datagrams::max_len).unwrap_or(0);
        let mtu = max.saturating_sub(1).max(MIN_MTU);
        if let Some(report) = too_big(packet, mtu).filter(|_| lock(&self.icmp).allows()) {
            let _ = self.network.send(&report);
        }
    }

    /// Queues a packet to the client as a DATAGRAM capsule.
    fn push(&self, packet: &[u8]) {
        self.queue.push(&[&[PACKETS], packet].concat(), packet.len());
    }
}

impl Client for Session {
    fn tunnel(&self) -> u64 {
        self.tunnel
    }

    fn to_client(&self, packet: &[u8], header: &PacketHeader) {
        if !self.flow.place.may_spend(Instant::now()) {
            return self.flow.drop_datagram();
        }
        let sent = SCRATCH.with_borrow_mut(|scratch| {
            scratch.clear();
            scratch.push(PACKETS);
            scratch.extend_from_slice(packet);
            match &self.datagrams {
                Some(datagrams) => datagrams.send_with(scratch, &header.terms()),
                None => Err(SendDatagramError::UnsupportedByPeer),
            }
        });
        match sent {
            Ok(()) => _ = self.flow.received(packet.len()),
            Err(SendDatagramError::UnsupportedByPeer) => self.push(packet),
            // RFC 9484 §10.1: the stream carries packets that must fit but do not, and packets that routers may fragment.
            Err(SendDatagramError::TooLarge) if packet.len() <= MIN_MTU || header.may_fragment => {
                self.push(packet);
            }
            Err(SendDatagramError::TooLarge) => self.report_too_big(packet),
            Err(SendDatagramError::Blocked | SendDatagramError::ConnectionLost(_)) => {
                self.flow.drop_datagram();
            }
        }
    }

    /// Removes the address, and queues an ADDRESS_ASSIGN capsule with the client's other addresses.
    fn lose(&self, address: IpAddr) {
        let mut addresses = lock(&self.addresses);
        if self.network.has(address, self.tunnel) {
            // This tunnel has taken the address back before it learned of the loss.
            return;
        }
        addresses.retain(|own| *own != address);
        let remaining: Vec<_> = entries(&addresses).collect();
        // If too many capsules wait, the next ADDRESS_ASSIGN capsule has the remaining addresses.
        let _ = self.control(AssignedAddress::capsule(ADDRESS_ASSIGN, &remaining));
    }
}

/// Abort of a tunnel whose client sent a malformed capsule (RFC 9297 §3.3).
const MALFORMED: Stop = Stop::Abort(Outcome::ByClient, Code::MESSAGE_ERROR);

/// Returns the network that consists of one address.
fn single(address: IpAddr) -> IpNet {
    IpNet::new_assert(address, bits(address))
}

/// Returns the prefix that refuses a request for an address of this family (RFC 9484 §4.7.2): the unspecified address.
fn refusal(wanted: IpAddr) -> IpNet {
    single(if wanted.is_ipv4() { IpAddr::from([0; 4]) } else { IpAddr::from([0; 16]) })
}

/// Returns entries of an ADDRESS_ASSIGN capsule for addresses that no request asks for, with the request ID 0.
fn entries(addresses: &[IpAddr]) -> impl Iterator<Item = AssignedAddress> {
    addresses.iter().map(|address| AssignedAddress { request: 0, prefix: single(*address) })
}

#[cfg(test)]
mod tests;
