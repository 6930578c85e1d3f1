//! QUIC version 1 (RFC 9000, RFC 9001).

use super::{Format, Labels, NumberField, Version};
use crate::cursor::Direction;
use crate::header::PacketKind;

pub(super) const FORMAT: Format = Format {
    version: Version(1),
    direction: Direction::Forward,
    // RFC 9001 §5.2
    initial_salt: [
        0x38, 0x76, 0x2c, 0xf7, 0xf5, 0x59, 0x34, 0xb3, 0x4d, 0x17, 0x9a, 0xe6, 0xa4, 0xc8, 0x0c, 0xad, 0xcc,
        0xbb, 0x7f, 0x0a,
    ],
    labels: Labels { key: "quic key", iv: "quic iv", hp: "quic hp", ku: "quic ku" },
    // RFC 9001 §5.8
    retry_key: [
        0xbe, 0x0c, 0x69, 0x0b, 0x9f, 0x66, 0x57, 0x5a, 0x1d, 0x76, 0x6b, 0x54, 0xe3, 0x68, 0xc8, 0x4e,
    ],
    retry_nonce: [0x46, 0x15, 0x99, 0xd3, 0x5d, 0x63, 0x2b, 0xf2, 0x23, 0x98, 0x25, 0xbb],
    // RFC 9000 §17.2
    long_types: [PacketKind::Initial, PacketKind::ZeroRtt, PacketKind::Handshake, PacketKind::Retry],
    handshake_number: NumberField::PLAIN,
    data_number: NumberField::PLAIN,
    names_stream: false,
};
