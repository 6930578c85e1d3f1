//! Handcrafted packets, for tests that act as a peer without a connection.

use anabranch_tls::{TAG_LEN, initial_keys};
use anabranch_wire::{ConnectionId, Frame, NewLong, NewNumber, PacketKind, PathId, Side, Version, Writer};

/// A client's Initial packet.
#[derive(Clone, Copy, Debug)]
pub struct Initial<'a> {
    /// QUIC version of the packet.
    pub version: Version,
    /// Destination connection ID, from which the keys are derived.
    pub dcid: &'a ConnectionId,
    /// Token of a Retry packet or a NEW_TOKEN frame.
    pub token: &'a [u8],
    /// Packet number.
    pub pn: u64,
    /// Frames at the beginning of the payload; PADDING follows.
    pub frames: &'a [Frame<'a>],
    /// Length in bytes of the packet, and of its datagram.
    pub size: usize,
    /// The fixed bit, which is 1 in QUIC (RFC 9000 §17.2).
    pub fixed_bit: bool,
}

impl<'a> Initial<'a> {
    /// Creates the first packet of a connection, which contains a PING frame.
    pub fn new(dcid: &'a ConnectionId, token: &'a [u8]) -> Self {
        Self {
            version: Version::V1,
            dcid,
            token,
            pn: 0,
            frames: &[Frame::Ping],
            size: 1_200,
            fixed_bit: true,
        }
    }

    /// Returns the source connection ID that all these packets use.
    pub fn scid() -> ConnectionId {
        ConnectionId::new(&0xc11e_u64.to_be_bytes()).unwrap()
    }

    /// Returns the packet, protected as RFC 9001 §5 requires.
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
            fixed_bit: self.fixed_bit,
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
