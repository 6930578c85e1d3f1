//! Invariants of a client that receives Version Negotiation and Retry packets of an attacker who sees its packets,
//! before the server's.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use anabranch_testkit::seeded::{Trust, seed_thread};
use anabranch_testkit::source::Source;
use anabranch_transport::tls::retry_tag;
use anabranch_transport::wire::{
    ConnectionId, Time, Version, parse_packet, write_retry, write_version_negotiation,
};
use anabranch_transport::{
    ClientConfig, Datagram, Endpoint, EndpointConfig, FourTuple, Handle, ServerConfig, TransmitBuf,
    TransportConfig,
};

/// Maximum number of forged answers.
const MAX_ANSWERS: usize = 8;

/// Maximum number of round trips until the handshake has succeeded or failed.
const MAX_ROUNDS: usize = 400;

thread_local! {
    static TRUST: Trust = Trust::new("localhost");
}

fn tuple() -> FourTuple {
    let address = |host| Ipv4Addr::new(10, 0, 0, host);
    FourTuple { local: (address(1), 50_000).into(), remote: (address(2), 443).into() }
}

/// Client that has sent its first flight.
struct Attacked {
    now: Time,
    client: Endpoint,
    handle: Handle,
    sent: Vec<Vec<u8>>,
    /// Connection IDs of the first packet, destination and source.
    cids: [ConnectionId; 2],
    version: Version,
}

pub(crate) fn run(data: &[u8]) {
    let mut source = Source::new(data);
    seed_thread(7);
    let (client_tls, server_tls) = TRUST.with(|trust| trust.pair("fuzz"));
    let version = source.choose(Version::SUPPORTED);
    let transport = Arc::new(TransportConfig::default().with_versions(Version::SUPPORTED));
    let config =
        ClientConfig::new(client_tls).with_initial_version(version).with_transport(Arc::clone(&transport));
    let server_config = ServerConfig::new(server_tls).with_transport(transport);
    let mut client = Endpoint::new(&EndpointConfig::new([1; 32]), None);
    let mut server = Endpoint::new(&EndpointConfig::new([2; 32]), Some(Arc::new(server_config)));
    server.set_auto_accept(true);
    let now = Time::from_millis(1_000);
    let handle = client.connect(now, &config, tuple(), "localhost").unwrap();
    let sent = send(now, &mut client);
    let header = parse_packet(&sent[0], 8).unwrap();
    let mut attacked = Attacked { now, client, handle, sent, cids: [header.dcid, header.scid], version };
    let mut is_misled = false;
    for _ in 0..MAX_ANSWERS {
        if source.is_empty() {
            break;
        }
        is_misled |= attacked.answer(&mut source);
    }
    let confirmed = attacked.connect(&mut server);
    assert!(confirmed || is_misled, "answers that a client must ignore change nothing");
}

fn send(now: Time, endpoint: &mut Endpoint) -> Vec<Vec<u8>> {
    let mut buf = TransmitBuf::new(1);
    let mut sent = Vec::new();
    while let Some(transmit) = endpoint.poll_transmit(now, &mut buf) {
        sent.push(buf.filled(&transmit).to_vec());
    }
    sent
}

impl Attacked {
    /// Delivers a forged answer. Returns whether a client may believe it.
    fn answer(&mut self, source: &mut Source<'_>) -> bool {
        let kind = source.byte();
        let [dcid, scid] = self.cids;
        // An attacker who does not see the client's packets guesses one of the connection IDs wrong.
        let wrong = ConnectionId::new(&source.array::<8>()).unwrap();
        let to = if kind & 0x80 == 0 { scid } else { wrong };
        let mut packet = Vec::new();
        let may_be_believed = if kind.is_multiple_of(2) {
            let from = if kind & 0x40 == 0 { dcid } else { wrong };
            let version = |_| {
                source.choose(&[Version::V1, Version::V2, Version::REVERSO, Version(7), Version::grease(3)])
            };
            let versions: Vec<_> = (0..1 + kind % 4).map(version).collect();
            write_version_negotiation(&mut packet, &to, &from, &versions, kind);
            // RFC 9000 §6.2: a client discards an offer of the version that it has chosen.
            !versions.contains(&self.version) && from == dcid
        } else {
            let token = source.string(40);
            let format = self.version.format().unwrap();
            let new = ConnectionId::new(&source.string(20)).unwrap();
            write_retry(format, &mut packet, &to, &new, &token, kind);
            let mut tag = retry_tag(format, &dcid, &packet);
            let is_valid = kind & 0x40 == 0;
            tag[0] ^= u8::from(!is_valid);
            packet.extend(tag);
            is_valid && !token.is_empty()
        };
        self.receive(&mut packet);
        may_be_believed && to == scid
    }

    fn receive(&mut self, payload: &mut [u8]) {
        self.client.handle_batch(self.now, &mut [Datagram { tuple: tuple(), ecn: None, payload }]);
    }

    /// Lets the client talk to a genuine server. Returns whether the handshake is confirmed.
    fn connect(&mut self, server: &mut Endpoint) -> bool {
        for _ in 0..MAX_ROUNDS {
            let mut sent = std::mem::take(&mut self.sent);
            sent.extend(send(self.now, &mut self.client));
            for payload in &mut sent {
                let tuple = FourTuple { local: tuple().remote, remote: tuple().local };
                server.handle_batch(self.now, &mut [Datagram { tuple, ecn: None, payload }]);
            }
            send(self.now, server).iter_mut().for_each(|payload| self.receive(payload));
            let Some(connection) = self.client.connection(self.handle) else { return false };
            if connection.is_closed() || connection.is_confirmed() {
                return connection.is_confirmed();
            }
            self.now += Duration::from_millis(50);
            self.client.handle_timeout(self.now);
            server.handle_timeout(self.now);
        }
        false
    }
}
