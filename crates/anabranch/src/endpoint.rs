//! Endpoints: a socket, and the connections that use it.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
#[cfg(feature = "qlog")]
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use anabranch_transport::trace::Observer;
use anabranch_transport::{
    self as core, ClientConfig, EndpointConfig, LoadBalancing, MAX_WORKERS, Router, ServerConfig,
};
use anabranch_wire::{InvalidSetting, PathId, Side, VarInt};
use bytes::Bytes;
use tokio::sync::oneshot;

use crate::driver::Driver;
use crate::endpoint_inner::{EndpointInner, Table};
use crate::error::EndpointError;
use crate::incoming::Incoming;
use crate::lock::lock;
use crate::observe::ObserverFactory;
use crate::runtime::spawn;
use crate::socket::Socket;
use crate::sync::Mutex;
use crate::tokens::AddressToken;
use crate::workers::bind_workers;

/// A QUIC endpoint: it opens connections, accepts them, or both, on one UDP address. Clones are cheap and
/// refer to the same endpoint.
///
/// A background task sends and receives the datagrams. It runs on the runtime in which the endpoint was
/// created, until the last handle and the last connection are gone. An endpoint with several workers
/// ([`Endpoint::with_workers`]) has a task and a socket for each of them, so that a runtime with several
/// threads serves connections on several processors.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use anabranch::{Endpoint, SelfSigned, config};
///
/// let identity = SelfSigned::new(["localhost"])?;
/// let server = Endpoint::server(identity.server_config(["greeting"])?, "127.0.0.1:0".parse()?)?;
/// let address = server.local_addr()?;
/// tokio::spawn(async move {
///     while let Some(incoming) = server.accept().await {
///         let connection = incoming.await?;
///         let mut stream = connection.open_uni().await?;
///         stream.write_all(b"hello").await?;
///         stream.finish()?;
///         connection.closed().await;
///     }
///     Ok::<_, anabranch::Error>(())
/// });
///
/// let mut client = Endpoint::client("127.0.0.1:0".parse()?)?;
/// client.set_default_client_config(config::client(identity.roots()?, ["greeting"])?);
/// let connection = client.connect(address, "localhost")?.await?;
/// let greeting = connection.accept_uni().await?.read_to_end(100).await?;
/// assert_eq!(greeting, b"hello");
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Endpoint {
    /// First worker, to which all connections belong that this endpoint begins.
    pub(crate) inner: Arc<EndpointInner>,
    /// All workers.
    pub(crate) workers: Arc<[Arc<EndpointInner>]>,
    /// Secrets, for the next process with the same sockets.
    #[cfg_attr(
        not(any(target_os = "linux", target_os = "android")),
        expect(dead_code, reason = "sockets are not handed over on this system")
    )]
    pub(crate) config: Arc<EndpointConfig>,
    /// Worker whose clients are accepted first.
    turn: Arc<AtomicUsize>,
    pub(crate) client_config: Arc<Mutex<Option<ClientConfig>>>,
}

impl Endpoint {
    /// Creates an endpoint that connects to servers, bound to `address`. With port 0 the system chooses the
    /// port.
    ///
    /// # Errors
    /// Fails if the address cannot be bound.
    ///
    /// # Panics
    /// Panics outside of a tokio runtime with timers and I/O.
    pub fn client(address: SocketAddr) -> Result<Self, EndpointError> {
        Self::new(&random_config()?, None, std::net::UdpSocket::bind(address)?)
    }

    /// Creates an endpoint that accepts connections on `address`.
    ///
    /// # Errors
    /// Fails if the address cannot be bound, or if the configuration contradicts the protocol.
    ///
    /// # Panics
    /// Panics outside of a tokio runtime with timers and I/O.
    pub fn server(config: ServerConfig, address: SocketAddr) -> Result<Self, EndpointError> {
        Self::new(&random_config()?, Some(config), std::net::UdpSocket::bind(address)?)
    }

    /// Creates an endpoint on a socket that the caller has created. `config` holds the endpoint's secrets: no
    /// two endpoints may share a seed.
    ///
    /// # Errors
    /// Fails if the socket cannot be used, or if a configuration contradicts the protocol.
    ///
    /// # Panics
    /// Panics outside of a tokio runtime with timers and I/O.
    pub fn new(
        config: &EndpointConfig,
        server: Option<ServerConfig>,
        socket: std::net::UdpSocket,
    ) -> Result<Self, EndpointError> {
        Self::on(config, server, || Socket::new(socket))
    }

    /// Creates an endpoint that has a worker for each of the sockets: a task that serves the connections
    /// whose packets the socket receives. The sockets are bound to one address, by [`bind_workers`] or in
    /// another process; their order is that of the workers. Connection IDs name the worker, so that a
    /// connection stays with its worker when an address changes. Packets that arrive at another worker's
    /// socket are handed over.
    ///
    /// Limits of the configurations hold for all workers together. Connections that the endpoint begins
    /// belong to the first worker. A client does not need several workers: one is enough for a connection.
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use anabranch::{Endpoint, SelfSigned, bind_workers, random_config};
    ///
    /// let identity = SelfSigned::new(["localhost"])?;
    /// let sockets = bind_workers("127.0.0.1:0".parse()?, 2)?;
    /// let server = identity.server_config(["greeting"])?;
    /// let server = Endpoint::with_workers(&random_config()?, Some(server), sockets)?;
    /// assert_eq!(server.workers(), 2);
    /// # Ok(()) }
    /// ```
    ///
    /// [`bind_workers`]: crate::bind_workers
    ///
    /// # Errors
    /// Fails if there is no socket, or more than [`MAX_WORKERS`](crate::MAX_WORKERS); if a socket cannot be
    /// used, or if a configuration contradicts the protocol; if there are several sockets and connection IDs
    /// have zero length.
    ///
    /// # Panics
    /// Panics outside of a tokio runtime with timers and I/O.
    pub fn with_workers(
        config: &EndpointConfig,
        server: Option<ServerConfig>,
        sockets: Vec<std::net::UdpSocket>,
    ) -> Result<Self, EndpointError> {
        let count = sockets.len();
        InvalidSetting::unless((1..=MAX_WORKERS).contains(&count), "workers", "must be 1 to 32")?;
        config.validate_for(count)?;
        let bind = || sockets.into_iter().map(Socket::new).collect();
        Self::on_all(config, server, bind, |_| Ok(()))
    }

    /// Creates an endpoint on the socket that `bind` returns.
    pub(crate) fn on(
        config: &EndpointConfig,
        server: Option<ServerConfig>,
        bind: impl FnOnce() -> io::Result<Socket>,
    ) -> Result<Self, EndpointError> {
        Self::on_all(config, server, || Ok(vec![bind()?]), |_| Ok(()))
    }

    /// Creates an endpoint with a worker for each of the sockets that `bind` returns. Calls `prepare` before the workers begin.
    pub(crate) fn on_all(
        config: &EndpointConfig,
        server: Option<ServerConfig>,
        bind: impl FnOnce() -> io::Result<Vec<Socket>>,
        prepare: impl FnOnce(&[Arc<EndpointInner>]) -> io::Result<()>,
    ) -> Result<Self, EndpointError> {
        config.validate()?;
        server.as_ref().map_or(Ok(()), ServerConfig::validate)?;
        let server = server.map(Arc::new);
        let sockets = bind()?;
        let routers = match sockets.len() {
            1 => vec![Router::new(config, server)],
            count => Router::workers(config, server.as_ref(), count),
        };
        let workers = routers.into_iter().zip(sockets);
        let workers: Arc<[_]> =
            workers.map(|(router, socket)| Arc::new(EndpointInner::new(router, socket))).collect();
        prepare(&workers)?;
        let drivers: Arc<[_]> = workers.iter().map(|worker| Arc::downgrade(&worker.driver)).collect();
        for worker in &*workers {
            worker.driver.set_workers(Arc::clone(&drivers));
            worker.table().handles = 1;
            spawn(Driver::new(Arc::clone(worker)));
        }
        let (inner, config) = (Arc::clone(&workers[0]), Arc::new(config.clone()));
        Ok(Self { inner, workers, config, turn: Arc::default(), client_config: Arc::default() })
    }

    /// Returns the number of workers.
    pub fn workers(&self) -> usize {
        self.workers.len()
    }

    /// Sets the configuration that [`Endpoint::connect`] uses.
    pub fn set_default_client_config(&mut self, config: ClientConfig) {
        *lock(&self.client_config) = Some(config);
    }

    /// Changes the configuration for connections that are accepted from now on. With `None` no more
    /// connections are accepted.
    ///
    /// # Errors
    /// Fails if a setting contradicts the protocol. The old configuration then stays in effect.
    pub fn set_server_config(&self, config: Option<ServerConfig>) -> Result<(), InvalidSetting> {
        config.as_ref().map_or(Ok(()), ServerConfig::validate)?;
        let config = config.map(Arc::new);
        for worker in &*self.workers {
            worker.table().router.set_server(config.clone());
        }
        Ok(())
    }

    /// Issues connection IDs with another configuration of QUIC-LB from now on (draft-ietf-quic-load-balancers-21 §3.1). Load balancers
    /// should know it before. With `renew`, the peers of open connections are asked to use new connection IDs at once, and to retire
    /// those of the earlier configuration, so that load balancers can give it up. Otherwise earlier ones stay in use.
    ///
    /// # Errors
    /// Fails if a setting contradicts the draft, the length of the endpoint's connection IDs or the number of its workers. The
    /// earlier configuration then stays in effect.
    pub fn set_load_balancing(&self, config: LoadBalancing, renew: bool) -> Result<(), InvalidSetting> {
        // All workers share the configuration.
        self.inner.table().router.set_load_balancing(config)?;
        if renew {
            for worker in &*self.workers {
                let connections: Vec<_> = worker.table().connections().cloned().collect();
                connections.iter().for_each(|connection| connection.update(|state| state.core.renew_cids()));
            }
        }
        Ok(())
    }

    /// Returns the number of connection IDs that can still be issued with the configuration of QUIC-LB; `None` without one. Further
    /// ones name no server, and load balancers route them by addresses.
    pub fn remaining_cids(&self) -> Option<u64> {
        self.inner.table().router.remaining_cids()
    }

    /// Sets the directory for traces of future connections, one file each. Initially the environment variable
    /// QLOGDIR names it.
    #[cfg(feature = "qlog")]
    pub fn set_qlog_dir(&self, dir: Option<PathBuf>) {
        for (worker, dir) in self.workers.iter().zip(std::iter::repeat_n(dir, self.workers.len())) {
            worker.table().watchers.traces.dir = dir;
        }
    }

    /// Sets the maximum size of each future trace in bytes; `None` means 256 MiB. A trace that reaches its
    /// limit ends with a warning. The limit exists because the peer influences how much is written.
    #[cfg(feature = "qlog")]
    pub fn set_qlog_limit(&self, bytes: Option<u64>) {
        for worker in &*self.workers {
            worker.table().watchers.traces.limit = bytes;
        }
    }

    /// Sets the function that creates an observer for each future connection, in addition to traces. `make`
    /// is called when a connection begins, and should not block.
    pub fn set_observer(&self, make: impl Fn(Side) -> Box<dyn Observer> + Send + Sync + 'static) {
        let factory = ObserverFactory(Arc::new(make));
        for worker in &*self.workers {
            // The replaced function belongs to the application, so it is dropped after the lock is released.
            let _before = worker.table().watchers.observers.replace(factory.clone());
        }
    }

    /// Returns the unused tokens that servers sent to this endpoint's clients (NEW_TOKEN), oldest first. If a
    /// program stores them, its next run saves a round trip with servers that would otherwise validate its
    /// address by a Retry packet.
    pub fn address_tokens(&self) -> Vec<AddressToken> {
        self.inner.driver.tokens().all()
    }

    /// Stores `token` for a later connection to its server. The oldest tokens are removed when there are too
    /// many. A token that is too long is dropped.
    pub fn add_address_token(&self, token: AddressToken) {
        self.inner.driver.tokens().put(token);
    }

    /// Waits for the next client that requests a connection; `None` once the endpoint is closed, or one of its
    /// sockets has failed.
    pub async fn accept(&self) -> Option<Incoming> {
        poll_fn(|cx| {
            // The workers take turns, so that clients of none wait for long.
            let first = self.turn.fetch_add(1, Ordering::Relaxed);
            for turn in 0..self.workers.len() {
                let worker = &self.workers[first.wrapping_add(turn) % self.workers.len()];
                let mut table = worker.table();
                if table.closed {
                    return Poll::Ready(None);
                }
                match table.incoming.pop_front() {
                    Some(inner) => return Poll::Ready(Some(Incoming::new(Arc::clone(worker), inner))),
                    None => table.accepting.register(cx),
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Returns the address of the endpoint's sockets.
    ///
    /// # Errors
    /// Never fails; the signature is that of sockets.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.inner.driver.sockets().own().local_addr())
    }

    /// Returns the number of connections, including those that are closing.
    pub fn open_connections(&self) -> usize {
        self.open_connections_by_worker().into_iter().sum()
    }

    /// Returns the number of connections of each worker, including those that are closing.
    pub fn open_connections_by_worker(&self) -> Vec<usize> {
        self.workers.iter().map(|worker| worker.table().router.connections()).collect()
    }

    /// Replaces the endpoint's socket with `socket`. Connections continue from its address if their peers
    /// accept the migration. Servers do, so the connections of clients continue (RFC 9000 §9).
    ///
    /// # Errors
    /// Fails if the socket cannot be used, or if the endpoint has several workers.
    pub fn rebind(&self, socket: std::net::UdpSocket) -> io::Result<()> {
        if self.workers.len() > 1 {
            let reason = "an endpoint with several workers cannot change its sockets";
            return Err(io::Error::new(io::ErrorKind::Unsupported, reason));
        }
        self.replace_socket(Socket::new(socket)?);
        Ok(())
    }

    /// Replaces the endpoint's socket, and makes every connection send a packet from it.
    pub(crate) fn replace_socket(&self, socket: Socket) {
        self.inner.driver.sockets().replace_own(Arc::new(socket));
        let connections: Vec<_> = self.inner.table().connections().cloned().collect();
        self.inner.driver.wake();
        for connection in connections {
            // A packet from the new address makes the peer notice the change.
            connection.update(|state| state.core.ping(PathId::ZERO));
        }
    }

    /// Binds a further local address, to which [`Connection::migrate`] can move connections. Returns the
    /// bound address, with its port.
    ///
    /// [`Connection::migrate`]: crate::Connection::migrate
    ///
    /// # Errors
    /// Fails if the address cannot be bound.
    pub fn add_socket(&self, address: SocketAddr) -> io::Result<SocketAddr> {
        let sockets = bind_workers(address, self.workers.len())?;
        let sockets: Vec<_> = sockets.into_iter().map(Socket::new).collect::<io::Result<_>>()?;
        let address = sockets[0].local_addr();
        for (worker, socket) in self.workers.iter().zip(sockets) {
            worker.driver.sockets().add(Arc::new(socket));
            worker.driver.wake();
        }
        Ok(address)
    }

    /// Sets the number of buffers that one system call fills, 1 to 16, on the endpoint's present sockets. A
    /// buffer takes one datagram, or several that the kernel has coalesced. More buffers are faster; this
    /// function exists to measure by how much.
    pub fn set_receive_buffers(&self, buffers: usize) {
        for worker in &*self.workers {
            worker.driver.sockets().all().iter().for_each(|socket| socket.set_receive_buffers(buffers));
        }
    }

    /// Closes all connections with the application's `code` and `reason`. No connection begins from then on.
    /// [`Endpoint::wait_idle`] waits until the connections have ended.
    pub fn close(&self, code: VarInt, reason: &[u8]) {
        let reason = Bytes::copy_from_slice(reason);
        self.workers.iter().for_each(|worker| close(worker, code, &reason));
    }

    /// Waits until every connection is closed and has passed its CONNECTION_CLOSE to the system. A process
    /// that ends at this point skips the closing period, as RFC 9000 §10.2 allows. A peer that misses the
    /// packet then detects the end by its idle timeout. This function closes no connections.
    /// [`Endpoint::wait_idle`] waits for the whole closing period.
    pub async fn wait_close_sent(&self) {
        // All workers begin to wait before the first one is awaited.
        let waiting: Vec<_> = self.workers.iter().filter_map(wait_close_sent).collect();
        for worker in waiting {
            // An error means that the driver has ended and sends nothing more.
            let _ = worker.await;
        }
    }

    /// Waits until no connection is left. Connections in the closing period, in which they repeat
    /// CONNECTION_CLOSE, count, too.
    pub async fn wait_idle(&self) {
        for worker in &*self.workers {
            poll_fn(|cx| {
                let mut table = worker.table();
                if table.is_empty() {
                    return Poll::Ready(());
                }
                table.idling.register(cx);
                Poll::Pending
            })
            .await;
        }
    }
}

/// Closes all connections of a worker, and refuses its clients that have not been accepted yet.
fn close(worker: &EndpointInner, code: VarInt, reason: &Bytes) {
    let (connections, refusals, accepting) = {
        let mut table = worker.table();
        table.closed = true;
        let refusals = refuse_all(&mut table, worker.driver.now());
        (table.connections().cloned().collect::<Vec<_>>(), refusals, table.accepting.take())
    };
    accepting.wake();
    refusals.into_iter().for_each(|refusal| worker.respond(Some(refusal)));
    for connection in connections {
        if connection.with_state(|state| state.ended.is_none()) {
            connection.close(code, reason.clone());
        }
    }
}

/// Has a worker notify the returned channel once all its connections have sent their CONNECTION_CLOSE; `None` if the worker has
/// ended.
fn wait_close_sent(worker: &Arc<EndpointInner>) -> Option<oneshot::Receiver<()>> {
    let (sent, wait) = oneshot::channel();
    {
        let mut table = worker.table();
        if !table.is_driven {
            return None;
        }
        table.leaving.push(sent);
    }
    worker.driver.wake();
    Some(wait)
}

/// Refuses the clients that have not been accepted yet.
fn refuse_all(table: &mut Table, now: anabranch_wire::Time) -> Vec<core::Response> {
    let waiting = std::mem::take(&mut table.incoming);
    waiting.into_iter().filter_map(|incoming| table.router.refuse(now, incoming)).collect()
}

/// Generates new secrets for [`Endpoint::new`] from the operating system's randomness. [`Endpoint::client`]
/// and [`Endpoint::server`] use this function.
///
/// # Errors
/// Fails if the operating system provides no randomness.
pub fn random_config() -> io::Result<EndpointConfig> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(EndpointConfig::new(seed))
}

impl Clone for Endpoint {
    fn clone(&self) -> Self {
        self.workers.iter().for_each(|worker| worker.table().handles += 1);
        Self {
            inner: Arc::clone(&self.inner),
            workers: Arc::clone(&self.workers),
            config: Arc::clone(&self.config),
            turn: Arc::clone(&self.turn),
            client_config: Arc::clone(&self.client_config),
        }
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        for worker in &*self.workers {
            let refusals = {
                let mut table = worker.table();
                table.handles -= 1;
                if table.handles > 0 {
                    continue;
                }
                // Connections continue, and so do clients that the application holds as `Incoming`.
                refuse_all(&mut table, worker.driver.now())
            };
            refusals.into_iter().for_each(|refusal| worker.respond(Some(refusal)));
            worker.driver.wake();
        }
    }
}
