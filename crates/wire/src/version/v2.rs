//! QUIC version 2 (RFC 9369): version 1 with other constants.

use super::{Format, Labels, NumberField, Version};
use crate::cursor::Direction;
use crate::header::PacketKind;

pub(super) const FORMAT: Format = Format {
    version: Version(0x6b33_43cf),
    direction: Direction::Forward,
    // RFC 9369 §3.3.1
    initial_salt: [
        0x0d, 0xed, 0xe3, 0xde, 0xf7, 0x00, 0xa6, 0xdb, 0x81, 0x93, 0x81, 0xbe, 0x6e, 0x26, 0x9d, 0xcb, 0xf9,
        0xbd, 0x2e, 0xd9,
    ],
    labels: Labels { key: "quicv2 key", iv: "quicv2 iv", hp: "quicv2 hp", ku: "quicv2 ku" },
    // RFC 9369 §3.3.3
    retry_key: [
        0x8f, 0xb4, 0xb0, 0x1b, 0x56, 0xac, 0x48, 0xe2, 0x60, 0xfb, 0xcb, 0xce, 0xad, 0x7c, 0xcc, 0x92,
    ],
    retry_nonce: [0xd8, 0x69, 0x69, 0xbc, 0x2d, 0x7c, 0x6d, 0x99, 0x90, 0xef, 0xb0, 0x4a],
    // RFC 9369 §3.2
    long_types: [PacketKind::Retry, PacketKind::Initial, PacketKind::ZeroRtt, PacketKind::Handshake],
    handshake_number: NumberField::PLAIN,
    data_number: NumberField::PLAIN,
    names_stream: false,
};
