//! Receive path of our own stack.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use anabranch_transport::recovery::{Config, InitialWindow, MtuConfig};
use anabranch_transport::stream::{ReceivedBytes, WriteError};
use anabranch_transport::{AckConfig, Datagram, Handle, TransmitBuf, TransportConfig};
use anabranch_wire::{Dir, StreamId, Version};

use super::{Bytes, PACKET_LEN, PACKETS, Sample};
use crate::memory::{self, Memory};
use crate::{Error, counting};

/// Returns a configuration with a fixed packet size, in which neither pacing nor the window limits the sender.
pub(crate) fn transport(version: Version) -> TransportConfig {
    let mtu = MtuConfig::default().with_initial(PACKET_LEN).with_maximum(PACKET_LEN).with_discovery(false);
    let recovery =
        Config::default().with_pacing(false).with_mtu(mtu).with_initial_window(InitialWindow::Packets(4_000));
    TransportConfig::default()
        .with_versions([version])
        .with_recovery(recovery)
        .with_ack(AckConfig::default().with_frequency(false))
}

/// Total times, packets and allocations of the received batches.
#[derive(Default)]
struct Spent {
    receiving: Duration,
    acknowledging: Duration,
    packets: usize,
    allocations: usize,
}

/// Measures batches of `batch` datagrams.
pub(super) fn measure(version: Version, batch: usize) -> Result<Sample, Error> {
    let mut flow = Flow::new(version)?;
    let mut spent = Spent::default();
    for _ in 0..PACKETS / 10 / batch {
        flow.receive(batch, &mut spent)?;
    }
    spent = Spent::default();
    let before = flow.received()?;
    for _ in 0..PACKETS / batch {
        flow.receive(batch, &mut spent)?;
    }
    let after = flow.received()?;
    let per_packet = |time: Duration| time.as_nanos() as f64 / spent.packets as f64;
    Ok(Sample {
        ns_per_packet: per_packet(spent.receiving),
        ack_ns_per_packet: Some(per_packet(spent.acknowledging)),
        bytes: Some(Bytes {
            copied: after.copied - before.copied,
            restored: after.restored - before.restored,
            allocations_per_packet: spent.allocations as f64 / spent.packets as f64,
        }),
    })
}

/// One stream from the server to the client.
struct Flow {
    memory: Memory,
    client: Handle,
    server: Handle,
    stream: StreamId,
    block: bytes::Bytes,
    /// Datagrams that are sent and not yet received.
    backlog: VecDeque<memory::Wire>,
    /// Buffer that holds a batch, one packet after another.
    buffer: Vec<u8>,
    acks: TransmitBuf,
}

impl Flow {
    fn new(version: Version) -> Result<Self, Error> {
        let mut memory = Memory::new(transport(version))?;
        let (client, server) = memory.connect()?;
        let stream = memory.server(server)?.streams().open(Dir::Uni).ok_or("no stream may be opened")?;
        Ok(Self {
            memory,
            client,
            server,
            stream,
            block: bytes::Bytes::from(vec![0x5a; 1 << 20]),
            backlog: VecDeque::new(),
            buffer: Vec::new(),
            acks: TransmitBuf::new(1),
        })
    }

    /// Returns statistics about the bytes that the client received.
    fn received(&mut self) -> Result<ReceivedBytes, Error> {
        Ok(self.memory.client(self.client)?.stats().received)
    }

    /// Delivers the next batch to the client, whose application reads it.
    fn receive(&mut self, batch: usize, spent: &mut Spent) -> Result<(), Error> {
        while self.backlog.len() < batch {
            self.send()?;
        }
        let wires: Vec<memory::Wire> = self.backlog.drain(..batch).collect();
        self.buffer.clear();
        wires.iter().for_each(|wire| self.buffer.extend_from_slice(&wire.bytes));
        let mut rest = self.buffer.as_mut_slice();
        let mut datagrams = Vec::with_capacity(batch);
        for wire in &wires {
            let (payload, next) = rest.split_at_mut(wire.bytes.len());
            datagrams.push(Datagram { tuple: wire.tuple, ecn: None, payload });
            rest = next;
        }
        let now = self.memory.now;
        let client = self.memory.client(self.client)?;
        let allocations = counting::allocations();
        let begin = Instant::now();
        client.handle_batch(now, &mut datagrams);
        while client.poll_event().is_some() {}
        while let Ok(bytes) = client.streams().peek(self.stream) {
            let len = std::hint::black_box(bytes).len();
            client.streams().consume(self.stream, len)?;
        }
        spent.receiving += begin.elapsed();
        spent.allocations += counting::allocations() - allocations;
        spent.packets += batch;
        self.acknowledge(spent)
    }

    /// Delivers the ACKs for the batch to the server.
    fn acknowledge(&mut self, spent: &mut Spent) -> Result<(), Error> {
        let now = self.memory.now;
        let mut sent = Vec::new();
        loop {
            let client = self.memory.client(self.client)?;
            let begin = Instant::now();
            let transmit = client.poll_transmit(now, &mut self.acks);
            spent.acknowledging += begin.elapsed();
            let Some(transmit) = transmit else { break };
            let tuple =
                anabranch_transport::FourTuple { local: transmit.tuple.remote, remote: transmit.tuple.local };
            sent.push(memory::Wire { tuple, bytes: self.acks.filled(&transmit).to_vec() });
        }
        self.memory.deliver_to_server(sent);
        Ok(())
    }

    /// Lets the server send until its window is full.
    fn send(&mut self) -> Result<(), Error> {
        let streams = self.memory.server(self.server)?.streams();
        while !matches!(streams.write_bytes(self.stream, &mut self.block.clone()), Err(WriteError::Blocked)) {
        }
        let sent = self.memory.drain_server();
        if sent.is_empty() {
            // The server waits for a delayed ACK or for flow control credit.
            self.memory.exchange();
        }
        self.backlog.extend(sent);
        Ok(())
    }
}
