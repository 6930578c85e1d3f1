//! Receive path: one bulk stream to the client.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use anabranch_transport::recovery::{Config, InitialWindow, MtuConfig};
use anabranch_transport::stream::{ReceivedBytes, WriteError};
use anabranch_transport::{AckConfig, Connection, Datagram, FourTuple, Handle, TransmitBuf, TransportConfig};
use anabranch_wire::{Dir, StreamId, Time, Version};

use crate::memory::{self, Memory};
use crate::{Error, PACKET_LEN, counting};

/// Returns a configuration with a fixed packet size, in which neither pacing nor the window limits the sender.
pub fn transport(version: Version) -> TransportConfig {
    let mtu = MtuConfig::default().with_initial(PACKET_LEN).with_maximum(PACKET_LEN).with_discovery(false);
    let recovery =
        Config::default().with_pacing(false).with_mtu(mtu).with_initial_window(InitialWindow::Packets(4_000));
    TransportConfig::default()
        .with_versions([version])
        .with_recovery(recovery)
        .with_ack(AckConfig::default().with_frequency(false))
}

/// Total times, packets and allocations of the received batches.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spent {
    /// Time from datagrams to bytes that the application has read.
    pub receiving: Duration,
    /// Time in which ACKs for them are made.
    pub acknowledging: Duration,
    /// Number of packets.
    pub packets: usize,
    /// Number of allocations while receiving; zero if the program's allocator does not count.
    pub allocations: usize,
}

/// One stream from the server to the client.
pub struct Flow {
    /// Time, packets and allocations of the batches so far.
    pub spent: Spent,
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
    /// Connects a client and a server.
    ///
    /// # Errors
    ///
    /// The handshake did not succeed.
    pub fn new(version: Version) -> Result<Self, Error> {
        let mut memory = Memory::new(transport(version))?;
        let (client, server) = memory.connect()?;
        let stream = memory.server(server)?.streams().open(Dir::Uni).ok_or("no stream may be opened")?;
        Ok(Self {
            spent: Spent::default(),
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
    ///
    /// # Errors
    ///
    /// The connection has ended.
    pub fn received(&mut self) -> Result<ReceivedBytes, Error> {
        Ok(self.memory.client(self.client)?.stats().received)
    }

    /// Delivers the next batch of `batch` datagrams to the client, whose application reads it.
    ///
    /// # Errors
    ///
    /// The connection has ended.
    pub fn receive(&mut self, batch: usize) -> Result<(), Error> {
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
        deliver(client, self.stream, now, &mut datagrams)?;
        self.spent.receiving += begin.elapsed();
        self.spent.allocations += counting::allocations() - allocations;
        self.spent.packets += batch;
        self.acknowledge()
    }

    /// Delivers the ACKs for the batch to the server.
    fn acknowledge(&mut self) -> Result<(), Error> {
        let now = self.memory.now;
        let mut sent = Vec::new();
        loop {
            let client = self.memory.client(self.client)?;
            let begin = Instant::now();
            let transmit = client.poll_transmit(now, &mut self.acks);
            self.spent.acknowledging += begin.elapsed();
            let Some(transmit) = transmit else { break };
            let tuple = FourTuple { local: transmit.tuple.remote, remote: transmit.tuple.local };
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

/// Delivers datagrams to the client, whose application reads the stream.
#[inline(never)]
fn deliver(
    client: &mut Connection,
    stream: StreamId,
    now: Time,
    datagrams: &mut [Datagram<'_>],
) -> Result<(), Error> {
    client.handle_batch(now, datagrams);
    while client.poll_event().is_some() {}
    while let Ok(bytes) = client.streams().peek(stream) {
        let len = std::hint::black_box(bytes).len();
        client.streams().consume(stream, len)?;
    }
    Ok(())
}
