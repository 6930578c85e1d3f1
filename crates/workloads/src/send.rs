//! Send path of our own stack: one bulk stream of the server.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anabranch_transport::schedule::Algorithm;
use anabranch_transport::stream::WriteError;
use anabranch_transport::{FourTuple, Handle, MultipathConfig, Numbering, TransmitBuf, TransportConfig};
use anabranch_wire::{Dir, StreamId, Version};

use super::{PACKETS, Sample, Subject};
use crate::Error;
use crate::memory::{self, Memory, STEP};
use crate::receive::transport;

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

/// Returns the configuration of both endpoints.
fn config(subject: &Subject) -> Result<TransportConfig, Error> {
    let config = transport(if *subject == Subject::Reverso { Version::REVERSO } else { Version::V1 });
    let (numbering, scheduler) = match subject {
        Subject::Floor | Subject::V1 | Subject::Reverso => return Ok(config),
        Subject::TwoPaths(numbering) => (*numbering, super::EVEN),
        Subject::Scheduler(name) => (Numbering::Multiple, *name),
    };
    let scheduler: Algorithm = scheduler.parse().map_err(|error| format!("{scheduler}: {error}"))?;
    Ok(config.with_multipath(MultipathConfig::default().with_numbering(numbering).with_scheduler(scheduler)))
}

/// Measures the time of `poll_transmit` for the packets of a bulk stream.
pub(super) fn measure(subject: &Subject) -> Result<Sample, Error> {
    let mut flow = Flow::new(config(subject)?)?;
    flow.send(PACKETS / 10)?;
    flow.spent = Spent::default();
    flow.send(PACKETS)?;
    let Spent { time, calls, packets, bytes, paths } = flow.spent;
    let time = time.saturating_sub(clock() * u32::try_from(calls)?);
    Ok(Sample {
        ns_per_packet: time.as_nanos() as f64 / packets as f64,
        mean_len: bytes as f64 / packets as f64,
        least_share: paths.values().min().map_or(0.0, |least| *least as f64 / packets as f64),
        paths: paths.len(),
    })
}

/// Returns the time that a clock shows for nothing.
fn clock() -> Duration {
    let mut times: Vec<Duration> = (0..1_001).map(|_| black_box(Instant::now()).elapsed()).collect();
    times.sort_unstable();
    times[times.len() / 2]
}

/// Total of the measured calls.
#[derive(Default)]
struct Spent {
    time: Duration,
    calls: usize,
    packets: usize,
    bytes: usize,
    /// Packets on each path, by the client's port.
    paths: BTreeMap<u16, usize>,
}

/// One stream from the server to the client.
struct Flow {
    memory: Memory,
    client: Handle,
    server: Handle,
    stream: StreamId,
    block: bytes::Bytes,
    buffer: TransmitBuf,
    spent: Spent,
}

impl Flow {
    /// Connects the endpoints, over two paths if the configuration has several.
    fn new(config: TransportConfig) -> Result<Self, Error> {
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
    fn send(&mut self, packets: usize) -> Result<(), Error> {
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
            let transmit = server.poll_transmit(now, &mut self.buffer);
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
