//! `receive`: the cost of a received packet, without sockets.
//!
//! Client and server are in memory, and the server sends one stream in full packets. The clock runs while the
//! client's `recv` handles a batch of datagrams, and while the client reads all available data of the stream.
//! It is stopped while packets are created, and while acknowledgments are created and handled.

use std::hint::black_box;
use std::time::{Duration, Instant};

use peer_common::args::Values;
use peer_common::report::Report;
use peer_common::{Failure, PATTERN, failed, socket};

use crate::pair::{PACKET, Pair};
use crate::{stack, unlimited};

/// ID of the first unidirectional stream of a server (RFC 9000 §2.1).
const STREAM: u64 = 3;

/// Number of measured batches for each warm-up batch.
const WARM_UP: usize = 10;

/// Runs `receive --batch N --packets M [--one-core K]`, with the flags for the stack's settings.
pub fn run(flags: Vec<String>) -> Result<(), Failure> {
    let flags = Values::parse(flags, &[&["--batch", "--packets", "--one-core"], unlimited::FLAGS].concat())?;
    let batch = flags.get("--batch")?.unwrap_or(10_usize).max(1);
    let packets = flags.get("--packets")?.unwrap_or(100_000_usize);
    if let Some(cpu) = flags.get("--one-core")? {
        socket::pin(cpu)?;
    }
    let (mut client, mut server) = unlimited::configs(&flags)?;
    let mut flow = Flow::new(Pair::new(&mut client, &mut server)?);
    let rounds = (packets / batch).max(1);
    let mut times = Vec::with_capacity(rounds);
    let mut bytes = 0;
    for round in 0..rounds + rounds / WARM_UP {
        let (elapsed, read) = flow.round(batch)?;
        if round >= rounds / WARM_UP {
            times.push(elapsed);
            bytes += read;
        }
    }
    let measured = rounds * batch;
    let total: Duration = times.iter().sum();
    times.sort_unstable();
    let nanos = |time: Duration, packets: usize| format!("{:.1}", time.as_nanos() as f64 / packets as f64);
    Report::new()
        .text("name", &unlimited::name(&flags)?)
        .raw("batch", batch)
        .raw("packets", measured)
        .raw("bytes", bytes)
        .raw("ns_per_packet", nanos(total, measured))
        .raw("ns_per_packet_median", nanos(times[rounds / 2], batch))
        .print();
    Ok(())
}

/// One stream of the server.
struct Flow {
    pair: Pair,
    datagrams: Vec<Vec<u8>>,
    /// Buffer into which a stack copies received data, unless it lends its own memory.
    read: Vec<u8>,
}

impl Flow {
    fn new(pair: Pair) -> Self {
        Self { pair, datagrams: Vec::new(), read: Vec::new() }
    }

    /// Runs one batch of exactly `batch` full packets. Returns the time that the client took, and the number
    /// of bytes that it read.
    fn round(&mut self, batch: usize) -> Result<(Duration, usize), Failure> {
        let Self { pair, datagrams, read } = self;
        datagrams.resize_with(batch, || vec![0; PACKET]);
        read.resize(batch * PACKET, 0);
        let mut queued = 0;
        while queued < batch * PACKET {
            let wanted = (batch * PACKET - queued).min(PATTERN.len());
            queued += pair.server.stream_send(STREAM, &PATTERN[..wanted], false)?;
        }
        for datagram in datagrams.iter_mut() {
            let (n, _) = pair.server.send(datagram)?;
            if n != PACKET {
                return failed(format!("a packet of {n} bytes instead of {PACKET}"));
            }
        }
        let mut bytes = 0;
        let start = Instant::now();
        for datagram in datagrams {
            pair.client.recv(datagram, Pair::to_client())?;
        }
        stack::read(&mut pair.client, STREAM, read, |piece| bytes += black_box(piece).len())?;
        let elapsed = start.elapsed();
        // The rest of the server's data is sent in a shorter last packet, and all packets are acknowledged.
        pair.exchange()?;
        stack::read(&mut pair.client, STREAM, read, |_| {})?;
        pair.exchange()?;
        unlimited::between_batches();
        Ok((elapsed, bytes))
    }
}
