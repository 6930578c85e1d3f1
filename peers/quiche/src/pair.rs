//! Client and server in memory, connected without sockets and without loss.

use std::net::{Ipv4Addr, SocketAddr};

use peer_common::Failure;
use quiche::{Config, ConnectionId, Error, RecvInfo};

use crate::config::Connection;

/// UDP payload of every full packet.
pub const PACKET: usize = 1350;

/// Flow control window in bytes and congestion window in packets, so large that they never limit.
const NO_LIMIT: u64 = 1 << 40;
const NO_LIMIT_PACKETS: usize = 1 << 30;

/// Number of streams of each type that either endpoint may open.
const STREAMS: u64 = 10_000;

const CLIENT: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 1111);
const SERVER: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 2222);

/// Removes the limits on sending from the settings, and disables certificate verification.
pub fn unlimit(config: &mut Config) -> Result<(), Error> {
    config.set_application_protos(&[b"perf"])?;
    config.set_max_send_udp_payload_size(PACKET);
    config.set_initial_max_data(NO_LIMIT);
    config.set_initial_max_stream_data_uni(NO_LIMIT);
    config.set_initial_max_stream_data_bidi_local(NO_LIMIT);
    config.set_initial_max_stream_data_bidi_remote(NO_LIMIT);
    config.set_initial_max_streams_uni(STREAMS);
    config.set_initial_max_streams_bidi(STREAMS);
    config.set_max_connection_window(NO_LIMIT);
    config.set_max_stream_window(NO_LIMIT);
    config.set_initial_congestion_window_packets(NO_LIMIT_PACKETS);
    config.enable_pacing(false);
    config.grease(false);
    config.verify_peer(false);
    Ok(())
}

/// Client and server after the handshake.
pub struct Pair {
    pub client: Connection,
    pub server: Connection,
}

impl Pair {
    /// Connects a client and a server with these settings.
    pub fn new(client: &mut Config, server: &mut Config) -> Result<Self, Failure> {
        let (client_cid, server_cid) = ([0xc; 16], [0x5; 16]);
        let (here, there) = (SocketAddr::from(CLIENT), SocketAddr::from(SERVER));
        let cid = ConnectionId::from_ref(&client_cid);
        let client = quiche::connect_with_buffer_factory(Some("localhost"), &cid, here, there, client)?;
        let cid = ConnectionId::from_ref(&server_cid);
        let server = quiche::accept_with_buf_factory(&cid, None, there, here, server)?;
        let mut pair = Self { client, server };
        while !(pair.client.is_established() && pair.server.is_established()) {
            pair.exchange()?;
        }
        // Packets that follow the handshake must not be part of the measurement.
        for _ in 0..3 {
            pair.exchange()?;
        }
        Ok(pair)
    }

    /// Returns the source and the destination of the packets to the client.
    pub fn to_client() -> RecvInfo {
        RecvInfo { from: SERVER.into(), to: CLIENT.into() }
    }

    /// Delivers all pending packets in both directions.
    pub fn exchange(&mut self) -> Result<(), Failure> {
        self.carry_to_server()?;
        carry(&mut self.server, &mut self.client, Self::to_client())
    }

    /// Delivers all pending packets of the client.
    pub fn carry_to_server(&mut self) -> Result<(), Failure> {
        let info = RecvInfo { from: CLIENT.into(), to: SERVER.into() };
        carry(&mut self.client, &mut self.server, info)
    }
}

fn carry(from: &mut Connection, to: &mut Connection, info: RecvInfo) -> Result<(), Failure> {
    let mut packet = [0; PACKET];
    loop {
        match from.send(&mut packet) {
            Ok((n, _)) => _ = to.recv(&mut packet[..n], info)?,
            Err(Error::Done) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}
