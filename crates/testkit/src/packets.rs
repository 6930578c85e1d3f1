//! Packets made by hand, for peers that are none.

use anabranch_tls::{TAG_LEN, initial_keys};
use anabranch_wire::{ConnectionId, Frame, NewLong, NewNumber, PacketKind, PathId, Side, Version, Writer};

/// A client's Initial.
#[derive(Clone, Copy, Debug)]
pub struct Initial<'a> {
    /// Its version.
    pub version: Version,
    /// Destination, from which its keys follow.
    pub dcid: &'a ConnectionId,
    /// Token of a Retry or a NEW_TOKEN frame.
    pub token: &'a [u8],
    /// Packet number.
    pub pn: u64,
    /// Frames that come first; the rest is PADDING.
    pub frames: &'a [Frame<'a>],
    /// Bytes of the packet, which are a datagram's.
    pub size: usize,
}

impl<'a> Initial<'a> {
    /// Describes the first packet of a connection, which holds a PING.
    pub fn new(dcid: &'a ConnectionId, token: &'a [u8]) -> Self {
        Self { version: Version::V1, dcid, token, pn: 0, frames: &[Frame::Ping], size: 1_200 }
    }

    /// Returns the source connection ID of all these packets.
    pub fn scid() -> ConnectionId {
        ConnectionId::new(&0xc11e_u64.to_be_bytes()).unwrap()
    }

    /// Returns the packet, sealed as RFC 9001 §5 requires.
    pub fn seal(&self) -> Vec<u8> {
        let format = self.version.format().unwrap();
        let keys = initial_keys(format, self.dcid, Side::Client).local;
        let mut packet = vec![0; self.size];
        let header = NewLong {
            kind: PacketKind::Initial,
            dcid: self.dcid,
            scid: &Self::scid(),
            token: self.token,
            number: NewNumber { pn: self.pn, unacked: self.pn + 1, announced: None },
            fixed_bit: true,
        };
        let outgoing = format.write_long(&mut packet, &header).unwrap();
        let mut writer = Writer::new(&mut packet[outgoing.header_len..self.size - TAG_LEN], format.direction);
        for frame in self.frames {
            writer.frame(frame).unwrap();
        }
        format.set_length(&mut packet, &outgoing);
        keys.packet.seal(PathId::ZERO, self.pn, outgoing.header_len, &mut packet);
        let sample = format.sample(&packet, PacketKind::Initial, outgoing.pn_offset).unwrap();
        format.mask(&mut packet, &outgoing, &keys.header.mask(&sample));
        packet
    }
}
