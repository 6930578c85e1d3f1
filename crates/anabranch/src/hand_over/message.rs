//! Messages between the drivers of two processes that have the same sockets.

use std::net::{IpAddr, SocketAddr, SocketAddrV6};

use anabranch_transport::{Datagram, FourTuple, StoredDatagram};
use anabranch_wire::Ecn;

/// Maximum size of a message, in bytes: that of a datagram with its addresses.
pub(super) const MAX_MESSAGE: usize = 65_536 + HEAD;
/// Maximum number of bytes before the payload of a datagram: kind, ECN, and two addresses.
const HEAD: usize = 2 + 2 * 27;

const SERVING: u8 = 0;
const HANDED_ON: u8 = 1;
const OLDER: u8 = 2;
const DATAGRAM: u8 = 3;

/// Received message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// The sender receives on the sockets from now on.
    Serving,
    /// `true` if another process receives on the sockets after the sender: then they do not fall back to the receiver if the sender
    /// ends.
    HandedOn(bool),
    /// Number of processes before the receiver that live.
    Older(u8),
    /// Datagram that belongs to none of the sender's connections.
    Datagram(StoredDatagram),
}

/// Encodes a message without a datagram.
pub(super) fn notice(message: &Message) -> Vec<u8> {
    match message {
        Message::Serving | Message::Datagram(_) => vec![SERVING],
        Message::HandedOn(is_so) => vec![HANDED_ON, u8::from(*is_so)],
        Message::Older(count) => vec![OLDER, *count],
    }
}

/// Replaces the content of `out` with a datagram's message.
pub(super) fn encode(datagram: &Datagram<'_>, out: &mut Vec<u8>) {
    out.clear();
    out.extend([DATAGRAM, datagram.ecn.map_or(0, |ecn| ecn as u8)]);
    for address in [datagram.tuple.local, datagram.tuple.remote] {
        match address {
            SocketAddr::V4(v4) => {
                out.push(4);
                out.extend(v4.ip().octets());
            }
            SocketAddr::V6(v6) => {
                out.push(6);
                out.extend(v6.ip().octets());
                out.extend(v6.flowinfo().to_be_bytes());
                out.extend(v6.scope_id().to_be_bytes());
            }
        }
        out.extend(address.port().to_be_bytes());
    }
    out.extend_from_slice(datagram.payload);
}

/// Decodes a message; `None` if it is none.
pub(super) fn decode(bytes: &[u8]) -> Option<Message> {
    let (&kind, mut rest) = bytes.split_first()?;
    match (kind, rest) {
        (SERVING, []) => Some(Message::Serving),
        (HANDED_ON, [is_so]) => Some(Message::HandedOn(*is_so != 0)),
        (OLDER, [count]) => Some(Message::Older(*count)),
        (DATAGRAM, _) => {
            let [ecn] = *take(&mut rest)?;
            let (local, remote) = (address(&mut rest)?, address(&mut rest)?);
            let tuple = FourTuple { local, remote };
            Some(Message::Datagram(StoredDatagram { tuple, ecn: Ecn::from_bits(ecn), bytes: rest.to_vec() }))
        }
        _ => None,
    }
}

fn address(rest: &mut &[u8]) -> Option<SocketAddr> {
    let [family] = *take(rest)?;
    if family == 4 {
        let ip = IpAddr::from(*take::<4>(rest)?);
        return Some(SocketAddr::new(ip, u16::from_be_bytes(*take(rest)?)));
    }
    let ip = *take::<16>(rest)?;
    let (flow, scope) = (u32::from_be_bytes(*take(rest)?), u32::from_be_bytes(*take(rest)?));
    let port = u16::from_be_bytes(*take(rest)?);
    (family == 6).then(|| SocketAddrV6::new(ip.into(), port, flow, scope).into())
}

fn take<'a, const N: usize>(rest: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (taken, left) = rest.split_first_chunk()?;
    *rest = left;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_arrive_as_they_were() {
        for message in
            [Message::Serving, Message::HandedOn(true), Message::HandedOn(false), Message::Older(3)]
        {
            assert_eq!(decode(&notice(&message)), Some(message));
        }
        let scoped = SocketAddrV6::new("fe80::1".parse().unwrap(), 9, 5, 7).into();
        let mut payload = vec![1, 2, 3];
        let mut out = vec![9; 99];
        for (local, ecn) in [("192.0.2.1:443".parse().unwrap(), None), (scoped, Some(Ecn::Ce))] {
            let tuple = FourTuple { local, remote: "[2001:db8::1]:50000".parse().unwrap() };
            encode(&Datagram { tuple, ecn, payload: &mut payload }, &mut out);
            let stored = StoredDatagram { tuple, ecn, bytes: vec![1, 2, 3] };
            assert_eq!(decode(&out), Some(Message::Datagram(stored)));
            for len in 0..out.len() - 3 {
                assert_eq!(decode(&out[..len]), None, "{len}");
            }
        }
        assert_eq!(decode(&[77]), None);
        assert_eq!(decode(&[SERVING, 0]), None);
    }

    #[test]
    fn the_longest_datagram_is_no_longer_than_a_message() {
        let address = "[2001:db8::1]:50000".parse().unwrap();
        let mut payload = vec![0; 65_536];
        let mut out = Vec::new();
        let tuple = FourTuple { local: address, remote: address };
        encode(&Datagram { tuple, ecn: None, payload: &mut payload }, &mut out);
        assert_eq!(out.len(), MAX_MESSAGE);
    }
}
