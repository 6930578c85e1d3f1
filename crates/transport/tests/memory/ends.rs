//! A server that sends and a client that receives and whose memory is counted, with an arbitrary network
//! between them.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anabranch_testkit::seeded::{Trust, seed_thread};
use anabranch_transport::recovery::{Config, InitialWindow};
use anabranch_transport::stream::{Streams, StreamsConfig};
use anabranch_transport::wire::{Time, Version};
use anabranch_transport::{
    ClientConfig, Datagram, Endpoint, EndpointConfig, Event, FourTuple, Handle, ServerConfig, TransmitBuf,
    TransportConfig,
};

use crate::counting::live;

/// Number of exchanges after which the handshake and everything that follows it is complete.
const EXCHANGES: usize = 20;

pub(crate) fn client_addr() -> SocketAddr {
    (Ipv4Addr::new(127, 0, 0, 1), 50_000).into()
}

pub(crate) fn server_addr() -> SocketAddr {
    (Ipv4Addr::new(127, 0, 0, 2), 4433).into()
}

pub(crate) fn configs() -> (ClientConfig, ServerConfig) {
    seed_thread(7);
    let (client, server) = Trust::new("localhost").pair("memory");
    (ClientConfig::new(client), ServerConfig::new(server))
}

pub(crate) struct Ends {
    now: Time,
    client: Endpoint,
    server: Endpoint,
    client_handle: Handle,
    server_handle: Option<Handle>,
    buf: TransmitBuf,
    /// Datagrams in flight to the client.
    pub(crate) flying: Vec<Vec<u8>>,
    /// Bytes that the client's calls have allocated and not freed.
    allocated: isize,
}

impl Ends {
    /// Returns a connection over `version`. The client's receive windows are those of `streams`.
    pub(crate) fn connected(version: Version, streams: StreamsConfig) -> Self {
        let (client_config, server_config) = configs();
        // Only flow control limits the sender.
        let recovery =
            Config::default().with_pacing(false).with_initial_window(InitialWindow::Packets(4_000));
        let transport = TransportConfig::default()
            .with_versions([version])
            .with_recovery(recovery)
            .with_max_idle_timeout(None);
        let server_config = server_config.with_transport(transport.clone());
        let client_config =
            client_config.with_initial_version(version).with_transport(transport.with_streams(streams));
        let now = Time::from_millis(1_000);
        let mut client = Endpoint::new(&EndpointConfig::new([1; 32]), None);
        let mut server = Endpoint::new(&EndpointConfig::new([2; 32]), Some(Arc::new(server_config)));
        server.set_auto_accept(true);
        let tuple = FourTuple { local: client_addr(), remote: server_addr() };
        let client_handle = client.connect(now, &client_config, tuple, "localhost").unwrap();
        let mut ends = Self {
            now,
            client,
            server,
            client_handle,
            server_handle: None,
            buf: TransmitBuf::new(16),
            flying: Vec::new(),
            allocated: 0,
        };
        for _ in 0..EXCHANGES {
            ends.exchange();
        }
        ends.allocated = 0;
        ends
    }

    /// Runs `work` and counts its allocations for the client.
    fn charge<R>(&mut self, work: impl FnOnce(&mut Self) -> R) -> R {
        let before = live();
        let result = work(self);
        self.allocated += live() - before;
        result
    }

    /// Returns the number of bytes that the client has allocated since the handshake.
    pub(crate) fn allocated(&self) -> usize {
        usize::try_from(self.allocated).unwrap_or(0)
    }

    /// Runs `work` as the client's application on its streams.
    pub(crate) fn receiving<R>(&mut self, work: impl FnOnce(&mut Streams) -> R) -> R {
        self.charge(|this| work(this.client.connection(this.client_handle).unwrap().streams()))
    }

    /// Drops a value that the client's application holds.
    pub(crate) fn give_back<T>(&mut self, held: T) {
        self.charge(|_| drop(held));
    }

    pub(crate) fn sending(&mut self) -> &mut Streams {
        self.server.connection(self.server_handle.unwrap()).unwrap().streams()
    }

    /// Sends all pending data of the server.
    pub(crate) fn send(&mut self) {
        while let Some(transmit) = self.server.poll_transmit(self.now, &mut self.buf) {
            let bytes = self.buf.filled(&transmit);
            self.flying.extend(bytes.chunks(transmit.segment_size).map(<[u8]>::to_vec));
        }
        while let Some((handle, event)) = self.server.poll_event() {
            self.server_handle = Some(handle);
            assert!(!matches!(event, Event::Closed(_)), "{event:?}");
        }
    }

    /// Delivers these datagrams to the client together.
    pub(crate) fn arrive(&mut self, mut datagrams: Vec<Vec<u8>>) {
        let tuple = FourTuple { local: client_addr(), remote: server_addr() };
        self.charge(|this| {
            let mut batch: Vec<Datagram<'_>> = datagrams
                .iter_mut()
                .map(|payload| Datagram { tuple, ecn: None, payload: &mut payload[..] })
                .collect();
            this.client.handle_batch(this.now, &mut batch);
        });
    }

    /// Advances time by `after` at both endpoints, and delivers the client's packets to the server.
    pub(crate) fn answer(&mut self, after: Duration) {
        self.now += after;
        self.charge(|this| this.client.handle_timeout(this.now));
        self.server.handle_timeout(self.now);
        let tuple = FourTuple { local: server_addr(), remote: client_addr() };
        loop {
            let transmit = self.charge(|this| this.client.poll_transmit(this.now, &mut this.buf));
            let Some(transmit) = transmit else { break };
            let mut bytes = self.buf.filled(&transmit).to_vec();
            for payload in bytes.chunks_mut(transmit.segment_size) {
                self.server.handle_batch(self.now, &mut [Datagram { tuple, ecn: None, payload }]);
            }
        }
        self.charge(|this| {
            while let Some((_, event)) = this.client.poll_event() {
                assert!(!matches!(event, Event::Closed(_)), "{event:?}");
            }
        });
    }

    /// Delivers all datagrams in flight and the client's responses.
    pub(crate) fn exchange(&mut self) {
        self.send();
        let flying = std::mem::take(&mut self.flying);
        if !flying.is_empty() {
            self.arrive(flying);
        }
        self.answer(Duration::from_millis(5));
    }
}
