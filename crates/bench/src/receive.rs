//! Nanoseconds per packet through the receive path: mask, decrypt, frames, reassembly, read by the application.

use std::time::{Duration, Instant};

use anabranch_tls::{Suite, initial_keys};
use anabranch_transport::TransportConfig;
use anabranch_transport::stream::WriteError;
use anabranch_wire::{ConnectionId, Dir, PathId, Side, Version};
use bytes::Bytes;
use serde_json::{Value, json};

use crate::memory_pair::{MemoryPair, borrow};

/// UDP payload of every packet.
pub const PACKET_LEN: u16 = 1350;

/// Batches measured in one round, before them a tenth of that to warm up.
const BATCHES: usize = 2_000;

/// One line of the result.
pub struct Row {
    /// Which stack.
    pub name: &'static str,
    /// Datagrams handed over at once.
    pub batch: usize,
    /// The result.
    pub ns_per_packet: f64,
}

impl Row {
    /// As the scripts want it.
    pub fn json(&self) -> Value {
        json!({ "name": self.name, "batch": self.batch, "ns_per_packet": self.ns_per_packet })
    }
}

fn transport() -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport.recovery.pacing = false;
    transport.recovery.mtu.initial = PACKET_LEN;
    transport.recovery.mtu.maximum = PACKET_LEN;
    transport.recovery.mtu.discovery = false;
    transport.recovery.initial_window_packets = 4_000;
    transport.streams.stream_window = 64 << 20;
    transport.streams.connection_window = 64 << 20;
    transport.ack.frequency = false;
    transport
}

/// Our own receive path with batches of `batch` datagrams.
pub fn anabranch(batch: usize) -> Result<Row, Box<dyn std::error::Error>> {
    let mut pair = MemoryPair::new(transport())?;
    let id = pair.server().and_then(|server| server.streams().open(Dir::Uni)).ok_or("no stream")?;
    let block = Bytes::from(vec![0x5a; 1 << 20]);
    let mut spent = Duration::ZERO;
    let mut packets = 0_usize;
    let mut backlog = Vec::new();
    for round in 0..BATCHES + BATCHES / 10 {
        while backlog.len() < batch {
            let server = pair.server().ok_or("the server is gone")?;
            while !matches!(server.streams().write_bytes(id, &mut block.clone()), Err(WriteError::Blocked)) {}
            let sent = pair.drain_server();
            if sent.is_empty() {
                pair.exchange();
            }
            backlog.extend(sent);
        }
        let rest = backlog.split_off(batch);
        let mut datagrams = std::mem::replace(&mut backlog, rest);
        let now = pair.now;
        let client = pair.client().ok_or("the client is gone")?;
        let mut batch = borrow(&mut datagrams);
        let begin = Instant::now();
        client.handle_batch(now, &mut batch);
        while let Ok(bytes) = client.streams().peek(id) {
            let len = bytes.len();
            client.streams().consume(id, len)?;
        }
        let elapsed = begin.elapsed();
        if round >= BATCHES / 10 {
            spent += elapsed;
            packets += datagrams.len();
        }
        let mut acks = pair.drain_client();
        pair.deliver_to_server(&mut acks);
    }
    Ok(Row { name: "anabranch-v1", batch, ns_per_packet: spent.as_nanos() as f64 / packets as f64 })
}

/// The bare cost of what no receiver can avoid: one header mask and one AEAD open in place per packet.
pub fn floor() -> f64 {
    const PACKETS: usize = 64;
    const ROUNDS: usize = 2_000;
    let format = match Version::V1.format() {
        Some(format) => format,
        None => return f64::NAN,
    };
    debug_assert_eq!(Suite::Aes128Gcm.tag_len(), anabranch_tls::TAG_LEN);
    let dcid = ConnectionId::new(&[7; 8]).unwrap_or(ConnectionId::EMPTY);
    // Initial keys are AES-128-GCM, like those of the connection.
    let keys = initial_keys(format, &dcid, Side::Client);
    let header_len = 13;
    let mut sealed: Vec<Vec<u8>> = (0..PACKETS).map(|_| vec![0x5a; usize::from(PACKET_LEN)]).collect();
    for (number, packet) in sealed.iter_mut().enumerate() {
        keys.local.packet.seal(PathId::ZERO, number as u64, header_len, packet);
    }
    let opener = initial_keys(format, &dcid, Side::Server);
    let mut spent = Duration::ZERO;
    for _ in 0..ROUNDS {
        let mut packets = sealed.clone();
        let begin = Instant::now();
        for (number, packet) in packets.iter_mut().enumerate() {
            let mut sample = [0; 16];
            sample.copy_from_slice(&packet[header_len..header_len + 16]);
            std::hint::black_box(opener.remote.header.mask(&sample));
            let opened = opener.remote.packet.open(PathId::ZERO, number as u64, header_len, packet);
            std::hint::black_box(opened.is_ok());
        }
        spent += begin.elapsed();
    }
    spent.as_nanos() as f64 / (PACKETS * ROUNDS) as f64
}
