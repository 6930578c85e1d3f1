//! The proxy: who may open which tunnels.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use anabranch_wire::configuration;
use http::HeaderMap;
use http::request::Parts;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::access::Access;
use super::dial::{Dialer, Resolve, SystemResolver};
use super::flow::{Facts, Flow, Observer, Outcome, Record};
use super::limits::{Place, UserState};
use super::refusal::{Cause, Refusal};
use super::target::{self, Carried};
use super::tunnel::Tunnel;
use super::udp::UdpFlow;
use super::users::{Users, Verifier};
use crate::lock::lock;
use crate::proxy::client::Target;

/// Name of clients without credentials, if they are allowed. No user has it.
const ANYONE: &str = "*";

configuration! {
    /// Settings of a proxy.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ProxyOptions {
        /// Maximum number of tunnels of all users.
        copy max_flows, with_max_flows: usize = 65_536;
        /// Maximum time to resolve a name.
        copy resolve_timeout, with_resolve_timeout: Duration = Duration::from_secs(5);
        /// Maximum time to connect to a target, over all of its addresses.
        copy connect_timeout, with_connect_timeout: Duration = Duration::from_secs(10);
        /// Time without datagrams after which a UDP flow ends; RFC 9298 §3.1 recommends at least two minutes.
        copy udp_idle, with_udp_idle: Duration = Duration::from_secs(120);
    }
}

/// Proxy that opens tunnels for its users. Clones are cheap and share everything.
#[derive(Clone)]
pub struct Proxy(Arc<Shared>);

struct Shared {
    options: ProxyOptions,
    policy: RwLock<Arc<Policy>>,
    /// Users by name, also those that the policy no longer has.
    states: Mutex<BTreeMap<String, Arc<UserState>>>,
    verifier: Verifier,
    dialer: Dialer,
    observer: Option<Arc<dyn Observer>>,
    /// Permits, one for each tunnel that may be open.
    flows: Arc<Semaphore>,
    max_flows: u32,
}

/// Part of the configuration that can be replaced while the proxy runs.
struct Policy {
    users: Users,
    access: Access,
}

/// Request for a tunnel.
pub struct Asked {
    carried: Carried,
    target: Result<Target, Refusal>,
    fields: HeaderMap,
    facts: Facts,
}

/// Totals of a user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct UserTotals {
    /// Number of open tunnels.
    pub flows: usize,
    /// Bytes of payload from clients to targets.
    pub sent: u64,
    /// Bytes of payload from targets to clients.
    pub received: u64,
    /// Number of datagrams that were dropped.
    pub dropped: u64,
}

impl Proxy {
    /// Creates a proxy for these users.
    ///
    /// # Errors
    /// Fails if the system has no randomness.
    pub fn new(options: ProxyOptions, users: Users, access: Access) -> std::io::Result<Self> {
        let dialer = Dialer {
            resolver: Arc::new(SystemResolver::new()),
            resolve_timeout: options.resolve_timeout,
            connect_timeout: options.connect_timeout,
        };
        let max_flows = u32::try_from(options.max_flows).unwrap_or(u32::MAX);
        let flows = Arc::new(Semaphore::new(Semaphore::MAX_PERMITS.min(max_flows as usize)));
        Ok(Self(Arc::new(Shared {
            options,
            policy: RwLock::new(Arc::new(Policy { users, access })),
            states: Mutex::default(),
            verifier: Verifier::new()?,
            dialer,
            observer: None,
            flows,
            max_flows,
        })))
    }

    /// Returns the proxy with another resolver. It has effect before the proxy is cloned.
    #[must_use]
    pub fn with_resolver(mut self, resolver: Arc<dyn Resolve>) -> Self {
        if let Some(shared) = Arc::get_mut(&mut self.0) {
            shared.dialer.resolver = resolver;
        }
        self
    }

    /// Returns the proxy with a receiver of records. It has effect before the proxy is cloned.
    #[must_use]
    pub fn with_observer(mut self, observer: Arc<dyn Observer>) -> Self {
        if let Some(shared) = Arc::get_mut(&mut self.0) {
            shared.observer = Some(observer);
        }
        self
    }

    /// Replaces users and access list. Open tunnels remain.
    pub fn replace(&self, users: Users, access: Access) {
        *self.0.policy.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(Policy { users, access });
    }

    /// Waits until all tunnels have ended and their records are made. Tunnels that are requested meanwhile are refused.
    pub async fn drained(&self) {
        // The semaphore is never closed.
        let _ = self.0.flows.acquire_many(self.0.max_flows).await;
    }

    /// Returns what each user has done so far, by name; `*` are clients without credentials.
    pub fn totals(&self) -> BTreeMap<String, UserTotals> {
        let of = |state: &UserState| UserTotals {
            flows: state.flows(),
            sent: state.sent.load(Ordering::Relaxed),
            received: state.received.load(Ordering::Relaxed),
            dropped: state.dropped.load(Ordering::Relaxed),
        };
        lock(&self.0.states).iter().map(|(name, state)| (name.clone(), of(state))).collect()
    }

    /// Returns the tunnel that a request asks for; `None` if the request is for something else. `protocol` is the protocol of
    /// an extended CONNECT (RFC 8441, RFC 9220), or of an upgrade in HTTP/1.1.
    pub fn asked(&self, parts: &Parts, protocol: Option<&str>, client: SocketAddr) -> Option<Asked> {
        let carried = target::carried(parts, protocol)?;
        let target = target::target(parts, carried);
        let record = Record {
            user: None,
            client,
            version: parts.version,
            carried,
            target: target.as_ref().ok().map(ToString::to_string),
            address: None,
            sent: 0,
            received: 0,
            dropped: 0,
            duration: Duration::ZERO,
            outcome: Outcome::Complete,
        };
        let facts = Facts { begun: Instant::now(), record };
        Some(Asked { carried, target, fields: parts.headers.clone(), facts })
    }

    /// Opens a tunnel: authenticates the user, checks the target, and connects to it.
    ///
    /// # Errors
    /// Fails with the reason, whose response the client receives.
    pub async fn open(&self, mut asked: Asked) -> Result<Tunnel, Refusal> {
        let opened = self.connect(&mut asked).await;
        match opened {
            Ok(reached) => Ok(self.tunnel(asked.facts, reached)),
            Err(refusal) => {
                let Facts { begun, mut record } = asked.facts;
                record.outcome = Outcome::Refused(refusal.cause());
                record.duration = begun.elapsed();
                self.0.observer.iter().for_each(|observer| observer.ended(&record));
                Err(refusal)
            }
        }
    }

    async fn connect(&self, asked: &mut Asked) -> Result<Reached, Refusal> {
        let policy = Arc::clone(&self.0.policy.read().unwrap_or_else(PoisonError::into_inner));
        let place = self.admit(&policy.users, asked).await?;
        let target = asked.target.clone()?;
        let flows = Arc::clone(&self.0.flows).try_acquire_owned();
        let permit = flows.map_err(|_| Refusal::new(Cause::Limit, "the proxy has too many flows"))?;
        let addresses = self.0.dialer.addresses(&target, &policy.access).await?;
        let (socket, address) = match asked.carried {
            Carried::Tcp => {
                let (stream, address) = self.0.dialer.tcp(addresses).await?;
                (Socket::Tcp(stream), address)
            }
            Carried::Udp => {
                let (socket, address) = self.0.dialer.udp(addresses).await?;
                (Socket::Udp(socket), address)
            }
        };
        asked.facts.record.address = Some(address);
        Ok(Reached { socket, address, place, permit })
    }

    /// Authenticates the user, and takes a place for the flow.
    async fn admit(&self, users: &Users, asked: &mut Asked) -> Result<Place, Refusal> {
        let client = asked.facts.record.client;
        let (name, limits) = match users.anyone() {
            Some(limits) => (ANYONE, limits),
            None => {
                let verified =
                    self.0.verifier.verify(users, &asked.fields, asked.carried, client.ip()).await?;
                (verified.name(), verified.limits())
            }
        };
        asked.facts.record.user = Some(name.to_owned());
        let state = Arc::clone(lock(&self.0.states).entry(name.to_owned()).or_default());
        state.enter(limits, client)
    }

    fn tunnel(&self, facts: Facts, reached: Reached) -> Tunnel {
        let Reached { socket, address, place, permit } = reached;
        let flow = Flow::new(facts, place, self.0.observer.clone(), permit);
        match socket {
            Socket::Tcp(stream) => Tunnel::tcp(stream, address, flow),
            Socket::Udp(socket) => {
                let flow = UdpFlow { socket, flow: Arc::new(flow), idle: self.0.options.udp_idle };
                Tunnel::udp(flow, address)
            }
        }
    }
}

/// A target that was reached.
struct Reached {
    socket: Socket,
    address: SocketAddr,
    place: Place,
    permit: tokio::sync::OwnedSemaphorePermit,
}

enum Socket {
    Tcp(tokio::net::TcpStream),
    Udp(tokio::net::UdpSocket),
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy").field("options", &self.0.options).finish_non_exhaustive()
    }
}
