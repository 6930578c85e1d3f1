//! How a connection and an endpoint behave; everything has a default that suits most users.

mod ack;
pub(crate) mod named;
mod numbering;

use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6};
use std::sync::Arc;
use std::time::Duration;

use anabranch_tls as tls;
use anabranch_wire::Version;
use bytes::Bytes;

pub use self::ack::{AckConfig, AckPath, AckScope, FrequencyRule, Horizon, RangeOrder};
pub use self::named::UnknownName;
pub use self::numbering::{LossScan, Numbering, NumberingChoice};
use crate::stream::StreamsConfig;

/// Behaviour of a connection's transport, the same for clients and servers.
#[derive(Clone, Debug)]
pub struct TransportConfig {
    /// Stream limits, receive windows, send buffer.
    pub streams: StreamsConfig,
    /// Loss recovery, congestion controller, pacing, ECN, MTU discovery.
    pub recovery: anabranch_recovery::Config,
    /// When acknowledgments are sent.
    pub ack: AckConfig,
    /// Close silently after this long without a packet (RFC 9000 §10.1); `None` never.
    pub max_idle_timeout: Option<Duration>,
    /// Give up when the handshake takes longer than this, however much is received.
    pub handshake_timeout: Duration,
    /// Send a PING when nothing was sent or received for this long; `None` never.
    pub keep_alive: Option<Duration>,
    /// Bytes of received DATAGRAM frames kept for the application, the oldest dropped first; 0 turns RFC 9221 off.
    pub datagram_receive_buffer: usize,
    /// Bytes of DATAGRAM frames waiting to be sent.
    pub datagram_send_buffer: usize,
    /// Connection IDs of the peer that this end keeps (RFC 9000 §18.2 `active_connection_id_limit`), 2 to 8.
    pub active_connection_id_limit: u64,
    /// Versions in order of preference (RFC 9368). A client's first flight uses `initial_version` of [`ClientConfig`].
    pub versions: Vec<Version>,
    /// Send reserved values that peers must ignore: fixed bit (RFC 9287), transport parameters, versions.
    pub grease: bool,
    /// Largest UDP payload that this end is willing to receive, at least 1200.
    pub max_udp_payload_size: u16,
    /// Go on at other addresses (RFC 9000 §9): a server follows clients that move, and lets them; a client that was not told
    /// where to begin moves when its host's addresses or routes change, or when its network falls silent and another one works.
    pub migration: bool,
    /// Several paths at once (RFC 10069); `None` leaves it at one.
    pub multipath: Option<MultipathConfig>,
    /// Update keys by ourselves after this many packets; `None` leaves only the AEAD's own limit.
    pub key_update_after: Option<u64>,
    /// Leave out a 1-RTT packet number now and then, about once a congestion window, so that a peer that acknowledges what it
    /// did not receive is found out (RFC 9000 §21.4). Each is a gap in the peer's acknowledgments until it is old enough to
    /// be named no more: `docs/performance.md` says what that costs.
    pub skip_packet_numbers: bool,
    /// Change this end's connection IDs by age and use; `None` never, unless a path moves. It costs some hundred bytes each time.
    pub cid_rotation: Option<CidRotation>,
    /// How this end is to misbehave.
    #[cfg(test)]
    pub(crate) hooks: Hooks,
}

/// When connection IDs of this end are old: the peer is then asked to use new ones (RFC 9000 §5.1.1, §9.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CidRotation {
    /// At this age, at the next packet that is received.
    pub max_age: Duration,
    /// After this many 1-RTT packets received on their path.
    pub max_packets: u64,
}

impl CidRotation {
    /// Old at this age, or after this many packets.
    pub const fn new(max_age: Duration, max_packets: u64) -> Self {
        Self { max_age, max_packets }
    }
}

impl Default for CidRotation {
    /// An hour, or 2^24 packets: rare enough to cost nothing that can be measured.
    fn default() -> Self {
        Self::new(Duration::from_secs(3600), 1 << 24)
    }
}

/// Changes to what an end says in its handshake, for tests of its peer.
#[cfg(test)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hooks {
    /// Edits the transport parameters before they are sent.
    pub(crate) parameters: Option<fn(&mut anabranch_wire::TransportParameters)>,
    /// Edits the handshake bytes of a level before they are sent.
    pub(crate) crypto: Option<fn(anabranch_wire::SpaceId, &mut Vec<u8>)>,
}

impl Default for TransportConfig {
    fn default() -> Self {
        Self {
            streams: StreamsConfig::default(),
            recovery: anabranch_recovery::Config::default(),
            ack: AckConfig::default(),
            max_idle_timeout: Some(Duration::from_secs(30)),
            handshake_timeout: Duration::from_secs(30),
            keep_alive: None,
            datagram_receive_buffer: 1 << 20,
            datagram_send_buffer: 1 << 20,
            active_connection_id_limit: 5,
            versions: vec![Version::V1, Version::V2],
            grease: true,
            max_udp_payload_size: 65_527,
            migration: true,
            multipath: None,
            key_update_after: None,
            skip_packet_numbers: true,
            cid_rotation: Some(CidRotation::default()),
            #[cfg(test)]
            hooks: Hooks::default(),
        }
    }
}

/// Several paths at once (RFC 10069), if the peer wants them, too.
#[derive(Clone, Debug)]
pub struct MultipathConfig {
    /// Paths that may be open at the same time, 1 to [`MAX_PATHS`].
    pub max_paths: u32,
    /// Which path the next packet takes.
    pub scheduler: crate::schedule::Algorithm,
    /// Give up a path that has been failing for this long while another one works; `None` never. A path without traffic is
    /// asked for a sign of life after as long, as long as the connection is in use, and so found out if it is dead.
    pub path_idle_timeout: Option<Duration>,
    /// Send a PING on each path that has been silent for this long, so that the network does not forget it; `None` never.
    /// It keeps the whole connection alive, too.
    pub path_keep_alive: Option<Duration>,
    /// How packets of several paths are numbered. Without connection IDs at one of the ends only the single number space can be
    /// used.
    pub numbering: NumberingChoice,
    /// How far losses are looked for where paths share their numbers.
    pub loss_scan: LossScan,
    /// Tell the peer with PATH_STATUS_BACKUP of paths that fail, so that it need not find out by itself.
    pub path_signalling: bool,
}

/// Most paths that a connection may have open at the same time.
pub const MAX_PATHS: u32 = 64;

impl Default for MultipathConfig {
    fn default() -> Self {
        Self {
            max_paths: 4,
            scheduler: crate::schedule::Algorithm::Confluence,
            path_idle_timeout: Some(Duration::from_secs(30)),
            path_keep_alive: None,
            numbering: NumberingChoice::default(),
            loss_scan: LossScan::Path,
            path_signalling: true,
        }
    }
}

/// What a client needs to connect.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// TLS: trusted roots, ALPN, resumption, early data.
    pub tls: tls::ClientConfig,
    /// Transport behaviour.
    pub transport: Arc<TransportConfig>,
    /// Version of the first flight.
    pub initial_version: Version,
    /// A token from an earlier connection's NEW_TOKEN frame; empty for none.
    pub token: Bytes,
}

impl ClientConfig {
    /// Default transport, QUIC v1 first.
    pub fn new(tls: tls::ClientConfig) -> Self {
        Self { tls, transport: Arc::default(), initial_version: Version::V1, token: Bytes::new() }
    }
}

/// What a server needs to accept.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// TLS: certificate, ALPN, tickets, early data.
    pub tls: tls::ServerConfig,
    /// Transport behaviour.
    pub transport: Arc<TransportConfig>,
    /// When clients must prove their address with a Retry.
    pub retry: RetryPolicy,
    /// Addresses that clients are asked to move to after the handshake (RFC 9000 §9.6).
    pub preferred_address: Option<PreferredAddresses>,
    /// Further addresses of the server that multipath clients are told of, at most 16
    /// (draft-munizaga-quic-alternative-server-address).
    pub alternative_addresses: Vec<SocketAddr>,
    /// Connections in handshake or open at the same time; more are refused.
    pub max_connections: usize,
    /// Handshakes that the application has not accepted yet; more get a Retry, then are refused.
    pub max_incoming: usize,
    /// Tokens for later connections sent after the handshake (NEW_TOKEN).
    pub new_tokens: u64,
    /// How long a Retry token is good for.
    pub retry_token_lifetime: Duration,
    /// How long a NEW_TOKEN token is good for.
    pub new_token_lifetime: Duration,
}

impl ServerConfig {
    /// Default transport; Retry only under load.
    pub fn new(tls: tls::ServerConfig) -> Self {
        Self {
            tls,
            transport: Arc::default(),
            retry: RetryPolicy::UnderLoad,
            preferred_address: None,
            alternative_addresses: Vec::new(),
            max_connections: 65_536,
            max_incoming: 1_024,
            new_tokens: 1,
            retry_token_lifetime: Duration::from_secs(15),
            new_token_lifetime: Duration::from_secs(7 * 24 * 3600),
        }
    }
}

/// When a server answers a first Initial with a Retry (RFC 9000 §8.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryPolicy {
    /// Never.
    Never,
    /// While more than half of `max_incoming` handshakes wait.
    UnderLoad,
    /// Whenever the client brings no valid token.
    Always,
}

/// A server's preferred addresses; at least one should be set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PreferredAddresses {
    /// IPv4 address.
    pub v4: Option<SocketAddrV4>,
    /// IPv6 address.
    pub v6: Option<SocketAddrV6>,
}

/// What all connections of one endpoint share.
///
/// `reset_key` and `token_key` may outlive the process; `seed` must be fresh for each, because tokens under an old key must
/// not be sealed with the same randomness twice.
#[derive(Clone)]
pub struct EndpointConfig {
    /// Length of this endpoint's connection IDs, 0 to 20 bytes. 0 only suits a client with one connection per tuple.
    pub cid_len: usize,
    /// Secret that stateless reset tokens are derived from; keep it over restarts so that old connections end at once.
    pub reset_key: [u8; 32],
    /// Secret that address-validation tokens are sealed with.
    pub token_key: [u8; 32],
    /// Seed of everything random in the core: connection IDs, challenges, greasing, skipped packet numbers.
    pub seed: [u8; 32],
}

/// Keys are not printed.
impl std::fmt::Debug for EndpointConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EndpointConfig").field("cid_len", &self.cid_len).finish_non_exhaustive()
    }
}

impl EndpointConfig {
    /// Connection IDs of 8 bytes, all keys derived from `seed`.
    pub fn new(seed: [u8; 32]) -> Self {
        use rand_chacha::rand_core::{RngCore, SeedableRng};
        let mut rng = rand_chacha::ChaCha8Rng::from_seed(seed);
        let mut config = Self { cid_len: 8, reset_key: [0; 32], token_key: [0; 32], seed };
        rng.fill_bytes(&mut config.reset_key);
        rng.fill_bytes(&mut config.token_key);
        rng.fill_bytes(&mut config.seed);
        config
    }
}
