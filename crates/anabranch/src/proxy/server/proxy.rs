//! The proxy, which authenticates users, checks targets and opens tunnels.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use anabranch_wire::configuration;
use http::request::Parts;
use http::{HeaderMap, Version};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::access::Access;
use super::dial::{Dialer, Resolve, SystemResolver};
use super::flow::{Facts, Flow, Observer, Outcome, Pending, Record};
use super::ip::{IpFlow, IpNetwork};
use super::limits::{Place, UserState};
use super::refusal::{Cause, Refusal};
use super::target::{self, Carried};
use super::tunnel::Tunnel;
use super::udp::UdpFlow;
use super::users::{KnownUser, Users, Verifier};
use crate::lock::lock;
use crate::proxy::FlowTerms;
use crate::proxy::client::Target;
use crate::sync::{Mutex, RwLock};

/// Maximum of the times in [`ProxyOptions`]; longer ones are reduced to it.
const MAX_TIME: Duration = Duration::from_secs(365 * 86_400);
/// Name of the user of clients without credentials, if such clients are allowed. No configured user has this name.
const ANYONE: &str = "*";

configuration! {
    /// Settings of a proxy. Times of more than a year count as a year.
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
    /// State of each user who has opened a tunnel, by name. It is kept when the user is removed from the policy.
    states: Mutex<BTreeMap<String, Arc<UserState>>>,
    verifier: Verifier,
    dialer: Dialer,
    observer: Option<Arc<dyn Observer>>,
    network: Option<IpNetwork>,
    /// Permits, one for each tunnel that may be open at the same time.
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
    target: Result<Option<Target>, Refusal>,
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
    /// Number of datagrams and IP packets that were dropped.
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
            resolve_timeout: options.resolve_timeout.min(MAX_TIME),
            connect_timeout: options.connect_timeout.min(MAX_TIME),
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
            network: None,
            flows,
            max_flows,
        })))
    }

    /// Returns the proxy with another resolver. Has no effect if the proxy was cloned before.
    #[must_use]
    pub fn with_resolver(mut self, resolver: Arc<dyn Resolve>) -> Self {
        if let Some(shared) = Arc::get_mut(&mut self.0) {
            shared.dialer.resolver = resolver;
        }
        self
    }

    /// Returns the proxy with a receiver of records. Has no effect if the proxy was cloned before.
    #[must_use]
    pub fn with_observer(mut self, observer: Arc<dyn Observer>) -> Self {
        if let Some(shared) = Arc::get_mut(&mut self.0) {
            shared.observer = Some(observer);
        }
        self
    }

    /// Returns the proxy with a network to which it forwards IP packets (RFC 9484). Has no effect if the proxy was cloned before.
    #[must_use]
    pub fn with_network(mut self, network: IpNetwork) -> Self {
        if let Some(shared) = Arc::get_mut(&mut self.0) {
            shared.network = Some(network);
        }
        self
    }

    /// Returns the network to which the proxy forwards IP packets, if there is one.
    pub fn network(&self) -> Option<&IpNetwork> {
        self.0.network.as_ref()
    }

    fn policy(&self) -> Arc<Policy> {
        Arc::clone(&self.0.policy.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces users and access list. Open tunnels remain; those for IP packets follow the new access list.
    pub fn replace(&self, users: Users, access: Access) {
        *self.0.policy.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(Policy { users, access });
    }

    /// Waits until all tunnels have ended and their records were passed to the observer. Refuses tunnels that are requested
    /// meanwhile.
    pub async fn drained(&self) {
        // The semaphore is never closed.
        let _ = self.0.flows.acquire_many(self.0.max_flows).await;
    }

    /// Returns the totals of each user so far, by name; `*` is the name for clients without credentials.
    pub fn totals(&self) -> BTreeMap<String, UserTotals> {
        let of = |state: &UserState| UserTotals {
            flows: state.flows(),
            sent: state.sent.load(Ordering::Relaxed),
            received: state.received.load(Ordering::Relaxed),
            dropped: state.dropped.load(Ordering::Relaxed),
        };
        lock(&self.0.states).iter().map(|(name, state)| (name.clone(), of(state))).collect()
    }

    /// Returns the tunnel that a request asks for; `None` if the request is not for a tunnel. `protocol` is the protocol of an
    /// extended CONNECT (RFC 8441, RFC 9220), or of an upgrade in HTTP/1.1.
    pub fn asked(&self, parts: &Parts, protocol: Option<&str>, client: SocketAddr) -> Option<Asked> {
        let carried = target::carried(parts, protocol)?;
        let target = target::target(parts, carried);
        let record = Record {
            user: parts.extensions.get::<KnownUser>().map(|known| known.name().to_owned()),
            client,
            version: parts.version,
            carried,
            target: target.as_ref().ok().and_then(Option::as_ref).map(ToString::to_string),
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
    /// Fails with the reason of the refusal; [`Refusal::response`] is the response to the client.
    pub async fn open(&self, asked: Asked) -> Result<Tunnel, Refusal> {
        let Asked { carried, target, fields, facts } = asked;
        let mut pending = Pending::new(facts, self.0.observer.clone());
        let record = &mut pending.facts.record;
        // Copies and deadlines need the DATAGRAM frames of HTTP/3.
        let is_http3 = record.version == Version::HTTP_3;
        let terms = if is_http3 { FlowTerms::of(&fields) } else { FlowTerms::default() };
        let opened = self.connect(carried, target, &fields, record).await;
        match opened {
            Ok(reached) => Ok(self.tunnel(pending.opened(), reached, terms)),
            Err(refusal) => {
                pending.refused(refusal.cause());
                Err(refusal)
            }
        }
    }

    async fn connect(
        &self,
        carried: Carried,
        target: Result<Option<Target>, Refusal>,
        fields: &HeaderMap,
        record: &mut Record,
    ) -> Result<Reached, Refusal> {
        let policy = self.policy();
        let place = self.admit(&policy.users, fields, record).await?;
        let target = target?;
        let flows = Arc::clone(&self.0.flows).try_acquire_owned();
        let permit = flows.map_err(|_| Refusal::new(Cause::Limit, "the proxy has too many flows"))?;
        let Some(target) = target else {
            let none = || Refusal::new(Cause::Unsupported, "the proxy carries no IP packets");
            let end = End::Ip(self.0.network.clone().ok_or_else(none)?);
            return Ok(Reached { end, place, permit });
        };
        let lookups = &place.user.lookups;
        let addresses = self.0.dialer.addresses(&target, &policy.access, lookups).await?;
        let (end, address) = if carried == Carried::Tcp {
            let (stream, address) = self.0.dialer.tcp(addresses).await?;
            (End::Tcp(stream, address), address)
        } else {
            let (socket, address) = self.0.dialer.udp(addresses).await?;
            (End::Udp(socket, address), address)
        };
        record.address = Some(address);
        Ok(Reached { end, place, permit })
    }

    /// Authenticates the user, and takes a place for the tunnel among those of the user.
    async fn admit(&self, users: &Users, fields: &HeaderMap, record: &mut Record) -> Result<Place, Refusal> {
        let client = record.client;
        // A client certificate may have authenticated the user of the connection.
        let known = record.user.take();
        let known = known.as_deref().and_then(|name| users.get(name));
        let user = match known {
            Some(user) => Ok(user),
            None => self.0.verifier.verify(users, fields, record.carried, client.ip()).await,
        };
        let (name, limits) = match (user, users.anyone()) {
            (Ok(user), _) => (user.name(), user.limits()),
            (Err(refusal), Some(limits)) if refusal.cause() == Cause::Unauthenticated => (ANYONE, limits),
            (Err(refusal), _) => return Err(refusal),
        };
        record.user = Some(name.to_owned());
        let state = Arc::clone(lock(&self.0.states).entry(name.to_owned()).or_default());
        state.enter(limits, client)
    }

    fn tunnel(&self, facts: Facts, reached: Reached, terms: FlowTerms) -> Tunnel {
        let Reached { end, place, permit } = reached;
        // Clients without credentials are different ones, although they have the same name.
        let user = facts.record.user.clone().filter(|name| name != ANYONE);
        let flow = Flow::new(facts, place, self.0.observer.clone(), permit);
        match end {
            End::Tcp(stream, address) => Tunnel::tcp(stream, address, flow),
            End::Udp(socket, address) => {
                let flow = UdpFlow {
                    socket,
                    flow: Arc::new(flow),
                    idle: self.0.options.udp_idle.min(MAX_TIME),
                    terms,
                };
                Tunnel::udp(flow, address)
            }
            End::Ip(network) => {
                // The access list is read for each packet, so a replaced one also holds for open tunnels.
                let proxy = self.clone();
                let allow = Box::new(move |to, port| proxy.policy().access.allows_packet(to, port));
                Tunnel::ip(IpFlow { network, flow: Arc::new(flow), allow, user })
            }
        }
    }
}

/// A connection to a target, with the permits of its tunnel.
struct Reached {
    end: End,
    place: Place,
    permit: tokio::sync::OwnedSemaphorePermit,
}

/// End of a tunnel at the target.
enum End {
    Tcp(tokio::net::TcpStream, SocketAddr),
    Udp(tokio::net::UdpSocket, SocketAddr),
    Ip(IpNetwork),
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy").field("options", &self.0.options).finish_non_exhaustive()
    }
}
