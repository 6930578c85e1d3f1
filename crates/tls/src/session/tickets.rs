//! Separation of session tickets by the QUIC version in which they were issued (RFC 9369 §5), and by the limits
//! under which they permit early data.
//!
//! A ticket belongs to the negotiated version. In another version, a client does not offer it and a server
//! does not accept it. The handshake is then a full one, without 0-RTT.
//!
//! A client also separates tickets by application protocol, so that it knows for which one early data is.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anabranch_wire::Version;
use rustls::NamedGroup;
use rustls::client::{
    ClientSessionMemoryCache, ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue,
};
use rustls::pki_types::ServerName;
use rustls::server::{ProducesTickets, StoresServerSessions};

use super::limits::Limits;

/// Number of tickets of one server that rustls stores. It sizes its cache in tickets.
const TICKETS: usize = 8;

/// Tickets of a client for all versions and application protocols. The connections of a configuration share
/// them.
#[derive(Debug)]
pub(super) struct ClientTickets {
    /// Maximum number of servers whose tickets are stored, for each version and protocol.
    servers: usize,
    caches: Mutex<Caches>,
}

/// Name of an application protocol. A client stores only tickets of protocols that it has offered.
type Protocol = Vec<u8>;

/// Tickets by version and application protocol.
type Caches = BTreeMap<(u32, Option<Protocol>), Arc<ClientSessionMemoryCache>>;

impl ClientTickets {
    pub(super) fn new(servers: usize) -> Arc<Self> {
        Arc::new(Self { servers, caches: Mutex::default() })
    }

    fn of(&self, version: u32, protocol: Option<Protocol>) -> Arc<ClientSessionMemoryCache> {
        let mut caches = self.caches.lock().unwrap_or_else(PoisonError::into_inner);
        let cache = caches.entry((version, protocol));
        Arc::clone(
            cache.or_insert_with(|| {
                Arc::new(ClientSessionMemoryCache::new(self.servers.saturating_mul(TICKETS)))
            }),
        )
    }
}

/// Ticket store of one client connection, restricted to the connection's current version.
#[derive(Debug)]
pub(super) struct VersionTickets {
    tickets: Arc<ClientTickets>,
    version: AtomicU32,
    /// Protocols that the client offers, in order of preference.
    offered: Vec<Protocol>,
    /// Server and protocol of the ticket that the connection has taken.
    resumed: Mutex<Option<(ServerName<'static>, Option<Protocol>)>>,
    /// Protocol that the server has chosen.
    chosen: Mutex<Option<Protocol>>,
}

impl VersionTickets {
    pub(super) fn new(tickets: Arc<ClientTickets>, version: Version, offered: Vec<Protocol>) -> Arc<Self> {
        let version = AtomicU32::new(version.0);
        Arc::new(Self { tickets, version, offered, resumed: Mutex::default(), chosen: Mutex::default() })
    }

    /// Sets the version to which tickets that arrive from now on belong.
    pub(super) fn set_version(&self, version: Version) {
        self.version.store(version.0, Ordering::Relaxed);
    }

    /// Sets the application protocol to which tickets that arrive from now on belong.
    pub(super) fn set_chosen(&self, protocol: Option<&[u8]>) {
        *self.chosen.lock().unwrap_or_else(PoisonError::into_inner) = protocol.map(<[u8]>::to_vec);
    }

    /// Returns whether the connection resumes a session of another protocol than `protocol`.
    pub(super) fn has_resumed_other(&self, protocol: Option<&[u8]>) -> bool {
        let resumed = self.resumed.lock().unwrap_or_else(PoisonError::into_inner);
        let resumed = resumed.as_ref().and_then(|(_, resumed)| resumed.as_deref());
        resumed.is_some_and(|resumed| Some(resumed) != protocol)
    }

    /// Drops the server's other tickets of the protocol that the connection resumes, if the server has chosen `protocol` instead.
    /// Each of them would make a connection with early data fail.
    pub(super) fn forget_other(&self, protocol: Option<&[u8]>) {
        if self.has_resumed_other(protocol)
            && let Some((server, other)) = self.resumed.lock().unwrap_or_else(PoisonError::into_inner).clone()
        {
            let tickets = self.of(other);
            while tickets.take_tls13_ticket(&server).is_some() {}
        }
    }

    fn of(&self, protocol: Option<Protocol>) -> Arc<ClientSessionMemoryCache> {
        self.tickets.of(self.version.load(Ordering::Relaxed), protocol)
    }
}

impl ClientSessionStore for VersionTickets {
    fn set_kx_hint(&self, server_name: ServerName<'static>, group: NamedGroup) {
        self.of(None).set_kx_hint(server_name, group);
    }

    fn kx_hint(&self, server_name: &ServerName<'_>) -> Option<NamedGroup> {
        self.of(None).kx_hint(server_name)
    }

    /// Drops the session, because QUIC does not use TLS 1.2 (RFC 9001 §4.2).
    fn set_tls12_session(&self, _: ServerName<'static>, _: Tls12ClientSessionValue) {}

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        None
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {}

    fn insert_tls13_ticket(&self, server_name: ServerName<'static>, value: Tls13ClientSessionValue) {
        let chosen = self.chosen.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.of(chosen).insert_tls13_ticket(server_name, value);
    }

    fn take_tls13_ticket(&self, server_name: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        let protocols = self.offered.iter().cloned().map(Some).chain([None]);
        protocols.into_iter().find_map(|protocol| {
            let ticket = self.of(protocol.clone()).take_tls13_ticket(server_name)?;
            let resumed = Some((server_name.clone(), protocol));
            *self.resumed.lock().unwrap_or_else(PoisonError::into_inner) = resumed;
            Some(ticket)
        })
    }
}

/// Session cache of a server, restricted to the connections of one version, and to sessions whose limits for
/// early data still hold.
///
/// A client may send early data with every session of this cache, and rustls accepts it before the limits of
/// the session could be compared. A session with a higher limit is therefore not found, and the handshake is
/// a full one, without 0-RTT (RFC 9000 §7.4.1).
#[derive(Debug)]
pub(super) struct VersionSessions {
    pub(super) inner: Arc<dyn StoresServerSessions>,
    pub(super) version: Version,
    /// Limits of the connection.
    pub(super) limits: Limits,
}

impl VersionSessions {
    fn key(&self, mut key: Vec<u8>) -> Vec<u8> {
        key.extend_from_slice(&self.version.0.to_be_bytes());
        key
    }
}

impl StoresServerSessions for VersionSessions {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        self.inner.put(self.key(key), self.limits.bind(&value))
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.limits.release(self.inner.get(&self.key(key.to_vec()))?)
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.limits.release(self.inner.take(&self.key(key.to_vec()))?)
    }

    fn can_cache(&self) -> bool {
        self.inner.can_cache()
    }
}

/// Ticketer for the connections of one QUIC version. It seals the version into each ticket.
#[derive(Debug)]
pub(super) struct VersionTicketer {
    pub(super) inner: Arc<dyn ProducesTickets>,
    pub(super) version: Version,
}

impl ProducesTickets for VersionTicketer {
    fn enabled(&self) -> bool {
        self.inner.enabled()
    }

    fn lifetime(&self) -> u32 {
        self.inner.lifetime()
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.inner.encrypt(&[&self.version.0.to_be_bytes(), plain].concat())
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        let plain = self.inner.decrypt(cipher)?;
        plain.strip_prefix(&self.version.0.to_be_bytes()).map(<[u8]>::to_vec)
    }
}
