//! Configuration of connections and endpoints; every setting has a default that suits most users.

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
    /// A literal would break with the next setting that is added, so there is none, of this or any other
    /// configuration:
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
        /// Rules for when acknowledgments are sent.
        lend ack, with_ack: AckConfig = AckConfig::default();
        /// Close silently after this long without a packet (RFC 9000 §10.1); `None` never.
        into max_idle_timeout, with_max_idle_timeout: Option<Duration> = Some(Duration::from_secs(30));
        /// Give up when the handshake takes longer than this, however much is received.
        copy handshake_timeout, with_handshake_timeout: Duration = Duration::from_secs(30);
        /// Send a PING when nothing was sent or received for this long; `None` never.
        into keep_alive, with_keep_alive: Option<Duration> = None;
        /// Bytes of received DATAGRAM frames kept for the application, the oldest dropped first; 0 turns RFC
        /// 9221 off.
        copy datagram_receive_buffer, with_datagram_receive_buffer: usize = 1 << 20;
        /// Bytes of DATAGRAM frames waiting to be sent.
        copy datagram_send_buffer, with_datagram_send_buffer: usize = 1 << 20;
        /// Connection IDs of the peer that this end keeps (RFC 9000 §18.2 `active_connection_id_limit`), 2 to
        /// 8.
        copy active_connection_id_limit, with_active_connection_id_limit: u64 = 5;
        /// Versions in order of preference (RFC 9368). A client's first flight uses `initial_version` of
        /// [`ClientConfig`].
        lend versions, with_versions: Vec<Version> => [Version] = vec![Version::V1, Version::V2];
        /// Send reserved values that peers must ignore: fixed bit (RFC 9287), transport parameters, versions.
        copy grease, with_grease: bool = true;
        /// Largest UDP payload that this end is willing to receive, at least 1200.
        copy max_udp_payload_size, with_max_udp_payload_size: u16 = 65_527;
        /// Go on at other addresses (RFC 9000 §9): a server follows clients that move, and lets them; a
        /// client that was not told where to begin moves when its host's addresses or routes change, or when
        /// its network falls silent and another one works.
        copy migration, with_migration: bool = true;
        /// Several paths at once (RFC 10069); `None` leaves it at one.
        option multipath, with_multipath: MultipathConfig = None;
        /// Update keys by ourselves after this many packets; `None` leaves only the AEAD's own limit.
        into key_update_after, with_key_update_after: Option<u64> = None;
        /// Leave out a 1-RTT packet number now and then, about once a congestion window, so that a peer that
        /// acknowledges what it did not receive is found out (RFC 9000 §21.4). Each is a gap in the peer's
        /// acknowledgments until it is old enough to be named no more: `docs/performance.md` says what that
        /// costs.
        copy skip_packet_numbers, with_skip_packet_numbers: bool = true;
        /// Change this end's connection IDs by age and use; `None` never, unless a path moves. It costs some
        /// hundred bytes each time.
        into cid_rotation, with_cid_rotation: Option<CidRotation> = Some(CidRotation::default());
        /// Test hooks that make this end misbehave.
        #[cfg(test)]
        inner hooks, with_hooks: Hooks = Hooks::default();
    }
}

/// Age and packet count at which connection IDs of this end are old. The peer is then asked to use new ones
/// (RFC 9000 §5.1.1, §9.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CidRotation {
    pub(crate) max_age: Duration,
    pub(crate) max_packets: u64,
}

impl CidRotation {
    /// Creates the rule for connection IDs that are old at this age, or after this many packets.
    pub const fn new(max_age: Duration, max_packets: u64) -> Self {
        Self { max_age, max_packets }
    }

    /// Returns the age at which connection IDs are old. It is checked when the next packet is received.
    pub const fn max_age(&self) -> Duration {
        self.max_age
    }

    /// Returns the number of 1-RTT packets received on a path after which the path's connection IDs are old.
    pub const fn max_packets(&self) -> u64 {
        self.max_packets
    }
}

impl Default for CidRotation {
    /// Returns an hour or 2^24 packets: rare enough that the cost cannot be measured.
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

configuration! {
    /// Several paths at once (RFC 10069), if the peer wants them, too.
    #[derive(Clone, Debug)]
    pub struct MultipathConfig {
        /// Paths that may be open at the same time, 1 to [`MAX_PATHS`].
        copy max_paths, with_max_paths: u32 = 4;
        /// Scheduler that chooses the path of the next packet.
        copy scheduler, with_scheduler: crate::schedule::Algorithm = crate::schedule::Algorithm::Confluence;
        /// Give up a path that has been failing for this long while another one works; `None` never. A path
        /// without traffic is asked for a sign of life after as long, as long as the connection is in use,
        /// and so found out if it is dead.
        into path_idle_timeout, with_path_idle_timeout: Option<Duration> = Some(Duration::from_secs(30));
        /// Send a PING on each path that has been silent for this long, so that the network does not forget
        /// it; `None` never. It keeps the whole connection alive, too.
        into path_keep_alive, with_path_keep_alive: Option<Duration> = None;
        /// Numbering of the packets of several paths. Without connection IDs at one of the ends, only the
        /// single number space can be used.
        into numbering, with_numbering: NumberingChoice = NumberingChoice::default();
        /// Range of the search for lost packets when paths share a packet number space.
        copy loss_scan, with_loss_scan: LossScan = LossScan::Path;
        /// Tell the peer with PATH_STATUS_BACKUP of paths that fail, so that it need not find out by itself.
        copy path_signalling, with_path_signalling: bool = true;
    }
}

/// Most paths that a connection may have open at the same time.
pub const MAX_PATHS: u32 = 64;

configuration! {
    /// Client configuration. By default it uses the given TLS settings, the default transport and QUIC v1
    /// first.
    #[derive(Clone, Debug)]
    pub struct ClientConfig: new(tls: tls::ClientConfig) {
        /// TLS: trusted roots, ALPN, resumption, early data.
        lend tls, with_tls: tls::ClientConfig = tls;
        /// Transport behaviour.
        lend transport, with_transport: Arc<TransportConfig> = Arc::default();
        /// Version of the first flight.
        copy initial_version, with_initial_version: Version = Version::V1;
        /// A token from an earlier connection's NEW_TOKEN frame; empty for none.
        lend token, with_token: Bytes = Bytes::new();
    }
}

configuration! {
    /// Server configuration. By default it uses the given TLS settings and the default transport, and sends
    /// Retry only under load.
    #[derive(Clone, Debug)]
    pub struct ServerConfig: new(tls: tls::ServerConfig) {
        /// TLS: certificate, ALPN, tickets, early data.
        lend tls, with_tls: tls::ServerConfig = tls;
        /// Transport behaviour.
        lend transport, with_transport: Arc<TransportConfig> = Arc::default();
        /// Policy for when clients must prove their address with a Retry.
        copy retry, with_retry: RetryPolicy = RetryPolicy::UnderLoad;
        /// Addresses that clients are asked to move to after the handshake (RFC 9000 §9.6).
        into preferred_address, with_preferred_address: Option<PreferredAddresses> = None;
        /// Further addresses of the server that multipath clients are told of, at most 16
        /// (draft-munizaga-quic-alternative-server-address).
        lend alternative_addresses, with_alternative_addresses: Vec<SocketAddr> => [SocketAddr] = Vec::new();
        /// Connections in handshake or open at the same time; more are refused.
        copy max_connections, with_max_connections: usize = 65_536;
        /// Handshakes that the application has not accepted yet; more get a Retry, then are refused.
        copy max_incoming, with_max_incoming: usize = 1_024;
        /// Tokens for later connections sent after the handshake (NEW_TOKEN).
        copy new_tokens, with_new_tokens: u64 = 1;
        /// Time for which a Retry token is valid.
        copy retry_token_lifetime, with_retry_token_lifetime: Duration = Duration::from_secs(15);
        /// Time for which a NEW_TOKEN token is valid.
        copy new_token_lifetime, with_new_token_lifetime: Duration = Duration::from_secs(7 * 24 * 3600);
    }
}

/// Policy for when a server answers a first Initial with a Retry (RFC 9000 §8.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
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

/// Configuration that all connections of one endpoint share.
///
/// `reset_key` and `token_key` may outlive the process. `seed` must be fresh for each process, because tokens
/// under an old key must not be sealed with the same randomness twice.
#[derive(Clone)]
pub struct EndpointConfig {
    pub(crate) cid_len: usize,
    pub(crate) reset_key: [u8; 32],
    pub(crate) token_key: [u8; 32],
    pub(crate) seed: [u8; 32],
}

/// Keys are not printed.
impl std::fmt::Debug for EndpointConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EndpointConfig").field("cid_len", &self.cid_len).finish_non_exhaustive()
    }
}

impl EndpointConfig {
    /// Creates a configuration with connection IDs of 8 bytes and all keys derived from `seed`.
    pub fn new(seed: [u8; 32]) -> Self {
        use rand_chacha::rand_core::{RngCore, SeedableRng};
        let mut rng = rand_chacha::ChaCha8Rng::from_seed(seed);
        let mut config = Self { cid_len: 8, reset_key: [0; 32], token_key: [0; 32], seed };
        rng.fill_bytes(&mut config.reset_key);
        rng.fill_bytes(&mut config.token_key);
        rng.fill_bytes(&mut config.seed);
        config
    }

    /// Returns the length of this endpoint's connection IDs in bytes.
    pub fn cid_len(&self) -> usize {
        self.cid_len
    }

    /// Sets the length of this endpoint's connection IDs, 0 to 20 bytes. 0 only suits a client with one
    /// connection per tuple.
    #[must_use]
    pub fn with_cid_len(mut self, bytes: usize) -> Self {
        self.cid_len = bytes;
        self
    }

    /// Sets the secret that stateless reset tokens are derived from; keep it over restarts so that old
    /// connections end at once.
    #[must_use]
    pub fn with_reset_key(mut self, key: [u8; 32]) -> Self {
        self.reset_key = key;
        self
    }

    /// Sets the secret that address-validation tokens are sealed with.
    #[must_use]
    pub fn with_token_key(mut self, key: [u8; 32]) -> Self {
        self.token_key = key;
        self
    }

    /// Sets the seed of everything random in the core: connection IDs, challenges, greasing, skipped packet
    /// numbers.
    #[must_use]
    pub fn with_seed(mut self, seed: [u8; 32]) -> Self {
        self.seed = seed;
        self
    }
}
