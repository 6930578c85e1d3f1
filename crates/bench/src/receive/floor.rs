//! Lower bound of the receive cost that no receiver can avoid: one header mask and one AEAD decryption per
//! packet.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anabranch_tls::{Keys, TAG_LEN, initial_keys};
use anabranch_wire::{ConnectionId, PathId, Side, Version};
use anabranch_workloads::PACKET_LEN;

use super::{PACKETS, Sample};
use crate::Error;

/// Number of packets decrypted per batch, from one buffer that was filled just before.
const BATCH: usize = 50;

/// Length of a short header of version 1 or 2, with a connection ID of 8 bytes and a packet number of 4.
const HEADER_LEN: usize = 13;

/// Length of a VReverso header: the fields that [`HEADER_LEN`] counts, a stream ID of 4 bytes, and an offset
/// of 4 bytes.
const REVERSO_HEADER_LEN: usize = HEADER_LEN + 8;

/// Number of header bytes that VReverso masks: first byte, packet number, stream ID and offset.
const REVERSO_MASKED: usize = 13;

/// Distance in bytes from the first masked field, the packet number, to the sample of the header mask.
const REVERSO_SAMPLE: usize = 12;

/// Measures AES-128-GCM as in the benchmark's connections: decrypted in place, with a mask of five header
/// bytes.
pub(super) fn measure() -> Result<Sample, Error> {
    let keys = keys()?;
    over_batches(&keys, HEADER_LEN, |number, packet| {
        let sample = sample(packet, HEADER_LEN);
        let mask = keys.header(&sample);
        unmask(packet, &mask, HEADER_LEN - 4, 4);
        keys.opener.remote.packet.open(PathId::ZERO, number, HEADER_LEN, packet).is_ok()
    })
}

/// Measures the other direction: nanoseconds per packet of version 1 to seal it in place, with a mask of five header
/// bytes.
pub(crate) fn measure_seal() -> Result<f64, Error> {
    let keys = keys()?;
    let packet_len = usize::from(PACKET_LEN);
    let mut buffer = vec![0x5a; BATCH * packet_len];
    let begin = Instant::now();
    for batch in 0..PACKETS / BATCH {
        for (number, packet) in buffer.chunks_mut(packet_len).enumerate() {
            keys.seal((batch * BATCH + number) as u64, HEADER_LEN, packet);
        }
        black_box(&mut buffer);
    }
    Ok(begin.elapsed().as_nanos() as f64 / (PACKETS / BATCH * BATCH) as f64)
}

/// Measures VReverso: packets are decrypted into other memory, with a mask of thirteen bytes.
pub(super) fn measure_reverso() -> Result<Sample, Error> {
    let keys = keys()?;
    let mut place = vec![0; usize::from(PACKET_LEN) * BATCH];
    over_batches(&keys, REVERSO_HEADER_LEN, |number, packet| keys.open_reverso(number, packet, &mut place))
}

/// Measures the milliseconds for `packets` VReverso packets, each in separate memory. Together they exceed
/// the processor's caches, unlike the batches above.
pub(super) fn measure_reverso_once(packets: usize) -> Result<f64, Error> {
    let keys = keys()?;
    let mut place = vec![0; usize::from(PACKET_LEN) * BATCH];
    let seal = |number| {
        let mut packet = vec![0x5a; usize::from(PACKET_LEN)];
        keys.seal(number, REVERSO_HEADER_LEN, &mut packet);
        packet
    };
    let mut sealed: Vec<Vec<u8>> = (0..packets as u64).map(seal).collect();
    let begin = Instant::now();
    let opened =
        |(number, packet): (usize, &mut Vec<u8>)| keys.open_reverso(number as u64, packet, &mut place);
    if !sealed.iter_mut().enumerate().all(opened) {
        return Err("a packet of the floor did not open".into());
    }
    Ok(begin.elapsed().as_secs_f64() * 1e3)
}

/// Keys of both endpoints.
struct BothKeys {
    sealer: Keys,
    opener: Keys,
}

impl BothKeys {
    fn header(&self, sample: &[u8; 16]) -> [u8; 16] {
        self.opener.remote.header.mask(sample)
    }

    /// Seals `packet` in place, and masks its header.
    fn seal(&self, number: u64, header_len: usize, packet: &mut [u8]) {
        self.sealer.local.packet.seal(PathId::ZERO, number, header_len, packet);
        protect(self, packet, header_len);
    }

    /// Decrypts a packet into `place`, at the position of its stream content. `place` has room for [`BATCH`]
    /// packets.
    fn open_reverso(&self, number: u64, packet: &mut [u8], place: &mut [u8]) -> bool {
        let content = usize::from(PACKET_LEN) - REVERSO_HEADER_LEN - TAG_LEN;
        let fields = REVERSO_HEADER_LEN - (REVERSO_MASKED - 1);
        let sample = sample(packet, fields + REVERSO_SAMPLE);
        let mask = self.header(&sample);
        unmask(packet, &mask, fields, REVERSO_MASKED - 1);
        let (header, sealed) = packet.split_at(REVERSO_HEADER_LEN);
        let out = &mut place[number as usize % BATCH * content..][..content];
        let opened = self.opener.remote.packet.open_into(PathId::ZERO, number, header, sealed, out);
        black_box(out);
        opened.is_ok()
    }
}

fn keys() -> Result<BothKeys, Error> {
    let format = Version::V1.format().ok_or("QUIC version 1 is missing")?;
    let dcid = ConnectionId::new(&[7; 8]).ok_or("8 bytes are not a connection ID")?;
    // Initial keys are ordinary AES-128-GCM keys (RFC 9001 §5.2).
    let sealer = initial_keys(format, &dcid, Side::Client);
    Ok(BothKeys { sealer, opener: initial_keys(format, &dcid, Side::Server) })
}

fn sample(packet: &[u8], at: usize) -> [u8; 16] {
    let mut sample = [0; 16];
    sample.copy_from_slice(&packet[at..at + 16]);
    sample
}

/// Removes the mask from the first byte and from `len` bytes at `at`.
fn unmask(packet: &mut [u8], mask: &[u8; 16], at: usize, len: usize) {
    packet[0] ^= mask[0] & 0x1f;
    for (byte, mask) in packet[at..at + len].iter_mut().zip(&mask[1..]) {
        *byte ^= mask;
    }
}

/// Measures `open` on batches of packets with headers of `header_len` bytes. `open` must remove the mask as
/// well.
fn over_batches(
    keys: &BothKeys,
    header_len: usize,
    mut open: impl FnMut(u64, &mut [u8]) -> bool,
) -> Result<Sample, Error> {
    let packet_len = usize::from(PACKET_LEN);
    let mut sealed = vec![0x5a; BATCH * packet_len];
    for (number, packet) in sealed.chunks_mut(packet_len).enumerate() {
        keys.seal(number as u64, header_len, packet);
    }
    let mut buffer = sealed.clone();
    let mut spent = Duration::ZERO;
    for _ in 0..PACKETS / BATCH {
        buffer.copy_from_slice(&sealed);
        let begin = Instant::now();
        for (number, packet) in buffer.chunks_mut(packet_len).enumerate() {
            if !open(number as u64, packet) {
                return Err("a packet of the floor did not open".into());
            }
        }
        spent += begin.elapsed();
    }
    let packets = PACKETS / BATCH * BATCH;
    Ok(Sample {
        ns_per_packet: spent.as_nanos() as f64 / packets as f64,
        ack_ns_per_packet: None,
        bytes: None,
    })
}

/// Applies the header mask that the `open` functions passed to `over_batches` remove.
fn protect(keys: &BothKeys, packet: &mut [u8], header_len: usize) {
    let (at, len, from) = if header_len == HEADER_LEN {
        (HEADER_LEN - 4, 4, HEADER_LEN)
    } else {
        let fields = REVERSO_HEADER_LEN - (REVERSO_MASKED - 1);
        (fields, REVERSO_MASKED - 1, fields + REVERSO_SAMPLE)
    };
    let mask = keys.sealer.local.header.mask(&sample(packet, from));
    unmask(packet, &mask, at, len);
}
