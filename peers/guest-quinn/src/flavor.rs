//! Calls of quinn-proto whose names or arguments differ from noq-proto's.

use std::sync::Arc;
use std::time::Instant;

use anabranch_guest::{Datagram, Hello};
use bytes::BytesMut;
use proto::congestion::{BbrConfig, ControllerFactory};
use proto::{
    Connection, DatagramEvent, EcnCodepoint, Endpoint, EndpointConfig, ServerConfig, Transmit,
    TransportConfig,
};

pub fn bbr() -> Arc<dyn ControllerFactory + Send + Sync> {
    Arc::new(BbrConfig::default())
}

pub fn paths(_config: &mut TransportConfig, _count: u32) {}

pub fn endpoint(config: Arc<EndpointConfig>, server: Option<Arc<ServerConfig>>, seed: [u8; 32]) -> Endpoint {
    Endpoint::new(config, server, true, Some(seed))
}

pub fn handle(
    endpoint: &mut Endpoint,
    now: Instant,
    datagram: &Datagram<'_>,
    ecn: Option<EcnCodepoint>,
    payload: BytesMut,
    buffer: &mut Vec<u8>,
) -> Option<DatagramEvent> {
    endpoint.handle(now, datagram.remote, Some(datagram.local.ip()), ecn, payload, buffer)
}

pub fn poll(
    connection: &mut Connection,
    now: Instant,
    batch: usize,
    buffer: &mut Vec<u8>,
) -> Option<Transmit> {
    connection.poll_transmit(now, batch, buffer)
}

/// Returns the bytes and the number of packets that were declared lost. The stack does not count the bytes
/// that it sends again, so the lost bytes, which include headers, stand for them.
pub fn losses(connection: &Connection) -> (Option<u64>, Option<u64>) {
    let path = connection.stats().path;
    (Some(path.lost_bytes), Some(path.lost_packets))
}

/// Opener that opens no further paths, because the stack supports only one.
pub struct Opener;

impl Opener {
    pub fn new(_hello: &Hello) -> Self {
        Self
    }

    pub fn attempt(&mut self, _now: Instant, _connection: &mut Connection) -> Result<(), String> {
        Ok(())
    }

    pub fn next(&self) -> Option<Instant> {
        None
    }
}
