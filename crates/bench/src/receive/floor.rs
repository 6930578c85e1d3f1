//! The bare cost of what no receiver can avoid: one header mask and one AEAD opened in place per packet.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anabranch_tls::initial_keys;
use anabranch_wire::{ConnectionId, PathId, Side, Version};

use super::{PACKET_LEN, PACKETS, Sample};
use crate::Error;

/// Packets opened at once, from one buffer into which they were copied just before.
const BATCH: usize = 50;

/// A short header with a connection ID of 8 bytes and a packet number of 4.
const HEADER_LEN: usize = 13;

/// Measures AES-128-GCM, as the connections of the benchmark use it.
pub(super) fn measure() -> Result<Sample, Error> {
    let format = Version::V1.format().ok_or("QUIC version 1 is missing")?;
    let dcid = ConnectionId::new(&[7; 8]).ok_or("8 bytes are not a connection ID")?;
    // Initial keys are AES-128-GCM keys like any others (RFC 9001 §5.2).
    let sealer = initial_keys(format, &dcid, Side::Client).local;
    let opener = initial_keys(format, &dcid, Side::Server).remote;
    let packet_len = usize::from(PACKET_LEN);
    let mut sealed = vec![0x5a; BATCH * packet_len];
    for (number, packet) in sealed.chunks_mut(packet_len).enumerate() {
        sealer.packet.seal(PathId::ZERO, number as u64, HEADER_LEN, packet);
    }
    let mut buffer = sealed.clone();
    let mut spent = Duration::ZERO;
    for _ in 0..PACKETS / BATCH {
        buffer.copy_from_slice(&sealed);
        let begin = Instant::now();
        for (number, packet) in buffer.chunks_mut(packet_len).enumerate() {
            let mut sample = [0; 16];
            sample.copy_from_slice(&packet[HEADER_LEN..HEADER_LEN + 16]);
            black_box(opener.header.mask(&sample));
            let opened = opener.packet.open(PathId::ZERO, number as u64, HEADER_LEN, packet);
            if opened.is_err() {
                return Err("a packet of the floor did not open".into());
            }
        }
        spent += begin.elapsed();
    }
    let packets = PACKETS / BATCH * BATCH;
    Ok(Sample { ns_per_packet: spent.as_nanos() as f64 / packets as f64, ack_ns_per_packet: None })
}
