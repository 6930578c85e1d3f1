//! The connection type, its creation, and its application interface.

use std::sync::Arc;

use anabranch_recovery::{Outcome, Recovery};
use anabranch_tls as tls;
use anabranch_wire::{ConnectionId, Format, InvalidSetting, PathId, Side, SpaceId, Time, Version};

use crate::config::{ClientConfig, ServerConfig, TransportConfig};
use crate::connection::parts::{
    Acks, Handshake, Idle, KeyRing, Levels, Origin, Output, Pending, Roaming, State,
};
use crate::datagram::Datagrams;
use crate::datagram_io::FourTuple;
use crate::endpoint::{ServerStart, Shared};
use crate::error::TransportError;
use crate::event::{EndpointEvent, Event};
use crate::path::{LocalCids, Path, PathCids, PathSet, RemoteCids};
use crate::random::Random;
use crate::stream::Streams;
use crate::token::Tokens;
use crate::trace::{Observer, TraceEvent};

/// Reason why a connection could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The version of the first flight is not supported.
    #[error("QUIC version {0} is not supported")]
    UnsupportedVersion(Version),
    /// TLS rejected the configuration or the server's name.
    #[error(transparent)]
    Tls(#[from] tls::ConfigError),
    /// A setting contradicts the protocol.
    #[error(transparent)]
    InvalidSetting(#[from] InvalidSetting),
    /// The remote address cannot be a destination.
    #[error("the remote address {0} cannot be connected to")]
    InvalidRemoteAddress(std::net::SocketAddr),
}

/// Server to which a client connects, and the client's own choices.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct ConnectTarget<'a> {
    /// Addresses of the first path.
    pub tuple: FourTuple,
    /// Name that the server's certificate must have.
    pub server_name: &'a str,
    /// Connection ID of the client, which the caller has registered with the router.
    pub local_cid: ConnectionId,
    /// Seed of all random choices of the connection; must be kept secret.
    pub seed: [u8; 32],
}

impl<'a> ConnectTarget<'a> {
    /// Creates a target.
    pub const fn new(
        tuple: FourTuple,
        server_name: &'a str,
        local_cid: ConnectionId,
        seed: [u8; 32],
    ) -> Self {
        Self { tuple, server_name, local_cid, seed }
    }
}

/// A QUIC connection without sockets, clocks or threads.
///
/// After each call that changes the connection (a batch, a timeout, a write), drain [`Self::poll_transmit`],
/// [`Self::poll_event`] and [`Self::poll_endpoint_event`], then call [`Self::poll_timeout`] once.
pub struct Connection {
    pub(super) side: Side,
    pub(super) config: Arc<TransportConfig>,
    /// Server's configuration; `None` for a client.
    pub(super) server: Option<Arc<ServerConfig>>,
    pub(super) shared: Arc<Shared>,
    pub(super) random: Random,
    pub(super) format: &'static Format,
    pub(super) origin: Origin,
    pub(super) state: State,
    pub(super) handshake: Handshake,
    pub(super) keys: KeyRing,
    /// State of the Initial and Handshake packet number spaces.
    pub(super) levels: Levels,
    pub(super) paths: PathSet,
    pub(super) streams: Streams,
    pub(super) datagrams: Datagrams,
    pub(super) pending: Pending,
    pub(super) acks: Acks,
    pub(super) idle: Idle,
    pub(super) roaming: Roaming,
    pub(super) output: Output,
    /// Buffer for the outcome of an acknowledgment or timeout, reused each time.
    pub(super) outcome: Outcome<Tokens>,
}

impl Connection {
    /// Starts a connection as a client.
    ///
    /// # Errors
    /// Fails if the version, the server's name or the TLS configuration cannot be used.
    pub fn client(
        now: Time,
        config: &ClientConfig,
        shared: Arc<Shared>,
        target: ConnectTarget<'_>,
    ) -> Result<Self, ConnectError> {
        let ConnectTarget { tuple, server_name, local_cid, seed } = target;
        config.validate()?;
        let version = config.initial_version;
        let format = version.format().ok_or(ConnectError::UnsupportedVersion(version))?;
        let mut random = Random::new(seed);
        // RFC 9000 §7.2: at least 8 unpredictable bytes.
        let len = 8 + random_below(&mut random, 13);
        let original_dcid = random.cid(len);
        let parts = Parts { side: Side::Client, format, tuple, local_cid, remote_cid: original_dcid };
        let transport = Arc::clone(&config.transport);
        let mut connection = Self::new(now, transport, None, shared, random, parts);
        connection.paths.list.main_mut().set_validated();
        connection.start_client(now, config, server_name, original_dcid)?;
        Ok(connection)
    }

    /// Starts a connection as a server. The first datagram must be passed to [`Self::handle_batch`] directly
    /// afterwards.
    pub fn server(
        now: Time,
        config: Arc<ServerConfig>,
        shared: Arc<Shared>,
        seed: [u8; 32],
        start: &ServerStart,
    ) -> Self {
        let random = Random::new(seed);
        #[expect(clippy::expect_used, reason = "the router only accepts Initials of versions that it knows")]
        let format = start.version.format().expect("a version that the router accepted");
        let parts = Parts {
            side: Side::Server,
            format,
            tuple: start.tuple,
            local_cid: start.local_cid,
            remote_cid: start.peer_cid,
        };
        let transport = Arc::clone(&config.transport);
        let mut connection = Self::new(now, transport, Some(config), shared, random, parts);
        if start.address_validated {
            connection.paths.list.main_mut().set_validated();
        }
        connection.start_server(start);
        connection
    }

    fn new(
        now: Time,
        config: Arc<TransportConfig>,
        server: Option<Arc<ServerConfig>>,
        shared: Arc<Shared>,
        mut random: Random,
        Parts { side, format, tuple, local_cid, remote_cid }: Parts,
    ) -> Self {
        let recovery_config = recovery_config(&config, &tuple, random.u64());
        let path = Path::new(
            PathId::ZERO,
            tuple,
            Recovery::new(&recovery_config, now),
            PathCids {
                local: LocalCids::new(PathId::ZERO, local_cid),
                remote: RemoteCids::new(PathId::ZERO, remote_cid, config.active_connection_id_limit),
                used_local: local_cid,
            },
            &config.ack,
        );
        let idle = Idle::new(now, &config);
        Self {
            side,
            server,
            shared,
            format,
            state: State::Active,
            handshake: Handshake::default(),
            keys: KeyRing::default(),
            levels: Levels::default(),
            paths: PathSet::new(side, Arc::clone(&config), path),
            streams: Streams::new(side, &config.streams, random.u64()),
            datagrams: Datagrams::new(config.datagram_send_buffer, config.datagram_receive_buffer),
            pending: Pending::default(),
            idle,
            roaming: Roaming::default(),
            output: Output::default(),
            origin: Origin {
                version: format.version,
                initial_dcid: ConnectionId::EMPTY,
                time: now,
                local_cid,
                grease_bits: random.u64(),
            },
            acks: Acks::new(&config.ack),
            outcome: Outcome::new(),
            random,
            config,
        }
    }

    /// Returns the streams, for the application. After each use, poll the connection as described at
    /// [`Connection`].
    pub fn streams(&mut self) -> &mut Streams {
        &mut self.streams
    }

    /// Returns the DATAGRAM queues (RFC 9221), for the application. After each use, poll the connection as
    /// described at [`Connection`].
    pub fn datagrams(&mut self) -> &mut Datagrams {
        let room = self.datagram_room();
        self.datagrams.set_packet_room(room);
        &mut self.datagrams
    }

    /// Returns [`Self::streams`] and [`Self::datagrams`] together.
    pub fn streams_and_datagrams(&mut self) -> (&mut Streams, &mut Datagrams) {
        let room = self.datagram_room();
        self.datagrams.set_packet_room(room);
        (&mut self.streams, &mut self.datagrams)
    }

    /// Passes every event from now on to `observer`. After the handshake, it no longer receives this end's transport parameters.
    pub fn set_observer(&mut self, now: Time, observer: Box<dyn Observer>) {
        self.output.observer = Some(observer);
        let path = self.paths.list.main();
        let event = TraceEvent::Started {
            tuple: path.tuple,
            local_cid: path.used_local_cid,
            remote_cid: path.remote_cids.active(),
        };
        self.trace(now, &event);
        let parameters = self.handshake.local_parameters.clone();
        if let Some(parameters) = &parameters {
            self.trace(now, &TraceEvent::Parameters { local: true, parameters });
        }
    }

    /// Queues a PING for `path`.
    pub fn ping(&mut self, path: PathId) {
        if let Some(path) = self.paths.list.get_mut(path) {
            path.ping = true;
        }
    }

    /// Updates the 1-RTT keys as soon as RFC 9001 §6 allows it. Has no effect before the handshake is
    /// confirmed.
    pub fn update_keys(&mut self) {
        if let (true, Some(keys)) = (self.handshake.progress.confirmed, &mut self.keys.one_rtt) {
            keys.request_update();
        }
    }

    /// Returns the next event. Stream and DATAGRAM events follow all others, but no event follows
    /// [`Event::Closed`].
    pub fn poll_event(&mut self) -> Option<Event> {
        // Stream events are reported before the close: their data is still useful, even if it arrived in the
        // same datagram as the close.
        if matches!(self.output.events.front(), Some(Event::Closed(_)))
            && let Some(event) = self.streams.poll_event()
        {
            return Some(Event::Stream(event));
        }
        if let Some(event) = self.output.events.pop_front() {
            return Some(event);
        }
        if !self.state.is_active() {
            return None;
        }
        if self.datagrams.take_received() {
            return Some(Event::DatagramReceived);
        }
        if self.datagrams.take_unblocked() {
            return Some(Event::DatagramsUnblocked);
        }
        self.streams.poll_event().map(Event::Stream)
    }

    /// Returns the next event for the router of the endpoint.
    pub fn poll_endpoint_event(&mut self) -> Option<EndpointEvent> {
        if self.output.endpoint_events.is_empty() {
            self.collect_reset_tokens();
        }
        self.output.endpoint_events.pop_front()
    }

    #[inline]
    pub(super) fn trace(&mut self, now: Time, event: &TraceEvent<'_>) {
        if let Some(observer) = &mut self.output.observer {
            observer.event(now, event);
        }
    }

    /// Returns the index of `space` in `levels`; `None` for the application data space.
    pub(super) fn level_index(space: SpaceId) -> Option<usize> {
        match space {
            SpaceId::Initial => Some(0),
            SpaceId::Handshake => Some(1),
            SpaceId::Data => None,
        }
    }

    /// Closes the connection with `error` unless it has ended.
    pub(super) fn fail(&mut self, now: Time, error: TransportError) {
        self.close_with_error(now, error);
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection")
            .field("side", &self.side)
            .field("version", &self.format.version)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

/// Initial values that differ between client and server.
struct Parts {
    side: Side,
    format: &'static Format,
    tuple: FourTuple,
    local_cid: ConnectionId,
    remote_cid: ConnectionId,
}

/// Difference in length between the headers of IPv6 and IPv4, in bytes.
const IPV6_EXTRA: u16 = 20;

/// Returns the recovery configuration of a path between these addresses.
pub(super) fn recovery_config(
    config: &TransportConfig,
    tuple: &FourTuple,
    seed: u64,
) -> anabranch_recovery::Config {
    let recovery = config.recovery.clone().with_seed(seed);
    if !tuple.remote.ip().to_canonical().is_ipv6() {
        return recovery;
    }
    let mtu = recovery.mtu().clone();
    let maximum = mtu.maximum().saturating_sub(IPV6_EXTRA);
    recovery.with_mtu(mtu.with_maximum(maximum))
}

fn random_below(random: &mut Random, bound: u64) -> usize {
    usize::try_from(random.below(bound)).unwrap_or(0)
}
