//! A tunnel whose target the proxy has reached.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Response, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use super::body::TunnelBody;
use super::flow::Flow;
use super::ip::IpFlow;
use super::target::Carried;
use super::tcp::Link;
use super::udp::UdpFlow;
use super::{ip, tcp, udp};
use crate::http3::{Body, Datagrams};
use crate::proxy::copies::FIELD;

/// Field of messages whose stream carries capsules (RFC 9297 §3.4).
const CAPSULE_PROTOCOL: HeaderName = HeaderName::from_static("capsule-protocol");

/// Tunnel whose target the proxy has reached, but which does not carry bytes yet. Dropping it closes the connection to the
/// target.
pub struct Tunnel {
    address: Option<SocketAddr>,
    kind: Kind,
}

enum Kind {
    Tcp(Arc<Link>),
    Udp(UdpFlow),
    Ip(IpFlow),
}

impl Tunnel {
    pub(super) fn tcp(stream: TcpStream, address: SocketAddr, flow: Flow) -> Self {
        Self { address: Some(address), kind: Kind::Tcp(Link::new(stream, flow)) }
    }

    pub(super) fn udp(flow: UdpFlow, address: SocketAddr) -> Self {
        Self { address: Some(address), kind: Kind::Udp(flow) }
    }

    pub(super) fn ip(flow: IpFlow) -> Self {
        Self { address: None, kind: Kind::Ip(flow) }
    }

    /// Returns the kind of traffic that the tunnel carries.
    pub fn carried(&self) -> Carried {
        match self.kind {
            Kind::Tcp(_) => Carried::Tcp,
            Kind::Udp(_) => Carried::Udp,
            Kind::Ip(_) => Carried::Ip,
        }
    }

    /// Returns the target's address; `None` for IP packets.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Returns the response that begins the tunnel: 200 (OK), or 101 (Switching Protocols) for an upgrade in HTTP/1.1.
    pub fn response(&self, status: StatusCode) -> Response<()> {
        let mut response = Response::new(());
        *response.status_mut() = status;
        if self.carried() != Carried::Tcp {
            // RFC 9298 §3.3, §3.5, RFC 9484 §4.3, §4.5.
            response.headers_mut().insert(CAPSULE_PROTOCOL, HeaderValue::from_static("?1"));
        }
        if let Kind::Udp(flow) = &self.kind {
            response.headers_mut().extend(flow.terms.value().map(|terms| (FIELD, terms)));
        }
        response
    }

    /// Begins to carry the tunnel on a request's stream. Returns the body of the response.
    pub(super) fn over_http3<B>(self, body: Body, datagrams: Option<Datagrams>) -> TunnelBody<B> {
        match self.kind {
            Kind::Tcp(link) => TunnelBody::tcp(tcp::over_http3(link, body)),
            Kind::Udp(flow) => TunnelBody::udp(udp::over_http3(flow, body, datagrams)),
            Kind::Ip(flow) => TunnelBody::udp(ip::over_http3(flow, body, datagrams)),
        }
    }

    /// Carries the tunnel on a connection of HTTP/1.1 or a stream of HTTP/2 that `upgrade` returns, until the tunnel ends. Drops
    /// the tunnel and returns `Ok` if the upgrade is not complete within `opening`.
    ///
    /// # Errors
    /// Fails if the upgrade fails.
    pub async fn relay<T, E>(
        self,
        upgrade: impl Future<Output = Result<T, E>>,
        opening: Duration,
    ) -> Result<(), E>
    where
        T: AsyncRead + AsyncWrite,
    {
        let Ok(io) = tokio::time::timeout(opening, upgrade).await else { return Ok(()) };
        let io = io?;
        match self.kind {
            Kind::Tcp(link) => tcp::relay(&link, io).await,
            Kind::Udp(flow) => udp::relay(flow, io).await,
            Kind::Ip(flow) => ip::relay(flow, io).await,
        }
        Ok(())
    }
}

impl fmt::Debug for Tunnel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let carried = self.carried();
        f.debug_struct("Tunnel")
            .field("address", &self.address)
            .field("carried", &carried)
            .finish_non_exhaustive()
    }
}
