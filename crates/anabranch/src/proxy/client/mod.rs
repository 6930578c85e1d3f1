//! Client of a proxy: tunnels for TCP connections, UDP flows and IP packets, on one multipath connection.
//!
//! [`Proxy`] connects when the first tunnel is opened, on the path on which the proxy responds first, and opens all
//! paths that its policy allows afterwards. A connection that is lost is replaced: tunnels on the lost connection fail
//! with the reason of the loss, and new tunnels wait for the next connection. If the proxy's stream limit is
//! reached, a second connection carries further tunnels.
//!
//! If UDP does not reach the proxy, a connection over TCP takes its place ([`ProxyState::Fallback`]): HTTP/2, on one path.
//! The client keeps trying QUIC meanwhile.
//!
//! ```no_run
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), anabranch::Error> {
//! use anabranch::proxy::client::{Credentials, Proxy, ProxyConfig};
//! use anabranch::{MultipathConfig, PathPolicy, TransportConfig, config};
//!
//! let transport = TransportConfig::default().with_multipath(Some(MultipathConfig::default()));
//! let quic = config::client(config::system_roots()?, ["h3"])?.with_transport(transport);
//! let config = ProxyConfig::new("https://proxy.example", quic)?
//!     .with_paths(PathPolicy::default())
//!     .with_credentials(Credentials::bearer_file("token".as_ref())?);
//! let proxy = Proxy::new(config);
//! let tunnel = proxy.tcp(&"db.internal:5432".parse()?).await?;
//! let flow = proxy.udp(&"192.0.2.1:53".parse()?).await?;
//! # drop((tunnel, flow)); Ok(()) }
//! ```

mod capsules;
mod carrier;
mod config;
mod connect;
mod credentials;
mod error;
mod fallback;
mod head;
mod ip;
mod keeper;
mod open;
mod pump;
mod resolve;
mod status;
mod stream;
mod target;
mod tcp;
mod udp;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

pub use self::config::{InvalidProxy, ProxyConfig};
pub use self::credentials::{Credentials, CredentialsError};
pub use self::error::{ConnectFailure, Refusal, RefusalKind, TunnelError};
pub use self::fallback::Http2Error;
pub use self::ip::{IpEvent, IpReceiver, IpSender, IpTunnel, SendPacketError};
pub use self::keeper::{MAX_CONNECTIONS, MAX_WAITING, ProxyState};
pub use self::pump::{Pumped, Traffic};
pub use self::resolve::{Resolve, Resolving};
pub use self::status::ProxyStatus;
pub use self::stream::{StreamError, TunnelReceiver, TunnelSender};
pub use self::target::{InvalidTarget, Target};
pub use self::tcp::TcpTunnel;
pub use self::udp::{SendPayloadError, UdpReceiver, UdpSender, UdpTunnel};

use self::carrier::Carrier;
use self::head::Head;
use self::keeper::Keeper;
use self::udp::Frames;
use crate::http3::Code;
use crate::paths::PathManager;
use crate::proxy::FlowTerms;

/// Name that does not exist (RFC 6761 §6.4). The response to a request for a tunnel to this name shows whether a
/// proxy accepts the client's credentials.
const NOWHERE: &str = "anabranch-check.invalid";
/// Maximum time that [`Proxy::close`] waits until the CONNECTION_CLOSE frames are sent.
const FAREWELL: Duration = Duration::from_millis(200);

/// Client of one proxy. Clones are cheap and share the connections. A connection is closed when the last clone and
/// the connection's last tunnel are dropped.
#[derive(Clone, Debug)]
pub struct Proxy(Arc<Owner>);

/// Guard that ends a client's tasks when the last clone of its [`Proxy`] is dropped.
#[derive(Debug)]
struct Owner(Arc<Keeper>);

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Proxy {
    /// Creates the client of a proxy. It connects when the first tunnel is opened.
    pub fn new(config: ProxyConfig) -> Self {
        Self(Arc::new(Owner(Arc::new(Keeper::new(config)))))
    }

    /// Connects, unless there is a connection. Returns when a connection is set up, or when the next attempt has
    /// failed. The client repeats failed attempts also after this function has returned.
    ///
    /// # Errors
    /// Fails if the attempt has failed.
    ///
    /// # Panics
    /// Panics outside of a tokio runtime.
    pub async fn connect(&self) -> Result<(), TunnelError> {
        let keeper = &self.0.0;
        let mut changes = keeper.subscribe();
        keeper.hurry();
        loop {
            if matches!(keeper.published(), ProxyState::Closed) {
                return Err(TunnelError::Closed);
            }
            if !keeper.carriers().is_empty() {
                return Ok(());
            }
            keeper.want(1);
            // The channel lives as long as `self`.
            let _ = changes.changed().await;
            if let ProxyState::Failing(failure) = keeper.published() {
                return Err(TunnelError::Unavailable(failure));
            }
        }
    }

    /// Checks the credentials by a request for a TCP tunnel to a name that cannot exist. Any refusal for another reason than
    /// the credentials means that the proxy accepts them.
    ///
    /// # Errors
    /// Fails if the proxy does not accept the credentials, if it does not respond, or if no connection to it can be set up
    /// in time.
    pub async fn check(&self) -> Result<(), TunnelError> {
        let keeper = &self.0.0;
        let nowhere = Target::new(NOWHERE, 443).map_err(|_| TunnelError::Closed)?;
        match keeper.open(&Head::tcp(&keeper.config, &nowhere)?).await {
            Err(TunnelError::Refused(refusal)) if refusal.kind() != RefusalKind::Credentials => Ok(()),
            opened => opened.map(drop),
        }
    }

    /// Opens a TCP connection to `target` through the proxy.
    ///
    /// # Errors
    /// Fails if the proxy refuses, if it does not respond, or if no connection to it can be set up in time.
    pub async fn tcp(&self, target: &Target) -> Result<TcpTunnel, TunnelError> {
        let keeper = &self.0.0;
        let opened = keeper.open(&Head::tcp(&keeper.config, target)?).await?;
        Ok(TcpTunnel::new(opened.send, opened.receive))
    }

    /// Opens a UDP flow to `target` through the proxy.
    ///
    /// # Errors
    /// Fails as [`Proxy::tcp`] does, or if the proxy carries no UDP.
    pub async fn udp(&self, target: &Target) -> Result<UdpTunnel, TunnelError> {
        self.udp_with(target, FlowTerms::default()).await
    }

    /// Opens a UDP flow like [`Proxy::udp`], with terms for its datagrams. Copies are sent, and payloads are put back in order, only
    /// if the proxy agrees.
    ///
    /// # Errors
    /// Fails as [`Proxy::udp`] does.
    pub async fn udp_with(&self, target: &Target, terms: FlowTerms) -> Result<UdpTunnel, TunnelError> {
        let keeper = &self.0.0;
        let opened = match keeper.open(&Head::udp(&keeper.config, target)?.with_terms(terms)).await {
            Err(TunnelError::Refused(refusal)) if refusal.kind() == RefusalKind::Unsupported => {
                return Err(TunnelError::NoUdp);
            }
            opened => opened?,
        };
        let frames = match (&opened.carrier, opened.send.datagrams()) {
            (Carrier::Quic(live), Some((datagrams, stream))) => {
                let is_supported =
                    live.http3.settings().await?.h3_datagram && keeper.config.http3.h3_datagram();
                let terms = terms.as_agreed(opened.agreed);
                Some(Frames::new(live.http3.quic().clone(), datagrams, stream, terms, is_supported))
            }
            _ => None,
        };
        Ok(UdpTunnel::new(frames, opened.send, opened.receive))
    }

    /// Opens a tunnel for IP packets through the proxy.
    ///
    /// # Errors
    /// Fails as [`Proxy::tcp`] does, or if the proxy carries no IP packets.
    pub async fn ip(&self) -> Result<IpTunnel, TunnelError> {
        let keeper = &self.0.0;
        match keeper.open(&Head::ip(&keeper.config)?).await {
            Ok(opened) => Ok(IpTunnel::new(opened.send, opened.receive)),
            Err(TunnelError::Refused(refusal)) if refusal.kind() == RefusalKind::Unsupported => {
                Err(TunnelError::NoIp)
            }
            Err(TunnelError::NoUdp) => Err(TunnelError::NoIp),
            Err(error) => Err(error),
        }
    }

    /// Returns whether the proxy supports extended CONNECT (RFC 8441, RFC 9220), without which it carries no UDP. Waits
    /// for a connection.
    ///
    /// # Errors
    /// Fails if no connection can be set up in time, or if it is lost.
    pub async fn carries_udp(&self) -> Result<bool, TunnelError> {
        Ok(self.0.0.ready().await?.supports_extended_connect().await?)
    }

    /// Returns a receiver of the client's state and its changes.
    pub fn states(&self) -> watch::Receiver<ProxyState> {
        self.0.0.subscribe()
    }

    /// Returns the present connections by QUIC, for their paths and statistics.
    pub fn connections(&self) -> Vec<crate::Connection> {
        self.0.0.live().iter().map(|live| live.http3.quic().clone()).collect()
    }

    /// Returns the number of connections over TCP, also of those on which only old tunnels are left.
    pub fn fallback_connections(&self) -> usize {
        self.0.0.farewell.receiver_count()
    }

    /// Returns the paths that the manager of the first connection has to open, with their states.
    pub fn path_attempts(&self) -> Vec<crate::PathAttempt> {
        let live = self.0.0.live();
        live.first().and_then(|live| live.manager.as_ref()).map(PathManager::attempts).unwrap_or_default()
    }

    /// Closes all connections, and with them all tunnels. Waits at most 200 ms until the CONNECTION_CLOSE frames are sent.
    pub async fn close(&self) {
        let keeper = &self.0.0;
        keeper.end();
        keeper.farewell.send_replace(true);
        let told = async {
            if let Some(endpoint) = keeper.reach.bound() {
                endpoint.close(Code::NO_ERROR.into(), b"");
                endpoint.wait_close_sent().await;
            }
            keeper.farewell.closed().await;
        };
        // A proxy that is not told notices by its idle timeout.
        let _ = timeout(FAREWELL, told).await;
    }
}
