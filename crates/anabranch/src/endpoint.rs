//! Endpoints: a socket, and the connections that use it.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
#[cfg(feature = "qlog")]
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use anabranch_transport::trace::Observer;
use anabranch_transport::{self as core, ClientConfig, EndpointConfig, Router, ServerConfig};
use anabranch_wire::{InvalidSetting, PathId, Side, VarInt};
use bytes::Bytes;
use tokio::sync::oneshot;

use crate::driver::Driver;
use crate::endpoint_inner::{EndpointInner, Table};
use crate::incoming::Incoming;
use crate::lock::lock;
use crate::observe::ObserverFactory;
use crate::socket::Socket;
use crate::tokens::AddressToken;

/// A QUIC endpoint: it makes connections, accepts them, or both, on one UDP socket. Cloning it is cheap and
/// gives another handle.
///
/// A task of its own on the runtime that the endpoint was made in moves the datagrams. It goes on as long as
/// there is a handle or a connection.
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
    pub(crate) inner: Arc<EndpointInner>,
    pub(crate) client_config: Arc<Mutex<Option<ClientConfig>>>,
}

impl Endpoint {
    /// Creates an endpoint for connections to servers, on `address`; port 0 lets the system choose.
    ///
    /// # Errors
    /// If the address cannot be bound to.
    ///
    /// # Panics
    /// Outside of a tokio runtime with timers and I/O.
    pub fn client(address: SocketAddr) -> io::Result<Self> {
        Self::new(&random_config()?, None, std::net::UdpSocket::bind(address)?)
    }

    /// Creates an endpoint that accepts connections on `address`.
    ///
    /// # Errors
    /// If the address cannot be bound to, or, with [`io::ErrorKind::InvalidInput`] and an [`InvalidSetting`]
    /// inside, the configuration contradicts the protocol.
    ///
    /// # Panics
    /// Outside of a tokio runtime with timers and I/O.
    pub fn server(config: ServerConfig, address: SocketAddr) -> io::Result<Self> {
        Self::new(&random_config()?, Some(config), std::net::UdpSocket::bind(address)?)
    }

    /// Creates an endpoint on a socket that the caller has made. `config` holds its secrets: two endpoints
    /// must not share a seed.
    ///
    /// # Errors
    /// If the socket cannot be used, or, with [`io::ErrorKind::InvalidInput`] and an [`InvalidSetting`]
    /// inside, a configuration contradicts the protocol.
    ///
    /// # Panics
    /// Outside of a tokio runtime with timers and I/O.
    pub fn new(
        config: &EndpointConfig,
        server: Option<ServerConfig>,
        socket: std::net::UdpSocket,
    ) -> io::Result<Self> {
        let checked = config.validate().and_then(|()| server.as_ref().map_or(Ok(()), ServerConfig::validate));
        checked.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let router = Router::new(config, server.map(Arc::new));
        let inner = Arc::new(EndpointInner::new(router, Socket::new(socket)?));
        inner.table().handles = 1;
        tokio::spawn(Driver::new(Arc::clone(&inner)));
        Ok(Self { inner, client_config: Arc::default() })
    }

    /// Sets the configuration that [`Endpoint::connect`] uses.
    pub fn set_default_client_config(&mut self, config: ClientConfig) {
        *lock(&self.client_config) = Some(config);
    }

    /// Changes the configuration of connections that will be accepted; `None` accepts none any longer.
    ///
    /// # Errors
    /// If a setting contradicts the protocol; nothing is changed then.
    pub fn set_server_config(&self, config: Option<ServerConfig>) -> Result<(), InvalidSetting> {
        config.as_ref().map_or(Ok(()), ServerConfig::validate)?;
        self.inner.table().router.set_server(config.map(Arc::new));
        Ok(())
    }

    /// Sets the directory for traces of connections from now on, one file each; initially the environment
    /// variable QLOGDIR names it.
    #[cfg(feature = "qlog")]
    pub fn set_qlog_dir(&self, dir: Option<PathBuf>) {
        self.inner.table().watchers.traces.dir = dir;
    }

    /// Sets the maximum number of bytes of each trace from now on; `None` means 256 MiB. A trace that reaches
    /// its limit says so and ends there, because the peer decides how much there is to write.
    #[cfg(feature = "qlog")]
    pub fn set_qlog_limit(&self, bytes: Option<u64>) {
        self.inner.table().watchers.traces.limit = bytes;
    }

    /// Has every connection from now on watched by an observer that `make` makes, in addition to traces. It
    /// is called when a connection begins, which it should not hold up.
    pub fn set_observer(&self, make: impl Fn(Side) -> Box<dyn Observer> + Send + Sync + 'static) {
        let factory = ObserverFactory(Arc::new(make));
        // The one before is the application's, and is dropped once the lock is released.
        let _before = self.inner.table().watchers.observers.replace(factory);
    }

    /// Returns the unused tokens that servers gave to this endpoint's clients, oldest first. A program that
    /// keeps them spares its next run a round trip to servers that are busy or send Retry.
    pub fn address_tokens(&self) -> Vec<AddressToken> {
        self.inner.driver.tokens().all()
    }

    /// Has a later connection to its server show `token`. Old tokens make way when there are too many; one
    /// that is too long to be worth its bytes is dropped.
    pub fn add_address_token(&self, token: AddressToken) {
        self.inner.driver.tokens().put(token);
    }

    /// Waits for the next client that wants a connection; `None` once the endpoint is closed.
    pub async fn accept(&self) -> Option<Incoming> {
        poll_fn(|cx| {
            let mut table = self.inner.table();
            if table.closed {
                return Poll::Ready(None);
            }
            match table.incoming.pop_front() {
                Some(inner) => Poll::Ready(Some(Incoming::new(Arc::clone(&self.inner), inner))),
                None => {
                    table.accepting.register(cx);
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// Returns the address of the endpoint's socket.
    ///
    /// # Errors
    /// Never; the signature is that of sockets.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.inner.driver.sockets().own().local_addr())
    }

    /// Returns the number of connections, those that are closing included.
    pub fn open_connections(&self) -> usize {
        self.inner.table().router.connections()
    }

    /// Puts `socket` in the place of the endpoint's socket. Connections go on from its address as far as
    /// their peers follow: clients' connections do (RFC 9000 §9).
    ///
    /// # Errors
    /// If the socket cannot be used.
    pub fn rebind(&self, socket: std::net::UdpSocket) -> io::Result<()> {
        let socket = Arc::new(Socket::new(socket)?);
        self.inner.driver.sockets().replace_own(socket);
        let connections: Vec<_> = self.inner.table().connections().cloned().collect();
        self.inner.driver.wake();
        for connection in connections {
            // The peer notices by a packet.
            connection.update(|state| state.core.ping(PathId::ZERO));
        }
        Ok(())
    }

    /// Binds a further local address, which connections can be moved to by [`Connection::migrate`]; says
    /// which port it got.
    ///
    /// [`Connection::migrate`]: crate::Connection::migrate
    ///
    /// # Errors
    /// If the address cannot be bound to.
    pub fn add_socket(&self, address: SocketAddr) -> io::Result<SocketAddr> {
        let socket = Socket::bind(address)?;
        let address = socket.local_addr();
        self.inner.driver.sockets().add(Arc::new(socket));
        self.inner.driver.wake();
        Ok(address)
    }

    /// Has one system call receive at most so many datagrams, or groups of them that the kernel has put
    /// together, 1 to 16, on the sockets that the endpoint has now. More is better; this is for measuring how
    /// much better.
    #[doc(hidden)]
    pub fn set_receive_buffers(&self, buffers: usize) {
        self.inner.driver.sockets().all().iter().for_each(|socket| socket.set_receive_buffers(buffers));
    }

    /// Closes all connections with the application's `code` and `reason`; none begins any longer.
    /// [`Endpoint::wait_idle`] waits for the peers to learn of it.
    pub fn close(&self, code: VarInt, reason: &[u8]) {
        let (connections, refusals) = {
            let mut table = self.inner.table();
            table.closed = true;
            table.accepting.wake();
            let refusals = refuse_all(&mut table, self.inner.driver.now());
            (table.connections().cloned().collect::<Vec<_>>(), refusals)
        };
        refusals.into_iter().for_each(|refusal| self.inner.respond(Some(refusal)));
        let reason = Bytes::copy_from_slice(reason);
        for connection in connections {
            if connection.with_state(|state| state.ended.is_none()) {
                connection.close(code.get(), reason.clone());
            }
        }
    }

    /// Waits until every connection is closed and has handed its CONNECTION_CLOSE to the system. A process
    /// that ends then leaves the closing period out, as RFC 9000 §10.2 allows: a peer that the one packet
    /// does not reach finds out by its idle timeout. Nobody but the application closes connections for this;
    /// see [`Endpoint::wait_idle`] for the whole period.
    pub async fn wait_close_sent(&self) {
        let (sent, wait) = oneshot::channel();
        self.inner.table().leaving.push(sent);
        self.inner.driver.wake();
        // An error tells of the end of the driver, after which nothing is sent.
        let _ = wait.await;
    }

    /// Waits until no connection is left, not even one that repeats its farewell to a peer that may have
    /// missed it.
    pub async fn wait_idle(&self) {
        poll_fn(|cx| {
            let mut table = self.inner.table();
            if table.is_empty() {
                return Poll::Ready(());
            }
            table.idling.register(cx);
            Poll::Pending
        })
        .await;
    }
}

/// Refuses those whom nobody will accept any longer.
fn refuse_all(table: &mut Table, now: anabranch_wire::Time) -> Vec<core::Response> {
    let waiting = std::mem::take(&mut table.incoming);
    waiting.into_iter().filter_map(|incoming| table.router.refuse(now, incoming)).collect()
}

/// Creates new secrets from the operating system's randomness, for [`Endpoint::new`]; [`Endpoint::client`]
/// and [`Endpoint::server`] use them.
///
/// # Errors
/// If the operating system has no randomness.
pub fn random_config() -> io::Result<EndpointConfig> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(EndpointConfig::new(seed))
}

impl Clone for Endpoint {
    fn clone(&self) -> Self {
        self.inner.table().handles += 1;
        Self { inner: Arc::clone(&self.inner), client_config: Arc::clone(&self.client_config) }
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        let refusals = {
            let mut table = self.inner.table();
            table.handles -= 1;
            if table.handles > 0 {
                return;
            }
            // Connections go on, and the application may hold clients that it has not accepted yet.
            refuse_all(&mut table, self.inner.driver.now())
        };
        refusals.into_iter().for_each(|refusal| self.inner.respond(Some(refusal)));
        self.inner.driver.wake();
    }
}
