//! Send path: one bulk stream of the server.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anabranch_transport::stream::WriteError;
use anabranch_transport::{Connection, FourTuple, Handle, Transmit, TransmitBuf, TransportConfig};
use anabranch_wire::{Dir, StreamId, Time};

use crate::Error;
use crate::memory::{self, Memory, STEP};

/// Number of datagrams that one batch can have, as in the library's driver.
const BATCH: usize = 64;

/// Number of packets that the server sends before they are delivered and acknowledged.
const TURN: usize = 4 * BATCH;

/// Virtual time that passes for each packet, so that schedulers see which path was used last.
const PER_PACKET: Duration = Duration::from_micros(1);

/// Port of the client's second path.
const SECOND_PORT: u16 = 50_001;

/// Exchanges within which a second path is validated.
const PATH_EXCHANGES: usize = 40;

/// Maximum number of turns in a row in which the server sends nothing.
const PATIENCE: usize = 100;

/// Total of the measured calls.
#[derive(Clone, Debug, Default)]
pub struct Spent {
    /// Time of the calls, with two readings of the clock for each.
    pub time: Duration,
    /// Number of calls of `poll_transmit`.
    pub calls: usize,
    /// Number of packets.
    pub packets: usize,
    /// Number of bytes in the packets.
    pub bytes: usize,
    /// Packets on each path, by the client's port.
    pub paths: BTreeMap<u16, usize>,
}

/// One stream from the server to the client.
pub struct Flow {
    /// Time, packets and bytes of the calls so far.
    pub spent: Spent,
    memory: Memory,
    client: Handle,
    server: Handle,
    stream: StreamId,
    block: bytes::Bytes,
    buffer: TransmitBuf,
}

impl Flow {
    /// Connects the endpoints, over two paths if the configuration has several.
    ///
    /// # Errors
    ///
    /// The handshake or the opening of the second path did not succeed.
    pub fn new(config: TransportConfig) -> Result<Self, Error> {
        let two_paths = config.multipath().is_some();
        let mut memory = Memory::new(config)?;
        let (client, server) = memory.connect()?;
        if two_paths {
            let remote = SocketAddr::from(([127, 0, 0, 2], 4433));
            let local = SocketAddr::from(([127, 0, 0, 1], SECOND_PORT));
            let now = memory.now;
            memory.client(client)?.open_path(now, FourTuple { local, remote })?;
            (0..PATH_EXCHANGES).for_each(|_| memory.exchange());
        }
        let stream = memory.server(server)?.streams().open(Dir::Uni).ok_or("no stream may be opened")?;
        let block = bytes::Bytes::from(vec![0x5a; 1 << 20]);
        let buffer = TransmitBuf::new(BATCH);
        Ok(Self { memory, client, server, stream, block, buffer, spent: Spent::default() })
    }

    /// Sends at least `packets` packets, which the client receives and acknowledges.
    ///
    /// # Errors
    ///
    /// The connection has ended, or the sender sends nothing any more.
    pub fn send(&mut self, packets: usize) -> Result<(), Error> {
        let (goal, mut idle) = (self.spent.packets + packets, 0);
        while self.spent.packets < goal {
            self.write()?;
            let sent = self.transmit()?;
            idle = if sent.is_empty() { idle + 1 } else { 0 };
            if idle > PATIENCE {
                return Err("the sender stalled".into());
            }
            self.receive(sent)?;
            self.acknowledge()?;
        }
        Ok(())
    }

    /// Writes until flow control or the send buffer blocks the stream.
    fn write(&mut self) -> Result<(), Error> {
        let streams = self.memory.server(self.server)?.streams();
        while !matches!(streams.write_bytes(self.stream, &mut self.block.clone()), Err(WriteError::Blocked)) {
        }
        Ok(())
    }

    /// Lets the server send up to [`TURN`] packets, and measures the time.
    fn transmit(&mut self) -> Result<Vec<memory::Wire>, Error> {
        let mut sent = Vec::new();
        while sent.len() < TURN {
            let now = self.memory.now;
            let server = self.memory.server(self.server)?;
            let begin = Instant::now();
            let transmit = poll(server, now, &mut self.buffer);
            self.spent.time += begin.elapsed();
            self.spent.calls += 1;
            let Some(transmit) = transmit else { break };
            let filled = self.buffer.filled(&transmit);
            let tuple = FourTuple { local: transmit.tuple.remote, remote: transmit.tuple.local };
            let datagrams = filled.chunks(transmit.segment_size);
            self.memory.now += PER_PACKET * u32::try_from(datagrams.len())?;
            self.spent.packets += datagrams.len();
            self.spent.bytes += filled.len();
            *self.spent.paths.entry(tuple.local.port()).or_default() += datagrams.len();
            sent.extend(datagrams.map(|bytes| memory::Wire { tuple, bytes: bytes.to_vec() }));
        }
        Ok(sent)
    }

    /// Lets the client receive packets, whose data its application reads.
    fn receive(&mut self, mut sent: Vec<memory::Wire>) -> Result<(), Error> {
        let now = self.memory.now;
        let client = self.memory.client(self.client)?;
        client.handle_batch(now, &mut memory::borrow(&mut sent));
        while client.poll_event().is_some() {}
        while let Ok(bytes) = client.streams().peek(self.stream) {
            let len = bytes.len();
            client.streams().consume(self.stream, len)?;
        }
        Ok(())
    }

    /// Delivers the client's acknowledgments to the server, later by the one-way delay. Both handle their timers.
    fn acknowledge(&mut self) -> Result<(), Error> {
        self.memory.now += STEP;
        let now = self.memory.now;
        self.memory.client(self.client)?.handle_timeout(now);
        let sent = self.memory.drain_client();
        self.memory.deliver_to_server(sent);
        Ok(())
    }
}

/// Lets the server write its next batch.
#[inline(never)]
fn poll(server: &mut Connection, now: Time, buffer: &mut TransmitBuf) -> Option<Transmit> {
    server.poll_transmit(now, buffer)
}
