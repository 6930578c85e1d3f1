//! Configuration of connections and endpoints. Every setting has a default that suits most users.

mod ack;
mod numbering;
mod validate;

use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6};
use std::sync::Arc;
use std::time::Duration;

use anabranch_recovery as recovery;
use anabranch_tls as tls;
use anabranch_wire::{Version, configuration};
use bytes::Bytes;

pub use self::ack::{AckConfig, AckPath, AckScope, FrequencyRule, Horizon, RangeOrder};
pub use self::numbering::{LossScan, Numbering, NumberingChoice};
use crate::endpoint::LoadBalancing;
use crate::stream::StreamsConfig;

configuration! {
    /// Behaviour of a connection's transport, the same for clients and servers.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use anabranch_transport::TransportConfig;
    /// let config = TransportConfig::default().with_keep_alive(Duration::from_secs(5)).with_max_idle_timeout(None);
    /// assert_eq!(config.keep_alive(), Some(Duration::from_secs(5)));
    /// ```
    ///
    /// Configurations cannot be written as struct literals, because a literal would no longer compile when a
    /// setting is added:
    ///
    /// ```compile_fail,E0451
    /// # use anabranch_transport::TransportConfig;
    /// let config = TransportConfig { keep_alive: None, ..TransportConfig::default() };
    /// ```
    #[derive(Clone, Debug)]
    pub struct TransportConfig {
        /// Stream limits, receive windows, send buffer.
        lend streams, with_streams: StreamsConfig = StreamsConfig::default();
        /// Loss recovery, congestion controller, pacing, ECN, MTU discovery.
        lend recovery, with_recovery: recovery::Config = recovery::Config::default();
        /// Timing, content and path of acknowledgments.
        lend ack, with_ack: AckConfig = AckConfig::default();
        /// Idle timeout, after which the connection is closed silently (RFC 9000 §10.1); `None` disables it.
        into max_idle_timeout, with_max_idle_timeout: Option<Duration> = Some(Duration::from_secs(30));
        /// Maximum duration of the handshake, regardless of received packets. After this time the connection
        /// is closed.
        copy handshake_timeout, with_handshake_timeout: Duration = Duration::from_secs(30);
        /// Time after which a PING is sent if no packet was received and no ack-eliciting packet was sent;
        /// `None` disables these PINGs.
        into keep_alive, with_keep_alive: Option<Duration> = None;
        /// Maximum number of bytes of received DATAGRAM frames kept for the application. The oldest are
        /// dropped first. 0 disables datagrams (RFC 9221).
        copy datagram_receive_buffer, with_datagram_receive_buffer: usize = 1 << 20;
        /// Maximum number of bytes of DATAGRAM frames that wait to be sent.
        copy datagram_send_buffer, with_datagram_send_buffer: usize = 1 << 20;
        /// Number of the peer's connection IDs that this end keeps, 2 to 8 (`active_connection_id_limit`, RFC
        /// 9000 §18.2).
        copy active_connection_id_limit, with_active_connection_id_limit: u64 = 5;
        /// Versions in order of preference (RFC 9368). A client's first flight uses `initial_version` of
        /// [`ClientConfig`].
        lend versions, with_versions: Vec<Version> => [Version] = vec![Version::V1, Version::V2];
        /// `true` if reserved values that peers must ignore are sent: fixed bit (RFC 9287), transport
        /// parameters, versions.
        copy grease, with_grease: bool = true;
        /// Maximum UDP payload that this end accepts, at least 1200 bytes (`max_udp_payload_size`, RFC 9000
        /// §18.2).
        copy max_udp_payload_size, with_max_udp_payload_size: u16 = 65_527;
        /// `true` if the connection may migrate to other addresses (RFC 9000 §9). A server accepts its
        /// clients' migrations. A client without a fixed local address migrates when its host's addresses or
        /// routes change, or when its network falls silent and another one works.
        copy migration, with_migration: bool = true;
        /// Use of several paths at once (RFC 10069); `None` uses one path only.
        option multipath, with_multipath: MultipathConfig = None;
        /// Number of packets after which this end updates its keys; with `None` only the AEAD's limit
        /// triggers updates.
        into key_update_after, with_key_update_after: Option<u64> = None;
        /// `true` if 1-RTT packet numbers are skipped, about one per congestion window, to detect a peer that
        /// acknowledges packets it did not receive (RFC 9000 §21.4). Each skipped number is a gap in the
        /// peer's acknowledgments until the peer no longer reports numbers that old. `docs/performance.md`
        /// has the cost.
        copy skip_packet_numbers, with_skip_packet_numbers: bool = true;
        /// Rule for replacing this end's connection IDs by age and use. With `None` they are replaced only
        /// when a path migrates. Each replacement costs some hundred bytes.
        into cid_rotation, with_cid_rotation: Option<CidRotation> = Some(CidRotation::default());
        /// Test hooks that make this end misbehave.
        #[cfg(test)]
        inner hooks, with_hooks: Hooks = Hooks::default();
    }
}

/// Age and packet count after which connection IDs of this end are replaced: the peer is asked to use new
/// ones (RFC 9000 §5.1.1, §9.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CidRotation {
    pub(crate) max_age: Duration,
    pub(crate) max_packets: u64,
}

impl CidRotation {
    /// Creates the rule that connection IDs are replaced at age `max_age` or after `max_packets` packets.
    pub const fn new(max_age: Duration, max_packets: u64) -> Self {
        Self { max_age, max_packets }
    }

    /// Returns the age at which connection IDs are replaced. The age is checked only when a packet is
    /// received.
    pub const fn max_age(&self) -> Duration {
        self.max_age
    }

    /// Returns the number of 1-RTT packets received on a path after which the path's connection IDs are
    /// replaced.
    pub const fn max_packets(&self) -> u64 {
        self.max_packets
    }
}

impl Default for CidRotation {
    /// Returns one hour or 2^24 packets: rare enough that the cost cannot be measured.
    fn default() -> Self {
        Self::new(Duration::from_secs(3600), 1 << 24)
    }
}

/// Changes to an endpoint's handshake messages, for tests of its peer.
#[cfg(test)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hooks {
    /// Edits the transport parameters before they are sent.
    pub(crate) parameters: Option<fn(&mut anabranch_wire::TransportParameters)>,
    /// Edits the handshake bytes of a level before they are sent.
    pub(crate) crypto: Option<fn(anabranch_wire::SpaceId, &mut Vec<u8>)>,
}

configuration! {
    /// Use of several paths at once (RFC 10069), if the peer supports it.
    #[derive(Clone, Debug)]
    pub struct MultipathConfig {
        /// Maximum number of paths that are open at the same time, 1 to [`MAX_PATHS`].
        copy max_paths, with_max_paths: u32 = 4;
        /// Scheduler that chooses the path of the next packet.
        copy scheduler, with_scheduler: crate::schedule::Algorithm = crate::schedule::Algorithm::Confluence;
        /// Time after which a failing path is abandoned if another one works; `None` disables this. A path
        /// without traffic is probed after the same time while the connection is in use, so a dead path is
        /// detected.
        into path_idle_timeout, with_path_idle_timeout: Option<Duration> = Some(Duration::from_secs(30));
        /// Silence after which a PING is sent on a path, so that middleboxes keep their state for it; `None`
        /// disables these PINGs. They keep the whole connection alive as well.
        into path_keep_alive, with_path_keep_alive: Option<Duration> = None;
        /// Numbering of the packets of several paths. If one end uses zero-length connection IDs, only the
        /// single number space is possible.
        into numbering, with_numbering: NumberingChoice = NumberingChoice::default();
        /// Range of the search for lost packets when paths share a packet number space.
        copy loss_scan, with_loss_scan: LossScan = LossScan::Path;
        /// `true` if the peer is informed of failing paths with PATH_STATUS_BACKUP, so that it need not
        /// detect them.
        copy path_signalling, with_path_signalling: bool = true;
    }
}

/// Maximum number of paths that a connection may have open at the same time.
pub const MAX_PATHS: u32 = 64;

configuration! {
    /// Client configuration. By default it uses the given TLS settings, the default transport configuration,
    /// and QUIC v1 for the first flight.
    #[derive(Clone, Debug)]
    pub struct ClientConfig: new(tls: tls::ClientConfig) {
        /// TLS: trusted roots, ALPN, resumption, early data.
        lend tls, with_tls: tls::ClientConfig = tls;
        /// Transport behaviour.
        lend transport, with_transport: Arc<TransportConfig> = Arc::default();
        /// Version of the first flight.
        copy initial_version, with_initial_version: Version = Version::V1;
        /// Token from an earlier connection's NEW_TOKEN frame; empty if there is none.
        lend token, with_token: Bytes = Bytes::new();
    }
}

configuration! {
    /// Server configuration. By default it uses the given TLS settings and the default transport
    /// configuration, and sends Retry only under load.
    #[derive(Clone, Debug)]
    pub struct ServerConfig: new(tls: tls::ServerConfig) {
        /// TLS: certificate, ALPN, tickets, early data.
        lend tls, with_tls: tls::ServerConfig = tls;
        /// Transport behaviour.
        lend transport, with_transport: Arc<TransportConfig> = Arc::default();
        /// Policy for when clients must prove their address with a Retry.
        copy retry, with_retry: RetryPolicy = RetryPolicy::UnderLoad;
        /// Addresses to which clients are asked to migrate after the handshake (RFC 9000 §9.6).
        into preferred_address, with_preferred_address: Option<PreferredAddresses> = None;
        /// Further addresses of the server that are announced to multipath clients, at most 16
        /// (draft-munizaga-quic-alternative-server-address).
        lend alternative_addresses, with_alternative_addresses: Vec<SocketAddr> => [SocketAddr] = Vec::new();
        /// Maximum number of connections, open or in their handshakes, at the same time. Further ones are
        /// refused.
        copy max_connections, with_max_connections: usize = 65_536;
        /// Maximum number of clients whose handshake is not complete, accepted by the application or not. At
        /// this limit, a further client gets a Retry unless the policy is [`RetryPolicy::Never`]. A client
        /// that needs no Retry, or has followed one, is refused.
        copy max_incoming, with_max_incoming: usize = 1_024;
        /// Number of tokens for later connections that are sent after the handshake (NEW_TOKEN).
        copy new_tokens, with_new_tokens: u64 = 1;
        /// Validity of a Retry token.
        copy retry_token_lifetime, with_retry_token_lifetime: Duration = Duration::from_secs(15);
        /// Validity of a NEW_TOKEN token.
        copy new_token_lifetime, with_new_token_lifetime: Duration = Duration::from_secs(7 * 24 * 3600);
    }
}

/// Policy for when a server answers a first Initial with a Retry (RFC 9000 §8.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RetryPolicy {
    /// No Retry at all.
    Never,
    /// Retry while more than half of `max_incoming` handshakes are not complete.
    UnderLoad,
    /// Retry for every client without a valid token.
    Always,
}

/// A server's preferred addresses (RFC 9000 §9.6). At least one should be set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PreferredAddresses {
    /// IPv4 address.
    pub v4: Option<SocketAddrV4>,
    /// IPv6 address.
    pub v6: Option<SocketAddrV6>,
}

impl PreferredAddresses {
    /// Creates preferred addresses.
    pub const fn new(v4: Option<SocketAddrV4>, v6: Option<SocketAddrV6>) -> Self {
        Self { v4, v6 }
    }
}

/// Configuration that all connections of one endpoint share.
///
/// `reset_key` and `token_key` may outlive the process. `seed` must be fresh for each process: otherwise two
/// tokens could be sealed with the same key and the same randomness.
#[derive(Clone)]
pub struct EndpointConfig {
    pub(crate) cid_len: usize,
    pub(crate) load_balancing: Option<LoadBalancing>,
    pub(crate) reset_key: [u8; 32],
    pub(crate) token_key: [u8; 32],
    pub(crate) earlier_token_keys: Vec<[u8; 32]>,
    pub(crate) seed: [u8; 32],
}

/// Prints the configuration without its keys.
impl std::fmt::Debug for EndpointConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EndpointConfig")
            .field("cid_len", &self.cid_len)
            .field("load_balancing", &self.load_balancing)
            .finish_non_exhaustive()
    }
}

impl EndpointConfig {
    /// Creates a configuration with connection IDs of 8 bytes and all keys derived from `seed`.
    pub fn new(seed: [u8; 32]) -> Self {
        use rand_chacha::rand_core::{RngCore, SeedableRng};
        let mut rng = rand_chacha::ChaCha8Rng::from_seed(seed);
        let mut config = Self {
            cid_len: 8,
            load_balancing: None,
            reset_key: [0; 32],
            token_key: [0; 32],
            earlier_token_keys: Vec::new(),
            seed,
        };
        rng.fill_bytes(&mut config.reset_key);
        rng.fill_bytes(&mut config.token_key);
        rng.fill_bytes(&mut config.seed);
        config
    }

    /// Returns the length of this endpoint's connection IDs in bytes.
    pub fn cid_len(&self) -> usize {
        self.cid_len
    }

    /// Sets the length of this endpoint's connection IDs, 0 to 20 bytes. 0 suits only a client with one
    /// connection per four-tuple.
    #[must_use]
    pub fn with_cid_len(mut self, bytes: usize) -> Self {
        self.cid_len = bytes;
        self
    }

    /// Returns the configuration of QUIC-LB by which connection IDs name this server.
    pub fn load_balancing(&self) -> Option<&LoadBalancing> {
        self.load_balancing.as_ref()
    }

    /// Sets the configuration of QUIC-LB by which connection IDs name this server, so that a load balancer routes all packets of a
    /// connection to it, on every path and after every migration (draft-ietf-quic-load-balancers-21). Connection IDs get the length
    /// that the configuration needs if theirs is shorter; bytes beyond it are random.
    ///
    /// A connection ID of another server is not answered by a stateless reset, unless the configuration allows it. Servers behind
    /// one load balancer share the secrets of [`Self::with_reset_key`] and [`Self::with_token_key`], but never the seed.
    #[must_use]
    pub fn with_load_balancing(mut self, config: LoadBalancing) -> Self {
        self.cid_len = self.cid_len.max(config.cid_len());
        self.load_balancing = Some(config);
        self
    }

    /// Sets the secret from which stateless reset tokens are derived. Keep it across restarts, so that
    /// stateless resets end connections from before a restart at once.
    #[must_use]
    pub fn with_reset_key(mut self, key: [u8; 32]) -> Self {
        self.reset_key = key;
        self
    }

    /// Returns the secrets that may outlive the process: those of stateless reset tokens and of address validation tokens.
    pub fn lasting_keys(&self) -> [[u8; 32]; 2] {
        [self.reset_key, self.token_key]
    }

    /// Sets the secret that seals address validation tokens. Servers with the same secret accept each other's tokens.
    #[must_use]
    pub fn with_token_key(mut self, key: [u8; 32]) -> Self {
        self.token_key = key;
        self
    }

    /// Sets further secrets whose tokens are accepted, at most 7: those from before a change of the secret, and the next one, while
    /// other servers have changed it already.
    #[must_use]
    pub fn with_earlier_token_keys(mut self, keys: impl Into<Vec<[u8; 32]>>) -> Self {
        self.earlier_token_keys = keys.into();
        self
    }

    /// Accepts the tokens of a further secret, unless there are 7 further ones already.
    #[must_use]
    pub fn with_accepted_token_key(mut self, key: [u8; 32]) -> Self {
        let is_known = self.token_key == key || self.earlier_token_keys.contains(&key);
        if !is_known && self.earlier_token_keys.len() < validate::MAX_EARLIER_TOKEN_KEYS {
            self.earlier_token_keys.push(key);
        }
        self
    }

    /// Sets the seed of all random values of the core: connection IDs, challenges, greasing, skipped packet
    /// numbers.
    #[must_use]
    pub fn with_seed(mut self, seed: [u8; 32]) -> Self {
        self.seed = seed;
        self
    }
}
