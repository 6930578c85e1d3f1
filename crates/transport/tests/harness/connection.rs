//! Invariants of a connection over an arbitrary network: no panic, no endless exchange, and stream data
//! arrives as it was written.
//!
//! The input is a script of operations on the datagrams in flight.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anabranch_testkit::byte_at;
use anabranch_testkit::seeded::{Trust, seed_thread};
use anabranch_transport::stream::StreamEvent;
use anabranch_transport::wire::{Dir, Ecn, StreamId, Time};
use anabranch_transport::{
    ClientConfig, Datagram, Endpoint, EndpointConfig, Event, FourTuple, Handle, ServerConfig, TransmitBuf,
};

/// Maximum number of operations of a script that are carried out.
const MAX_OPERATIONS: usize = 400;

/// Maximum number of steps after the script until both endpoints are idle, within [`PATIENCE`] of virtual
/// time.
const MAX_STEPS: usize = 20_000;

const PATIENCE: Duration = Duration::from_secs(120);

/// Maximum number of datagrams in flight; further ones are lost, as in a full queue.
const MAX_FLYING: usize = 256;

const DELAY: Duration = Duration::from_millis(5);

struct Flying {
    to_server: bool,
    tuple: FourTuple,
    ecn: Option<Ecn>,
    bytes: Vec<u8>,
}

struct World {
    now: Time,
    client: Endpoint,
    server: Endpoint,
    connection: Handle,
    accepted: Option<Handle>,
    flying: Vec<Flying>,
    buf: TransmitBuf,
    stream: Option<StreamId>,
    written: usize,
    received: Vec<u8>,
    finished: bool,
}

fn client_addr(port: u16) -> SocketAddr {
    (Ipv4Addr::new(127, 0, 0, 1), port).into()
}

fn server_addr() -> SocketAddr {
    (Ipv4Addr::new(127, 0, 0, 2), 4433).into()
}

thread_local! {
    static TRUST: Trust = Trust::new("localhost");
}

impl World {
    fn new() -> Self {
        seed_thread(7);
        let (client, server) = TRUST.with(|trust| trust.pair("fuzz"));
        let (client_config, server_config) = (ClientConfig::new(client), ServerConfig::new(server));
        let now = Time::from_millis(1_000);
        let mut client = Endpoint::new(&EndpointConfig::new([1; 32]), None);
        let mut server = Endpoint::new(&EndpointConfig::new([2; 32]), Some(Arc::new(server_config)));
        server.set_auto_accept(true);
        let tuple = FourTuple { local: client_addr(50_000), remote: server_addr() };
        let connection = client.connect(now, &client_config, tuple, "localhost").unwrap();
        Self {
            now,
            client,
            server,
            connection,
            accepted: None,
            flying: Vec::new(),
            buf: TransmitBuf::new(4),
            stream: None,
            written: 0,
            received: Vec::new(),
            finished: false,
        }
    }

    fn drain(&mut self) {
        while let Some(transmit) = self.client.poll_transmit(self.now, &mut self.buf) {
            for bytes in self.buf.filled(&transmit).chunks(transmit.segment_size) {
                let tuple = FourTuple { local: transmit.tuple.remote, remote: transmit.tuple.local };
                self.flying.push(Flying { to_server: true, tuple, ecn: transmit.ecn, bytes: bytes.to_vec() });
            }
        }
        while let Some(transmit) = self.server.poll_transmit(self.now, &mut self.buf) {
            for bytes in self.buf.filled(&transmit).chunks(transmit.segment_size) {
                let tuple = FourTuple { local: client_addr(50_000), remote: transmit.tuple.local };
                self.flying.push(Flying {
                    to_server: false,
                    tuple,
                    ecn: transmit.ecn,
                    bytes: bytes.to_vec(),
                });
            }
        }
        self.flying.truncate(MAX_FLYING);
        while self.client.poll_event().is_some() {}
        while let Some((handle, event)) = self.server.poll_event() {
            self.accepted = Some(handle);
            if let Event::Stream(StreamEvent::Readable(id)) = event {
                self.read(handle, id);
            }
        }
    }

    fn read(&mut self, handle: Handle, id: StreamId) {
        let Some(connection) = self.server.connection(handle) else { return };
        while let Ok(bytes) = connection.streams().peek(id) {
            let len = bytes.len();
            self.received.extend_from_slice(bytes);
            connection.streams().consume(id, len).unwrap();
        }
    }

    fn deliver(&mut self, mut flying: Flying) {
        let mut batch = [Datagram { tuple: flying.tuple, ecn: flying.ecn, payload: &mut flying.bytes }];
        let end = if flying.to_server { &mut self.server } else { &mut self.client };
        end.handle_batch(self.now, &mut batch);
    }

    fn write(&mut self, len: usize) {
        let Some(connection) = self.client.connection(self.connection) else { return };
        let streams = connection.streams();
        if self.stream.is_none() {
            self.stream = streams.open(Dir::Uni);
        }
        let Some(id) = self.stream else { return };
        let data: Vec<u8> = (self.written..self.written + len).map(byte_at).collect();
        self.written += streams.write(id, &data).unwrap_or(0);
    }

    /// Advances to the next event. Returns `false` if there is none.
    fn step(&mut self) -> bool {
        self.drain();
        let timers = [self.client.poll_timeout(), self.server.poll_timeout()];
        let arrival = (!self.flying.is_empty()).then(|| self.now + DELAY);
        let Some(next) = timers.into_iter().chain([arrival]).flatten().min() else { return false };
        self.now = self.now.max(next);
        if arrival == Some(next) {
            for flying in std::mem::take(&mut self.flying) {
                self.deliver(flying);
            }
        }
        self.client.handle_timeout(self.now);
        self.server.handle_timeout(self.now);
        self.drain();
        true
    }

    fn operate(&mut self, operation: u8, script: &mut impl Iterator<Item = u8>) {
        let mut byte = || script.next().unwrap_or(0);
        let (at, low, high) = (byte(), byte(), byte());
        let offset = usize::from(low) | usize::from(high) << 8;
        let chosen = usize::from(at) % self.flying.len().max(1);
        match (operation % 12, self.flying.get_mut(chosen)) {
            (0 | 1, _) => _ = self.step(),
            (2, Some(flying)) if !flying.bytes.is_empty() => {
                let len = flying.bytes.len();
                flying.bytes[offset % len] ^= byte() | 1;
            }
            (3, Some(flying)) => flying.bytes.truncate(offset),
            (4, Some(flying)) => {
                let Flying { to_server, tuple, ecn, ref bytes } = *flying;
                let copy = Flying { to_server, tuple, ecn, bytes: bytes.clone() };
                self.flying.push(copy);
            }
            (5, Some(_)) => _ = self.flying.swap_remove(chosen),
            (6, Some(flying)) => flying.tuple.remote.set_port(50_000 + u16::from(low)),
            (7, Some(flying)) => {
                // Overwrites bytes in the middle, perhaps beyond the end.
                let from = usize::from(high) % flying.bytes.len().max(1);
                let fresh: Vec<u8> = (0..low).map(|_| byte()).collect();
                let until = (from + fresh.len()).min(flying.bytes.len());
                flying.bytes.splice(from..until, fresh);
            }
            (8, Some(flying)) => {
                flying.ecn = [None, Some(Ecn::Ect0), Some(Ecn::Ect1), Some(Ecn::Ce)][usize::from(low % 4)];
            }
            (9, _) => self.write(offset),
            (10, _) => self.now += Duration::from_micros(offset as u64 * 10),
            (11, _) => {
                let to_server = at % 2 == 0;
                let (local, remote) = if to_server {
                    (server_addr(), client_addr(50_000))
                } else {
                    (client_addr(50_000), server_addr())
                };
                let bytes = (0..low).map(|_| byte()).collect();
                self.deliver(Flying { to_server, tuple: FourTuple { local, remote }, ecn: None, bytes });
            }
            _ => {}
        }
        self.drain();
    }

    /// Runs without further faults until all data has arrived, or the connection has ended.
    fn finish(&mut self) {
        let deadline = self.now + PATIENCE;
        for _ in 0..MAX_STEPS {
            let closed =
                self.client.connection(self.connection).is_none_or(|connection| connection.is_closed());
            if closed || self.received.len() == self.written && self.finished || self.now > deadline {
                return;
            }
            if let (Some(id), Some(connection)) = (self.stream, self.client.connection(self.connection)) {
                self.finished = self.finished || connection.streams().finish(id).is_ok();
            }
            if !self.step() {
                return;
            }
        }
        panic!("the two ends go on for ever");
    }
}

pub(crate) fn run(script: &[u8]) {
    let mut world = World::new();
    let mut script = script.iter().copied();
    world.drain();
    for _ in 0..MAX_OPERATIONS {
        let Some(operation) = script.next() else { break };
        world.operate(operation, &mut script);
    }
    world.finish();
    assert!(world.received.len() <= world.written);
    assert!(
        world.received.iter().enumerate().all(|(at, byte)| *byte == byte_at(at)),
        "bytes as they were written"
    );
}
