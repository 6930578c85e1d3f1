//! Connections to targets.

mod resolve;

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};

pub use self::resolve::{Resolve, Resolving, SystemResolver};

use super::access::Access;
use super::refusal::{Cause, Refusal};
use crate::proxy::client::Target;

/// Maximum number of allowed addresses of a name to which the proxy tries to connect.
const MAX_ADDRESSES: usize = 8;
/// Time after which an attempt at the next address begins while earlier attempts go on (RFC 8305 §5).
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);
/// Size of the kernel's receive buffer of a flow to a target, in bytes: the datagrams of 20 ms at 400 Mbit/s.
const KERNEL_BUFFER: usize = 1 << 20;
/// Maximum time for which a lookup holds a permit of its user, also after the request that needed it has ended.
const MAX_LOOKUP: Duration = Duration::from_secs(60);
/// Time without traffic after which TCP keep-alive probes are sent to a target, so that half-open connections end.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// Resolver and timeouts of connections to targets.
#[derive(Clone, Debug)]
pub(super) struct Dialer {
    pub(super) resolver: Arc<dyn Resolve>,
    pub(super) resolve_timeout: Duration,
    pub(super) connect_timeout: Duration,
}

impl Dialer {
    /// Returns the addresses of a target that the access list allows, in the order of the attempts. The permits of `lookups`
    /// limit the number of names that are resolved for one user at the same time.
    ///
    /// # Errors
    /// Fails if the access list denies the target or all of its addresses, if the target has no address, or if its name cannot
    /// be resolved in time.
    pub(super) async fn addresses(
        &self,
        target: &Target,
        access: &Access,
        lookups: &Arc<Semaphore>,
    ) -> Result<VecDeque<SocketAddr>, Refusal> {
        access.check_target(target)?;
        let host = target.host();
        let found = match host.parse::<IpAddr>() {
            Ok(address) => vec![address],
            Err(_) => match timeout(self.resolve_timeout, self.resolve(&host, lookups)).await {
                Ok(Ok(found)) => found,
                Ok(Err(error)) => return Err(Refusal::new(Cause::Resolution, error.to_string())),
                Err(_) => {
                    return Err(Refusal::new(Cause::ResolutionTimeout, "the name was not resolved in time"));
                }
            },
        };
        if found.is_empty() {
            return Err(Refusal::new(Cause::Resolution, "the name has no address"));
        }
        let allowed = found.into_iter().filter(|address| access.allows(target, *address)).collect();
        let mut allowed = interleave(allowed);
        // Both families have addresses among the first ones, even if one of them has many.
        allowed.truncate(MAX_ADDRESSES);
        if allowed.is_empty() {
            return Err(Refusal::new(
                Cause::ForbiddenAddress,
                "the access list denies the target's addresses",
            ));
        }
        Ok(allowed.into_iter().map(|address| SocketAddr::new(address, target.port())).collect())
    }

    /// Resolves a name. A lookup holds its user's permit until it ends, but no longer than [`MAX_LOOKUP`], also after the caller
    /// has stopped waiting. So one user cannot occupy the resolver with lookups that get no response.
    async fn resolve(&self, host: &str, lookups: &Arc<Semaphore>) -> io::Result<Vec<IpAddr>> {
        let permit = Arc::clone(lookups).acquire_owned().await.map_err(io::Error::other)?;
        let resolving = self.resolver.resolve(host);
        let looked_up = tokio::spawn(async move {
            let _permit = permit;
            timeout(MAX_LOOKUP, resolving).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
        });
        looked_up.await.map_err(io::Error::other)?
    }

    /// Connects to the address that accepts a TCP connection first (RFC 8305 §5).
    ///
    /// # Errors
    /// Fails if no address accepts a connection in time: with the reason of the attempt that failed first, or with a timeout if
    /// none has failed.
    pub(super) async fn tcp(
        &self,
        mut addresses: VecDeque<SocketAddr>,
    ) -> Result<(TcpStream, SocketAddr), Refusal> {
        let deadline = Instant::now() + self.connect_timeout;
        let late = addresses.front().copied();
        let mut attempts = JoinSet::new();
        let mut failure = None;
        while !addresses.is_empty() || !attempts.is_empty() {
            if let Some(address) = addresses.pop_front() {
                attempts.spawn(async move { (TcpStream::connect(address).await, address) });
            }
            let next =
                if addresses.is_empty() { deadline } else { deadline.min(Instant::now() + ATTEMPT_DELAY) };
            match timeout_at(next, attempts.join_next()).await {
                Ok(Some(Ok((Ok(stream), address)))) => {
                    prepare(&stream);
                    return Ok((stream, address));
                }
                Ok(Some(Ok((Err(error), address)))) => {
                    failure.get_or_insert_with(|| failed(&error, address));
                }
                Err(_) if Instant::now() >= deadline => break,
                // The attempt at the next address is due, or a task was aborted with its runtime.
                Ok(Some(Err(_)) | None) | Err(_) => {}
            }
        }
        Err(failure.unwrap_or_else(|| {
            let refusal = Refusal::new(Cause::Timeout, "the target did not answer in time");
            late.map_or(refusal.clone(), |address| refusal.at(address))
        }))
    }

    /// Returns a UDP socket that is connected to the first address to which the host has a route.
    ///
    /// # Errors
    /// Fails if the host has no route to any of them, or if no socket can be bound.
    pub(super) async fn udp(
        &self,
        addresses: VecDeque<SocketAddr>,
    ) -> Result<(UdpSocket, SocketAddr), Refusal> {
        let mut failure = None;
        for address in addresses {
            let any: IpAddr =
                if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
            let connected = async {
                let socket = UdpSocket::bind((any, 0)).await?;
                // A refusal is ignored: datagrams are lost sooner then while this process is busy.
                let _ = SockRef::from(&socket).set_recv_buffer_size(KERNEL_BUFFER);
                socket.connect(address).await?;
                Ok(socket)
            };
            match connected.await {
                Ok(socket) => return Ok((socket, address)),
                Err(error) => {
                    failure.get_or_insert_with(|| failed(&error, address));
                }
            }
        }
        Err(failure.unwrap_or_else(|| Refusal::new(Cause::Internal, "there is no address")))
    }
}

/// Sets TCP_NODELAY and keep-alive. Errors are ignored: without these options a connection is only slower, or ends later.
fn prepare(stream: &TcpStream) {
    let _ = stream.set_nodelay(true);
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE / 4);
    let _ = SockRef::from(stream).set_tcp_keepalive(&keepalive);
}

/// Orders addresses so that the families alternate, IPv6 first (RFC 8305 §4). Converts IPv4-mapped addresses to IPv4.
fn interleave(addresses: Vec<IpAddr>) -> Vec<IpAddr> {
    let (v6, v4): (Vec<_>, Vec<_>) =
        addresses.into_iter().map(|address| address.to_canonical()).partition(IpAddr::is_ipv6);
    let (mut v6, mut v4) = (v6.into_iter(), v4.into_iter());
    let mut ordered = Vec::new();
    loop {
        let before = ordered.len();
        ordered.extend(v6.next());
        ordered.extend(v4.next());
        if ordered.len() == before {
            return ordered;
        }
    }
}

/// Converts the error of an attempt at an address into a refusal.
fn failed(error: &io::Error, address: SocketAddr) -> Refusal {
    let cause = match error.kind() {
        io::ErrorKind::ConnectionRefused => Cause::Refused,
        io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted => Cause::Terminated,
        io::ErrorKind::TimedOut => Cause::Timeout,
        io::ErrorKind::HostUnreachable
        | io::ErrorKind::NetworkUnreachable
        | io::ErrorKind::AddrNotAvailable
        | io::ErrorKind::InvalidInput
        | io::ErrorKind::PermissionDenied => Cause::Unroutable,
        _ => Cause::Internal,
    };
    Refusal::new(cause, error.kind().to_string()).at(address)
}

#[cfg(test)]
mod tests;
