//! Observations on the wire that need no keys.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use anabranch_lab::relay::Direction;
use anabranch_wire::{PacketKind, Version, parse_packet};

/// Maximum number of bytes that a server may send for each byte received from a client whose address is not
/// validated (RFC 9000 §8.1).
const AMPLIFICATION: u64 = 3;

/// Client address, as seen at the server's side.
#[derive(Clone, Debug)]
pub(super) struct Party {
    address: SocketAddr,
    /// Numbers of datagrams and bytes from the client that were forwarded.
    sent: [u64; 2],
    /// Numbers of datagrams and bytes to the client.
    received: [u64; 2],
    /// `true` if the client has sent a Handshake packet, which validates its address.
    validated: bool,
}

/// Observer of the traffic, which can also drop packets.
#[derive(Clone, Debug, Default)]
pub(super) struct PacketFilter {
    /// Datagrams from the client, counted from 1, that are dropped.
    drop: Option<RangeInclusive<u64>>,
    /// `true` if Version Negotiation packets are dropped. A corrupted version provokes such a packet, and a
    /// corrupted list of versions makes the client close the connection, as it must. Neither the version nor
    /// the list is authenticated, so a client cannot detect the corruption.
    no_negotiation: bool,
    from_clients: u64,
    parties: Vec<Party>,
    started: Option<Instant>,
    seen: Seen,
}

/// Observations that the checks use.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// Time of the last datagram to the client, counted from the first datagram in any direction.
    pub(super) last_to_client: Duration,
    /// Number of Retry packets.
    pub(super) retries: u64,
    /// Number of Initial packets with a token.
    pub(super) tokens: u64,
    /// Number of Version Negotiation packets.
    pub(super) negotiations: u64,
    /// Number of 0-RTT packets.
    pub(super) zero_rtt: u64,
    /// Versions of the Handshake packets that the server sent.
    pub(super) versions: BTreeSet<Version>,
    /// Largest excess over the amplification limit, in bytes.
    pub(super) excess: u64,
    /// Largest number of bytes sent to a client whose address was not validated.
    pub(super) unvalidated: u64,
    /// Number of client addresses to which the server has sent datagrams.
    pub(super) addresses_served: usize,
}

impl PacketFilter {
    /// Creates an observer that drops some of the client's datagrams and, if `no_negotiation` is set, Version
    /// Negotiation packets.
    pub(super) fn dropping(drop: Option<RangeInclusive<u64>>, no_negotiation: bool) -> Self {
        Self { drop, no_negotiation, ..Self::default() }
    }

    /// Observes a datagram at the server's side. Returns whether it is forwarded.
    pub(super) fn see(&mut self, way: Direction, client: SocketAddr, datagram: &[u8], now: Instant) -> bool {
        let since = now.duration_since(*self.started.get_or_insert(now));
        if way == Direction::ToServer {
            self.from_clients += 1;
            if self.drop.as_ref().is_some_and(|drop| drop.contains(&self.from_clients)) {
                return false;
            }
        } else {
            self.seen.last_to_client = since;
        }
        let index = self.party(client);
        let party = &mut self.parties[index];
        let count = if way == Direction::ToServer { &mut party.sent } else { &mut party.received };
        *count = [count[0] + 1, count[1] + datagram.len() as u64];
        if way == Direction::ToClient && !party.validated {
            self.seen.unvalidated = self.seen.unvalidated.max(party.received[1]);
            self.seen.excess =
                self.seen.excess.max(party.received[1].saturating_sub(AMPLIFICATION * party.sent[1]));
        }
        let before = self.seen.negotiations;
        self.read(way, index, datagram);
        !(self.no_negotiation && self.seen.negotiations > before)
    }

    /// Returns all observations.
    pub(super) fn seen(&self) -> Seen {
        let served = self.parties.iter().filter(|party| party.received[0] > 0).count();
        Seen { addresses_served: served, ..self.seen.clone() }
    }

    fn party(&mut self, address: SocketAddr) -> usize {
        self.parties.iter().position(|party| party.address == address).unwrap_or_else(|| {
            self.parties.push(Party { address, sent: [0; 2], received: [0; 2], validated: false });
            self.parties.len() - 1
        })
    }

    /// Parses the packets with long headers in a datagram (RFC 9000 §12.2). A short header ends the parsing.
    fn read(&mut self, way: Direction, party: usize, mut datagram: &[u8]) {
        while datagram.first().is_some_and(|first| first & 0x80 != 0) {
            let Ok(packet) = parse_packet(datagram, 0) else { return };
            match (packet.kind, way) {
                (PacketKind::Retry, Direction::ToClient) => self.seen.retries += 1,
                (PacketKind::VersionNegotiation, Direction::ToClient) => self.seen.negotiations += 1,
                (PacketKind::Initial, Direction::ToServer) => {
                    self.seen.tokens += u64::from(!packet.token.is_empty());
                }
                (PacketKind::ZeroRtt, Direction::ToServer) => self.seen.zero_rtt += 1,
                (PacketKind::Handshake, Direction::ToServer) => self.parties[party].validated = true,
                (PacketKind::Handshake, Direction::ToClient) => self.seen.versions.extend(packet.version),
                _ => {}
            }
            datagram = datagram.get(packet.end.max(1)..).unwrap_or_default();
        }
    }
}

#[cfg(test)]
mod tests;
