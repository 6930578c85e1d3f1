//! Memory used by acknowledgments that are never acknowledged.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anabranch_transport::recovery::{Config, InitialWindow};
use anabranch_transport::wire::{PathId, Side, Time};
use anabranch_transport::{
    AckConfig, Connection, Datagram, Endpoint, EndpointConfig, FourTuple, Handle, TransmitBuf,
    TransportConfig,
};

use crate::counting::live;
use crate::ends::{client_addr, configs, server_addr};

/// Endpoint, and the memory that its own calls have allocated and not freed.
pub(crate) struct End {
    endpoint: Endpoint,
    handle: Option<Handle>,
    pub(crate) local: SocketAddr,
    pub(crate) live: isize,
    buffer: TransmitBuf,
}

impl End {
    fn new(endpoint: Endpoint, local: SocketAddr) -> Self {
        Self { endpoint, handle: None, local, live: 0, buffer: TransmitBuf::new(16) }
    }

    pub(crate) fn connection(&mut self) -> &mut Connection {
        let handle = self.handle.expect("a connection");
        self.endpoint.connection(handle).expect("the connection")
    }

    /// Runs `work` on the connection and counts its memory.
    pub(crate) fn charge<R>(&mut self, work: impl FnOnce(&mut Connection) -> R) -> R {
        let before = live();
        let result = work(self.connection());
        self.live += live() - before;
        result
    }

    /// Passes datagrams to the endpoint, then handles its timers. Returns the datagrams that it sends.
    pub(crate) fn turn(&mut self, now: Time, from: SocketAddr, datagrams: &mut [Vec<u8>]) -> Vec<Vec<u8>> {
        let tuple = FourTuple { local: self.local, remote: from };
        let mut sent = Vec::new();
        for payload in datagrams {
            let mut batch = [Datagram { tuple, ecn: None, payload }];
            let before = live();
            self.endpoint.handle_batch(now, &mut batch);
            self.live += live() - before;
        }
        let before = live();
        self.endpoint.handle_timeout(now);
        self.live += live() - before;
        loop {
            let before = live();
            let transmit = self.endpoint.poll_transmit(now, &mut self.buffer);
            self.live += live() - before;
            let Some(transmit) = transmit else { break };
            let filled = self.buffer.filled(&transmit);
            sent.extend(filled.chunks(transmit.segment_size).map(<[u8]>::to_vec));
        }
        let before = live();
        while let Some((handle, _)) = self.endpoint.poll_event() {
            self.handle = Some(handle);
        }
        self.live += live() - before;
        sent
    }
}

/// Returns two connected endpoints. `attacker` may send without limit although nothing is acknowledged.
pub(crate) fn connected(attacker: Side) -> (Time, [End; 2]) {
    let (mut client_config, mut server_config) = configs();
    // With this configuration, the attacker's peer sends as many acknowledgments as possible.
    let recovery = Config::default().with_pacing(false).with_initial_window(InitialWindow::Packets(1 << 17));
    let transport = TransportConfig::default()
        .with_ack(AckConfig::default().with_frequency(false))
        .with_recovery(recovery);
    if attacker.is_client() {
        client_config = client_config.with_transport(transport);
    } else {
        server_config = server_config.with_transport(transport);
    }
    let addresses = [client_addr(), server_addr()];
    let mut now = Time::from_millis(1_000);
    let mut client = End::new(Endpoint::new(&EndpointConfig::new([1; 32]), None), addresses[0]);
    let tuple = FourTuple { local: addresses[0], remote: addresses[1] };
    client.handle = Some(client.endpoint.connect(now, &client_config, tuple, "localhost").unwrap());
    let mut server =
        End::new(Endpoint::new(&EndpointConfig::new([2; 32]), Some(Arc::new(server_config))), addresses[1]);
    server.endpoint.set_auto_accept(true);
    let mut to_client = Vec::new();
    for _ in 0..1_000 {
        let mut to_server = client.turn(now, addresses[1], &mut to_client);
        now += Duration::from_millis(1);
        to_client = server.turn(now, addresses[0], &mut to_server);
        now += Duration::from_millis(1);
    }
    assert!(client.connection().is_confirmed() && server.connection().is_confirmed());
    (now, [client, server])
}

/// A peer sends PINGs and acknowledges nothing, because nothing reaches it. The memory for the
/// acknowledgments sent to it stays small.
#[test]
fn row_3_a_peer_that_acknowledges_nothing_costs_next_to_no_memory() {
    for attacker in [Side::Client, Side::Server] {
        let (mut now, [client, server]) = connected(attacker);
        let (mut attacker, mut victim) =
            if attacker.is_client() { (client, server) } else { (server, client) };
        let (before, mut answers, mut most) = (victim.live, 0, 0);
        for _ in 0..40_000 {
            attacker.connection().ping(PathId::ZERO);
            let mut pings = attacker.turn(now, victim.local, &mut []);
            assert!(!pings.is_empty());
            now += Duration::from_micros(10);
            answers += victim.turn(now, attacker.local, &mut pings).len();
            most = most.max(victim.live - before);
        }
        assert!(answers >= 20_000, "{answers}");
        assert!(most <= 64 << 10, "{most} bytes for {answers} acknowledgments");
    }
}
