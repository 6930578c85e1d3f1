//! `peer-quiche receive`: what a received packet costs, without sockets.
//!
//! A client and a server in memory; the server sends one stream in full packets. The clock runs while a batch of
//! datagrams goes into the client's `recv` and while the stream is then read to the end of what has arrived. Making
//! packets, and making and reading acknowledgements, happen with the clock stopped.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use boring::asn1::Asn1Time;
use boring::ec::{EcGroup, EcKey};
use boring::hash::MessageDigest;
use boring::nid::Nid;
use boring::pkey::PKey;
use boring::ssl::{SslContextBuilder, SslMethod};
use boring::x509::{X509, X509NameBuilder};
use peer_common::report::Report;
use peer_common::{Failure, PATTERN, failed, socket};
use quiche::{Config, Connection, ConnectionId, PROTOCOL_VERSION, RecvInfo};

/// UDP payload of every measured packet.
const PACKET: usize = 1350;

/// Flow control and congestion windows that never limit, in bytes and packets.
const NO_LIMIT: u64 = 1 << 40;
const NO_LIMIT_PACKETS: usize = 1 << 30;

/// The first unidirectional stream of a server (RFC 9000 §2.1).
const STREAM: u64 = 3;

/// Batches before the clock counts: one in ten.
const WARM_UP: usize = 10;

const CLIENT: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 1111);
const SERVER: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 2222);

/// `receive --batch N --packets M [--one-core K]`
pub fn run(flags: Vec<String>) -> Result<(), Failure> {
    let mut flags = VecDeque::from(flags);
    let (mut batch, mut packets) = (10_usize, 100_000_usize);
    while let Some(flag) = flags.pop_front() {
        let value: usize = match flags.pop_front().and_then(|value| value.parse().ok()) {
            Some(value) => value,
            None => return failed(format!("{flag} needs a number")),
        };
        match flag.as_str() {
            "--batch" => batch = value.max(1),
            "--packets" => packets = value,
            "--one-core" => socket::pin(value)?,
            _ => return failed(format!("unknown flag {flag}")),
        }
    }
    let mut pair = Pair::new()?;
    let rounds = (packets / batch).max(1);
    let mut times = Vec::with_capacity(rounds);
    let mut bytes = 0;
    for round in 0..rounds + rounds / WARM_UP {
        let (elapsed, read) = pair.round(batch)?;
        if round >= rounds / WARM_UP {
            times.push(elapsed);
            bytes += read;
        }
    }
    let measured = rounds * batch;
    let total: Duration = times.iter().sum();
    times.sort_unstable();
    let nanos = |time: Duration, packets: usize| format!("{:.1}", time.as_nanos() as f64 / packets as f64);
    Report::new()
        .text("name", "quiche")
        .raw("batch", batch)
        .raw("packets", measured)
        .raw("bytes", bytes)
        .raw("ns_per_packet", nanos(total, measured))
        .raw("ns_per_packet_median", nanos(times[rounds / 2], batch))
        .print();
    Ok(())
}

/// A client and a server whose handshake is complete.
struct Pair {
    client: Connection,
    server: Connection,
    datagrams: Vec<Vec<u8>>,
    read: Vec<u8>,
}

impl Pair {
    fn new() -> Result<Self, Failure> {
        let (client_cid, server_cid) = ([0xc; 16], [0x5; 16]);
        let (client, server) = (SocketAddr::from(CLIENT), SocketAddr::from(SERVER));
        let client = quiche::connect(
            Some("localhost"),
            &ConnectionId::from_ref(&client_cid),
            client,
            server,
            &mut config(Config::new(PROTOCOL_VERSION)?)?,
        )?;
        let server = quiche::accept(
            &ConnectionId::from_ref(&server_cid),
            None,
            server,
            SocketAddr::from(CLIENT),
            &mut config(Config::with_boring_ssl_ctx_builder(PROTOCOL_VERSION, certified()?)?)?,
        )?;
        let mut pair = Self { client, server, datagrams: Vec::new(), read: Vec::new() };
        while !(pair.client.is_established() && pair.server.is_established()) {
            pair.exchange()?;
        }
        // What the handshake leaves over must not be in the first batch.
        for _ in 0..3 {
            pair.exchange()?;
        }
        Ok(pair)
    }

    /// Carries all that either side wants to send to the other.
    fn exchange(&mut self) -> Result<(), Failure> {
        let (client, server) = (SocketAddr::from(CLIENT), SocketAddr::from(SERVER));
        carry(&mut self.client, &mut self.server, RecvInfo { from: client, to: server })?;
        carry(&mut self.server, &mut self.client, RecvInfo { from: server, to: client })
    }

    /// One batch of exactly `batch` full packets; how long the client took, and how much it read.
    fn round(&mut self, batch: usize) -> Result<(Duration, usize), Failure> {
        self.datagrams.resize_with(batch, || vec![0; PACKET]);
        self.read.resize(batch * PACKET, 0);
        let mut queued = 0;
        while queued < batch * PACKET {
            let wanted = (batch * PACKET - queued).min(PATTERN.len());
            queued += self.server.stream_send(STREAM, &PATTERN[..wanted], false)?;
        }
        for datagram in &mut self.datagrams {
            let (n, _) = self.server.send(datagram)?;
            if n != PACKET {
                return failed(format!("a packet of {n} bytes instead of {PACKET}"));
            }
        }
        let info = RecvInfo { from: SERVER.into(), to: CLIENT.into() };
        let mut read = 0;
        let start = Instant::now();
        for datagram in &mut self.datagrams {
            self.client.recv(datagram, info)?;
        }
        while let Ok((n, _)) = self.client.stream_recv(STREAM, &mut self.read) {
            read += n;
        }
        let elapsed = start.elapsed();
        // What is still queued at the server goes out as a shorter last packet, and everything is acknowledged.
        self.exchange()?;
        while self.client.stream_recv(STREAM, &mut self.read).is_ok() {}
        self.exchange()?;
        Ok((elapsed, read))
    }
}

fn carry(from: &mut Connection, to: &mut Connection, info: RecvInfo) -> Result<(), Failure> {
    let mut packet = [0; PACKET];
    loop {
        match from.send(&mut packet) {
            Ok((n, _)) => _ = to.recv(&mut packet[..n], info)?,
            Err(quiche::Error::Done) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

fn config(mut config: Config) -> Result<Config, Failure> {
    config.set_application_protos(&[b"perf"])?;
    config.set_max_send_udp_payload_size(PACKET);
    config.set_initial_max_data(NO_LIMIT);
    config.set_initial_max_stream_data_uni(NO_LIMIT);
    config.set_initial_max_streams_uni(1);
    config.set_max_connection_window(NO_LIMIT);
    config.set_max_stream_window(NO_LIMIT);
    config.set_initial_congestion_window_packets(NO_LIMIT_PACKETS);
    config.enable_pacing(false);
    config.grease(false);
    config.verify_peer(false);
    Ok(config)
}

/// A context with a certificate made for the occasion; the client does not look at it.
fn certified() -> Result<SslContextBuilder, Failure> {
    let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1)?;
    let key = PKey::from_ec_key(EcKey::generate(&group)?)?;
    let mut name = X509NameBuilder::new()?;
    name.append_entry_by_nid(Nid::COMMONNAME, "localhost")?;
    let name = name.build();
    let (start, end) = (Asn1Time::days_from_now(0)?, Asn1Time::days_from_now(1)?);
    let mut cert = X509::builder()?;
    cert.set_version(2)?;
    cert.set_subject_name(&name)?;
    cert.set_issuer_name(&name)?;
    cert.set_not_before(&start)?;
    cert.set_not_after(&end)?;
    cert.set_pubkey(&key)?;
    cert.sign(&key, MessageDigest::sha256())?;
    let mut context = SslContextBuilder::new(SslMethod::tls())?;
    context.set_certificate(&cert.build())?;
    context.set_private_key(&key)?;
    Ok(context)
}
