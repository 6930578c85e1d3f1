//! Two real endpoints that exchange packets in one thread. Each endpoint has a session, or the test writes
//! its HTTP/3 bytes by hand.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anabranch_http3::{Code, Config, Event, ReadError, Session};
use anabranch_meter::Meter;
use anabranch_testkit::seeded::{Trust, seed_thread};
use anabranch_transport::stream::{StreamEvent, Streams, StreamsConfig};
use anabranch_transport::{
    ClientConfig, Connection, ConnectionError, Datagram, Endpoint, EndpointConfig, FourTuple, Handle,
    ServerConfig, TransmitBuf, TransportConfig,
};
use anabranch_wire::{Dir, Side, StreamId, Time};
use bytes::Bytes;

/// Name in the server's certificate.
const SERVER_NAME: &str = "server.test";

/// One side of the connection.
pub(crate) struct Host {
    pub(crate) endpoint: Endpoint,
    handle: Option<Handle>,
    /// `None` for a peer whose HTTP/3 bytes the test writes by hand.
    pub(crate) session: Option<Session>,
    pub(crate) events: VecDeque<Event>,
    /// Events of the transport, for a peer without a session.
    pub(crate) raw: Vec<StreamEvent>,
    pub(crate) closed: Option<ConnectionError>,
    pub(crate) address: SocketAddr,
    out: TransmitBuf,
    /// Memory and time of the side's transport and session.
    pub(crate) meter: Meter,
}

/// Client and server of one connection.
pub(crate) struct Pair {
    pub(crate) now: Time,
    pub(crate) client: Host,
    pub(crate) server: Host,
}

/// Configuration of a connection. A side without a configuration has no session.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) client: Option<Config>,
    pub(crate) server: Option<Config>,
    pub(crate) transport: TransportConfig,
}

/// Returns a configuration whose streams have this flow control window, which never grows.
pub(crate) fn narrow(window: u64) -> TransportConfig {
    let streams = StreamsConfig::default().with_stream_window(window).with_stream_window_max(window);
    TransportConfig::default().with_streams(streams)
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            client: Some(Config::default()),
            server: Some(Config::default()),
            transport: TransportConfig::default(),
        }
    }
}

impl Pair {
    /// Creates a connection whose sessions have exchanged their settings.
    pub(crate) fn new() -> Self {
        Self::with(Setup::default())
    }

    pub(crate) fn with(setup: Setup) -> Self {
        seed_thread(7);
        let (client_tls, server_tls) = Trust::new(SERVER_NAME).pair("h3");
        let transport = Arc::new(setup.transport);
        let client_config = ClientConfig::new(client_tls)
            .with_transport(Arc::clone(&transport))
            .with_initial_version(transport.versions()[0]);
        let server_config = ServerConfig::new(server_tls).with_transport(transport);
        let config = |seed: u8| EndpointConfig::new([seed; 32]);
        let mut client = Endpoint::new(&config(1), None);
        let mut server = Endpoint::new(&config(2), Some(Arc::new(server_config)));
        server.set_auto_accept(true);
        let addresses: [SocketAddr; 2] = [([10, 0, 0, 1], 1000).into(), ([10, 0, 0, 2], 443).into()];
        let now = Time::ZERO + Duration::from_secs(1);
        let tuple = FourTuple { local: addresses[0], remote: addresses[1] };
        let handle = client.connect(now, &client_config, tuple, SERVER_NAME).unwrap();
        let host = |endpoint, handle, session: Option<Session>, address| Host {
            endpoint,
            handle,
            session,
            events: VecDeque::new(),
            raw: Vec::new(),
            closed: None,
            address,
            out: TransmitBuf::new(1),
            meter: Meter::default(),
        };
        let session = |side, config: Option<Config>| config.map(|config| Session::new(side, config));
        let mut pair = Self {
            now,
            client: host(client, Some(handle), session(Side::Client, setup.client), addresses[0]),
            server: host(server, None, session(Side::Server, setup.server), addresses[1]),
        };
        // The handshake is completed first, because most tests are about the time after it.
        let sessions = (pair.client.session.take(), pair.server.session.take());
        pair.pump();
        pair.client.raw.clear();
        pair.server.raw.clear();
        (pair.client.session, pair.server.session) = sessions;
        for host in [&mut pair.client, &mut pair.server] {
            host.with(|session, connection| session.start(connection.streams()));
        }
        pair.pump();
        pair
    }

    /// Delivers all packets and handles all timers of the next 100 ms.
    pub(crate) fn pump(&mut self) {
        let end = self.now + Duration::from_millis(100);
        loop {
            self.client.drain(self.now);
            self.server.drain(self.now);
            let moved = self.client.deliver(self.now, &mut self.server)
                | self.server.deliver(self.now, &mut self.client);
            if moved {
                continue;
            }
            let next =
                [&self.client, &self.server].iter().filter_map(|host| host.endpoint.poll_timeout()).min();
            match next.filter(|next| *next <= end) {
                Some(next) => self.now = next.max(self.now),
                None => break,
            }
            for host in [&mut self.client, &mut self.server] {
                host.meter.charge(|| host.endpoint.handle_timeout(self.now));
            }
        }
        self.now = end;
    }
}

impl Host {
    pub(crate) fn connection(&mut self) -> &mut Connection {
        let handle = self.handle.unwrap();
        self.endpoint.connection(handle).unwrap()
    }

    /// Returns whether the endpoint has dropped the connection.
    pub(crate) fn is_gone(&mut self) -> bool {
        self.handle.is_none_or(|handle| self.endpoint.connection(handle).is_none())
    }

    /// Calls `f` with the session and its connection, if there is a session.
    pub(crate) fn with<T>(&mut self, f: impl FnOnce(&mut Session, &mut Connection) -> T) -> Option<T> {
        let mut session = self.session.take()?;
        let result = f(&mut session, self.connection());
        self.session = Some(session);
        Some(result)
    }

    /// Calls `f` with the session and its streams; the side must have a session.
    pub(crate) fn http<T>(&mut self, f: impl FnOnce(&mut Session, &mut Streams) -> T) -> T {
        self.charge(|host| host.with(|session, connection| f(session, connection.streams())).unwrap())
    }

    /// Calls `f`, and counts what it takes.
    pub(crate) fn charge<T>(&mut self, f: impl FnOnce(&mut Self) -> T) -> T {
        let mut meter = std::mem::take(&mut self.meter);
        let result = meter.charge(|| f(self));
        self.meter = meter;
        result
    }

    pub(crate) fn drain(&mut self, now: Time) {
        self.charge(|host| host.take_events(now));
    }

    fn take_events(&mut self, now: Time) {
        while let Some((handle, event)) = self.endpoint.poll_event() {
            self.handle.get_or_insert(handle);
            match event {
                anabranch_transport::Event::Stream(event) if self.session.is_some() => {
                    self.with(|session, connection| session.on_event(connection.streams(), event));
                }
                anabranch_transport::Event::Stream(event) => self.raw.push(event),
                anabranch_transport::Event::DatagramReceived => {
                    self.with(|session, connection| {
                        let (streams, datagrams) = connection.streams_and_datagrams();
                        session.on_datagrams(streams, datagrams);
                    });
                }
                anabranch_transport::Event::Closed(error) => self.closed = Some(error),
                _ => {}
            }
        }
        let Some(session) = &mut self.session else { return };
        self.events.extend(std::iter::from_fn(|| session.poll_event()));
        if let Some(fault) = session.take_fault() {
            let reason = Bytes::from(fault.reason.into_owned());
            self.connection().close(now, fault.code.into(), reason);
        }
    }

    pub(crate) fn deliver(&mut self, now: Time, to: &mut Self) -> bool {
        let mut moved = false;
        while let Some(transmit) = self.meter.charge(|| self.endpoint.poll_transmit(now, &mut self.out)) {
            moved = true;
            let mut payload = self.out.filled(&transmit).to_vec();
            let tuple = FourTuple { local: to.address, remote: self.address };
            let datagram = Datagram { tuple, ecn: None, payload: &mut payload };
            to.meter.charge(|| to.endpoint.handle_batch(now, &mut [datagram]));
        }
        moved
    }

    /// Returns all content that has arrived, and the reason that reading stopped.
    pub(crate) fn read(&mut self, id: StreamId) -> (Vec<u8>, ReadError) {
        self.http(|session, streams| {
            let mut body = Vec::new();
            loop {
                match session.peek(streams, id) {
                    Ok(bytes) => {
                        // Consume half of the bytes, so that reading stops inside frames.
                        let n = bytes.len().div_ceil(2);
                        body.extend_from_slice(&bytes[..n]);
                        session.consume(streams, id, n);
                    }
                    Err(error) => return (body, error),
                }
            }
        })
    }

    // The following functions are for a side without a session.

    /// Opens a stream and writes to it.
    pub(crate) fn open(&mut self, dir: Dir, bytes: &[u8], end: bool) -> StreamId {
        let id = self.connection().streams().open(dir).unwrap();
        self.write(id, bytes, end);
        id
    }

    pub(crate) fn write(&mut self, id: StreamId, bytes: &[u8], end: bool) {
        let streams = self.connection().streams();
        if !bytes.is_empty() {
            assert_eq!(streams.write(id, bytes).unwrap(), bytes.len());
        }
        if end {
            streams.finish(id).unwrap();
        }
    }

    /// Returns the code with which the other side closed the connection.
    pub(crate) fn close_code(&self) -> Option<Code> {
        match &self.closed {
            Some(ConnectionError::PeerApplication { code, .. }) => Some(Code::from(*code)),
            _ => None,
        }
    }
}
