//! Two endpoints whose datagrams a script holds back, reorders, repeats, cuts, changes and injects. Each end
//! receives them in batches, as from a socket.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anabranch_testkit::byte_at;
use anabranch_testkit::seeded::{Trust, seed_thread};
use anabranch_testkit::source::Source;
use anabranch_transport::stream::{ReadError, Streams};
use anabranch_transport::wire::{Dir, Ecn, PathId, StreamId, Time, VarInt, Version};
use anabranch_transport::{
    ClientConfig, Connection, Datagram, Endpoint, EndpointConfig, FourTuple, Handle, MultipathConfig,
    Numbering, PathStatus, ServerConfig, TransmitBuf, TransportConfig,
};
use bytes::Bytes;

/// Maximum number of operations of a script that are carried out.
const MAX_OPERATIONS: usize = 300;

/// Length of an operation, in bytes.
const OPERATION: usize = 8;

/// Maximum number of steps after the script, within [`PATIENCE`] of virtual time.
const MAX_STEPS: usize = 20_000;

const PATIENCE: Duration = Duration::from_secs(300);

/// Maximum number of datagrams in flight to one end; further ones are lost, as in a full queue.
const MAX_FLYING: usize = 256;

/// Maximum number of datagrams in a batch of a step, which is larger than that of a socket.
const MAX_BATCH: usize = 100;

/// Maximum number of bytes that one end writes.
const MAX_WRITTEN: usize = 1 << 18;

const DELAY: Duration = Duration::from_millis(5);

/// Setting of a run.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) version: Version,
    /// Numbering of several paths; `None` for a single path.
    pub(crate) numbering: Option<Numbering>,
    /// `true` if the script changes or cuts no bytes and injects none, so that the handshake succeeds.
    pub(crate) is_authentic: bool,
}

struct Flying {
    tuple: FourTuple,
    ecn: Option<Ecn>,
    bytes: Vec<u8>,
}

/// One stream, as seen by the end that sends.
#[derive(Default)]
struct Sent {
    /// Number of bytes that the script wants to be written.
    wanted: usize,
    written: usize,
}

/// One stream, as seen by the end that receives.
#[derive(Default)]
struct Arrived {
    len: usize,
    is_finished: bool,
}

/// One end of the connection.
struct End {
    endpoint: Endpoint,
    handle: Option<Handle>,
    /// Streams on which this end writes, in the order in which it opened them.
    sent: Vec<(StreamId, Sent)>,
    /// Streams on which this end receives.
    arrived: BTreeMap<StreamId, Arrived>,
    /// Datagrams on their way to this end.
    flying: Vec<Flying>,
}

/// Two ends and the network between them.
pub(crate) struct World {
    now: Time,
    setting: Setting,
    ends: [End; 2],
    buf: TransmitBuf,
    /// Paths that the script opened so far.
    opened: u8,
}

thread_local! {
    static TRUST: Trust = Trust::new("localhost");
}

fn client_addr(path: u8) -> SocketAddr {
    (Ipv4Addr::new(10, 0, path, 1), 50_000).into()
}

fn server_addr(path: u8) -> SocketAddr {
    (Ipv4Addr::new(10, 0, path, 2), 4433).into()
}

/// Returns the byte at an offset of a stream. Streams differ, so that a byte in a wrong stream is noticed.
fn expected(id: StreamId, at: usize) -> u8 {
    byte_at(at + 7_919 * usize::try_from(id.as_u64()).unwrap_or(0))
}

impl World {
    /// Creates the two ends. The client has begun to connect.
    pub(crate) fn new(setting: Setting) -> Self {
        seed_thread(7);
        let (client_tls, server_tls) = TRUST.with(|trust| trust.pair("fuzz"));
        let multipath =
            setting.numbering.map(|numbering| MultipathConfig::default().with_numbering(numbering));
        let transport = TransportConfig::default()
            .with_versions(vec![setting.version])
            .with_max_idle_timeout(Duration::from_secs(60))
            .with_multipath(multipath);
        let transport = Arc::new(transport);
        let client_config = ClientConfig::new(client_tls)
            .with_transport(Arc::clone(&transport))
            .with_initial_version(setting.version);
        let server_config = ServerConfig::new(server_tls).with_transport(transport);
        let now = Time::from_millis(1_000);
        let mut client = Endpoint::new(&EndpointConfig::new([1; 32]), None);
        let mut server = Endpoint::new(&EndpointConfig::new([2; 32]), Some(Arc::new(server_config)));
        server.set_auto_accept(true);
        let tuple = FourTuple { local: client_addr(0), remote: server_addr(0) };
        let handle = client.connect(now, &client_config, tuple, "localhost").unwrap();
        let end = |endpoint, handle| End {
            endpoint,
            handle,
            sent: Vec::new(),
            arrived: BTreeMap::new(),
            flying: Vec::new(),
        };
        let ends = [end(client, Some(handle)), end(server, None)];
        let mut world = Self { now, setting, ends, buf: TransmitBuf::new(8), opened: 0 };
        world.drain();
        world
    }

    /// Completes the handshake without faults.
    pub(crate) fn connect(&mut self) {
        for _ in 0..20 {
            let is_confirmed = |connection: &mut Connection| connection.is_confirmed();
            if self.connection(0).is_some_and(is_confirmed) {
                return;
            }
            self.step();
        }
        panic!("the handshake takes so long");
    }

    /// Runs a script, then a network without faults, and checks all bytes. Returns the number of bytes that
    /// arrived on each stream, in the order in which they were opened; `None` if the connection ended.
    pub(crate) fn run(mut self, mut script: Source<'_>) -> Option<Vec<usize>> {
        for _ in 0..MAX_OPERATIONS {
            if script.is_empty() {
                break;
            }
            // Each operation has as many bytes, so that none depends on what the ones before it have found.
            let operation: [u8; OPERATION] = script.array();
            self.operate(&mut Source::new(&operation));
            self.drain();
        }
        self.finish();
        if self.is_closed() {
            return None;
        }
        let ids =
            [0, 1].into_iter().flat_map(|side| self.ends[side].sent.iter().map(move |(id, _)| (side, id)));
        Some(ids.map(|(side, id)| self.ends[1 - side].arrived[id].len).collect())
    }

    fn connection(&mut self, side: usize) -> Option<&mut Connection> {
        let End { endpoint, handle, .. } = &mut self.ends[side];
        endpoint.connection((*handle)?)
    }

    /// Moves all datagrams that the ends send to the network, and handles their events.
    fn drain(&mut self) {
        for side in 0..2 {
            while let Some(transmit) = self.ends[side].endpoint.poll_transmit(self.now, &mut self.buf) {
                let tuple = FourTuple { local: transmit.tuple.remote, remote: transmit.tuple.local };
                for bytes in self.buf.filled(&transmit).chunks(transmit.segment_size) {
                    let flying = Flying { tuple, ecn: transmit.ecn, bytes: bytes.to_vec() };
                    self.ends[1 - side].flying.push(flying);
                }
            }
            self.ends[1 - side].flying.truncate(MAX_FLYING);
            while let Some((handle, _)) = self.ends[side].endpoint.poll_event() {
                self.ends[side].handle.get_or_insert(handle);
            }
        }
    }

    /// Hands datagrams to an end as one batch.
    fn deliver(&mut self, side: usize, mut flying: Vec<Flying>) {
        let mut batch: Vec<_> = flying
            .iter_mut()
            .map(|flying| Datagram { tuple: flying.tuple, ecn: flying.ecn, payload: &mut flying.bytes })
            .collect();
        self.ends[side].endpoint.handle_batch(self.now, &mut batch);
    }

    fn operate(&mut self, script: &mut Source<'_>) {
        let operation = script.byte();
        let side = usize::from(operation >> 7);
        match operation % 18 {
            0 | 1 => _ = self.step(),
            2 | 3 => self.write(side, script),
            4 => self.read(side, usize::from(script.number())),
            5 => self.now += Duration::from_micros(u64::from(script.number()) * 10),
            6 => self.control(side, script),
            7 | 8 => {
                let (from, len) = (usize::from(script.byte()), usize::from(script.byte()));
                let flying = &mut self.ends[side].flying;
                let from = from.min(flying.len());
                let batch = flying.drain(from..(from + len).min(flying.len())).collect();
                self.deliver(side, batch);
            }
            _ => self.disturb(side, operation % 18, script),
        }
    }

    /// Changes the datagrams on their way to an end.
    fn disturb(&mut self, side: usize, operation: u8, script: &mut Source<'_>) {
        let (chosen, other) = (usize::from(script.byte()), usize::from(script.byte()));
        let is_authentic = self.setting.is_authentic;
        let flying = &mut self.ends[side].flying;
        if flying.is_empty() {
            return;
        }
        let (chosen, other) = (chosen % flying.len(), other % flying.len());
        match operation {
            9 | 10 => flying.swap(chosen, other),
            11 => _ = flying.remove(chosen),
            12 => {
                let Flying { tuple, ecn, ref bytes } = flying[chosen];
                let copy = Flying { tuple, ecn, bytes: bytes.clone() };
                flying.insert(other, copy);
            }
            13 => {
                flying[chosen].ecn = script.choose(&[None, Some(Ecn::Ect0), Some(Ecn::Ect1), Some(Ecn::Ce)]);
            }
            14 => flying.drain(..=chosen).for_each(drop),
            _ if is_authentic => {}
            15 => {
                let bytes = &mut flying[chosen].bytes;
                bytes.truncate(usize::from(script.number()) % (bytes.len() + 1));
            }
            16 => {
                let bytes = &mut flying[chosen].bytes;
                let at = usize::from(script.number()) % bytes.len().max(1);
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= script.byte() | 1;
                }
            }
            _ => {
                // The beginning of a genuine datagram, so that its connection ID is right, before other bytes.
                let Flying { tuple, ecn, ref bytes } = flying[chosen];
                let mut bytes = bytes[..usize::from(script.byte()).min(bytes.len())].to_vec();
                bytes.extend(script.string(80));
                flying.insert(other, Flying { tuple, ecn, bytes });
            }
        }
    }

    fn write(&mut self, side: usize, script: &mut Source<'_>) {
        let (choice, len) = (script.byte(), usize::from(script.number() % 20_000));
        let total: usize = self.ends[side].sent.iter().map(|(_, sent)| sent.wanted).sum();
        if total + len > MAX_WRITTEN {
            return;
        }
        let index = usize::from(choice % 4).min(self.ends[side].sent.len());
        if index == self.ends[side].sent.len() {
            let dir = if choice & 4 == 0 { Dir::Uni } else { Dir::Bi };
            let Some(connection) = self.connection(side) else { return };
            let Some(id) = connection.streams().open(dir) else { return };
            self.ends[side].sent.push((id, Sent::default()));
        }
        self.ends[side].sent[index].1.wanted += len;
        self.write_wanted(side);
    }

    /// Writes as much as flow control allows.
    fn write_wanted(&mut self, side: usize) {
        let End { endpoint, handle, sent, .. } = &mut self.ends[side];
        let Some(connection) = handle.and_then(|handle| endpoint.connection(handle)) else { return };
        for (id, sent) in sent.iter_mut().filter(|(_, sent)| sent.written < sent.wanted) {
            let data: Vec<u8> = (sent.written..sent.wanted).map(|at| expected(*id, at)).collect();
            sent.written += connection.streams().write(*id, &data).unwrap_or(0);
        }
    }

    /// Reads up to `max` bytes of each stream that has arrived at an end, and checks them.
    fn read(&mut self, side: usize, max: usize) {
        let End { endpoint, handle, arrived, .. } = &mut self.ends[side];
        let Some(connection) = handle.and_then(|handle| endpoint.connection(handle)) else { return };
        let streams = connection.streams();
        for dir in [Dir::Uni, Dir::Bi] {
            while let Some(id) = streams.accept(dir) {
                arrived.entry(id).or_default();
            }
        }
        for (id, arrived) in arrived.iter_mut() {
            read_stream(streams, *id, arrived, max);
        }
        while connection.datagrams().recv().is_some() {}
    }

    /// Carries out a request of the application about paths, keys or datagrams.
    fn control(&mut self, side: usize, script: &mut Source<'_>) {
        let (kind, at) = (script.byte() % 6, script.byte());
        let (now, next) = (self.now, self.opened + 1);
        let Some(connection) = self.connection(side) else { return };
        let path = connection.paths().nth(usize::from(at % 4)).map_or(PathId(0), |info| info.id);
        match kind {
            0 | 1 if side == 0 => {
                let tuple = FourTuple { local: client_addr(next), remote: server_addr(next) };
                if next < 6 && connection.open_path(now, tuple).is_ok() {
                    self.opened = next;
                }
            }
            2 => _ = connection.abandon_path(now, path, VarInt::from_u32(0)),
            3 => {
                let status = if at & 0x80 == 0 { PathStatus::Available } else { PathStatus::Backup };
                let _ = connection.set_path_status(path, status);
            }
            4 => connection.update_keys(),
            _ => _ = connection.datagrams().send(Bytes::from(vec![at; usize::from(at) * 4])),
        }
    }

    /// Advances to the next event. Returns `false` if there is none.
    fn step(&mut self) -> bool {
        self.drain();
        let timers = self.ends.iter().filter_map(|end| end.endpoint.poll_timeout());
        let arrival = self.ends.iter().any(|end| !end.flying.is_empty()).then(|| self.now + DELAY);
        let Some(next) = timers.chain(arrival).min() else { return false };
        self.now = self.now.max(next);
        if arrival == Some(next) {
            for side in 0..2 {
                let mut flying = std::mem::take(&mut self.ends[side].flying);
                while !flying.is_empty() {
                    let rest = flying.split_off(flying.len().min(MAX_BATCH));
                    self.deliver(side, std::mem::replace(&mut flying, rest));
                }
            }
        }
        self.ends.iter_mut().for_each(|end| end.endpoint.handle_timeout(self.now));
        self.drain();
        true
    }

    fn is_closed(&mut self) -> bool {
        (0..2).any(|side| {
            let handle = self.ends[side].handle;
            handle.is_some() && self.connection(side).is_none_or(|connection| connection.is_closed())
        })
    }

    /// Returns whether each end has received all that the other one wrote.
    fn is_complete(&self) -> bool {
        (0..2).all(|side| {
            self.ends[side].sent.iter().all(|(id, sent)| {
                let arrived = self.ends[1 - side].arrived.get(id);
                arrived.is_some_and(|arrived| arrived.is_finished && arrived.len == sent.wanted)
            })
        })
    }

    /// Finishes the streams on which everything is written.
    fn finish_streams(&mut self, side: usize) {
        let End { endpoint, handle, sent, .. } = &mut self.ends[side];
        let Some(connection) = handle.and_then(|handle| endpoint.connection(handle)) else { return };
        for (id, _) in sent.iter().filter(|(_, sent)| sent.written == sent.wanted) {
            // Fails for a stream that is finished already.
            let _ = connection.streams().finish(*id);
        }
    }

    /// Runs without further faults until all data has arrived, or the connection has ended.
    fn finish(&mut self) {
        let deadline = self.now + PATIENCE;
        for _ in 0..MAX_STEPS {
            for side in 0..2 {
                self.write_wanted(side);
                self.finish_streams(side);
                self.read(side, usize::MAX);
            }
            if self.is_closed() || self.is_complete() {
                return;
            }
            assert!(self.now < deadline, "all data arrives in time");
            assert!(self.step(), "a connection without a timer has nothing to do");
        }
        panic!("the two ends go on for ever");
    }
}

fn read_stream(streams: &mut Streams, id: StreamId, arrived: &mut Arrived, mut max: usize) {
    while max > 0 {
        match streams.peek(id) {
            Ok(bytes) => {
                let bytes = &bytes[..bytes.len().min(max)];
                let at = arrived.len;
                let is_same = bytes.iter().enumerate().all(|(index, byte)| *byte == expected(id, at + index));
                assert!(is_same, "bytes as they were written");
                let len = bytes.len();
                max -= len;
                arrived.len += len;
                streams.consume(id, len).unwrap();
            }
            Err(error) => {
                arrived.is_finished |= error == ReadError::Finished;
                return;
            }
        }
    }
}
