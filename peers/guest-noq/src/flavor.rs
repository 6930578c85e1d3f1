//! Calls of noq-proto whose names or arguments differ from quinn-proto's, and the opening of further paths.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anabranch_guest::{Datagram, Hello, Path, Role};
use bytes::BytesMut;
use proto::congestion::{Bbr3Config, ControllerFactory};
use proto::{
    Connection, DatagramEvent, EcnCodepoint, Endpoint, EndpointConfig, FourTuple, PathError, PathStatus,
    ServerConfig, Transmit, TransportConfig,
};

/// Time until the next attempt to open a path for which the server has not yet issued a connection ID or
/// permitted the path ID.
const AGAIN: Duration = Duration::from_millis(1);

pub fn bbr() -> Arc<dyn ControllerFactory + Send + Sync> {
    Arc::new(Bbr3Config::default())
}

pub fn paths(config: &mut TransportConfig, count: u32) {
    // The extension is negotiated even for a single path, as a program that uses the stack would do.
    config.max_concurrent_multipath_paths(count.max(2));
}

pub fn endpoint(
    mut config: Arc<EndpointConfig>,
    server: Option<Arc<ServerConfig>>,
    seed: [u8; 32],
) -> Endpoint {
    Arc::make_mut(&mut config).rng_seed(Some(seed));
    Endpoint::new(config, server, true)
}

pub fn handle(
    endpoint: &mut Endpoint,
    now: Instant,
    datagram: &Datagram<'_>,
    ecn: Option<EcnCodepoint>,
    payload: BytesMut,
    buffer: &mut Vec<u8>,
) -> Option<DatagramEvent> {
    let path = FourTuple::new(datagram.remote, Some(datagram.local.ip()));
    endpoint.handle(now, path, ecn, payload, buffer)
}

pub fn poll(
    connection: &mut Connection,
    now: Instant,
    batch: usize,
    buffer: &mut Vec<u8>,
) -> Option<Transmit> {
    connection.poll_transmit(now, NonZeroUsize::new(batch)?, buffer)
}

/// Returns the bytes and the number of packets that were declared lost. The stack does not count the bytes
/// that it sends again, so the lost bytes, which include headers, stand for them.
pub fn losses(connection: &mut Connection) -> (Option<u64>, Option<u64>) {
    let stats = connection.stats();
    (Some(stats.lost_bytes), Some(stats.lost_packets))
}

/// Opener of the client's further paths, each as early as the server allows.
pub struct Opener {
    wanted: VecDeque<Path>,
    next: Option<Instant>,
}

impl Opener {
    pub fn new(hello: &Hello) -> Self {
        let wanted = match hello.role {
            Role::Client => hello.paths.iter().skip(1).copied().collect(),
            Role::Server => VecDeque::new(),
        };
        Self { wanted, next: None }
    }

    pub fn attempt(&mut self, now: Instant, connection: &mut Connection) -> Result<(), String> {
        self.next = None;
        if connection.is_handshaking() || connection.is_closed() {
            return Ok(());
        }
        while let Some(path) = self.wanted.front() {
            let tuple = FourTuple::new(path.remote, Some(path.local.ip()));
            match connection.open_path(tuple, PathStatus::Available, now) {
                Ok(_) => self.wanted.pop_front(),
                Err(PathError::RemoteCidsExhausted | PathError::MaxPathIdReached) => {
                    self.next = Some(now + AGAIN);
                    return Ok(());
                }
                Err(error) => return Err(format!("a path was not opened: {error}")),
            };
        }
        Ok(())
    }

    pub fn next(&self) -> Option<Instant> {
        self.next
    }
}
