//! Connecting a client to a host by its name.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::task::JoinSet;

use super::super::{Connection, Error};
use super::reach::Reach;
use crate::connection::Connecting;

/// Time after which the next address is tried in parallel (RFC 8305 §5).
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// ALPN protocol name of HTTP/3 (RFC 9114 §3.1).
const ALPN: &[u8] = b"h3";

/// A host and a port.
type Authority<'a> = (&'a str, u16);

/// Connects to `authority`, preferably at the address `known`. If `early` is `true` and early data is
/// possible, the handshake need not be complete.
pub(super) async fn connect(
    reach: &Reach,
    authority: Authority<'_>,
    known: Option<SocketAddr>,
    early: bool,
) -> Result<(Connection, SocketAddr), Error> {
    if let Some(address) = known.filter(|_| early)
        && let Ok((quic, _)) = begin(reach, authority, address)?.into_0rtt()
    {
        return Ok((Connection::new(quic, reach.config.clone()), address));
    }
    let mut addresses = resolve(reach, authority).await?;
    if let Some(at) = addresses.iter().position(|address| Some(*address) == known) {
        addresses.swap(0, at);
    }
    let (quic, address) = race(reach, authority, addresses).await?;
    if quic.handshake_data().protocol.as_deref() != Some(ALPN) {
        return Err(Error::NotHttp3);
    }
    Ok((Connection::new(quic, reach.config.clone()), address))
}

async fn resolve(reach: &Reach, authority: Authority<'_>) -> Result<VecDeque<SocketAddr>, Error> {
    if let Some(address) = reach.overrides.get(authority.0) {
        return Ok([*address].into());
    }
    if let Ok(address) = authority.0.parse::<IpAddr>() {
        return Ok([SocketAddr::new(address, authority.1)].into());
    }
    match tokio::net::lookup_host((authority.0, authority.1)).await {
        Ok(addresses) => Ok(addresses.collect()),
        Err(error) => Err(Error::Resolve { host: authority.0.to_owned(), error }),
    }
}

/// Tries the addresses in order. Each attempt has a head start on the next one.
async fn race(
    reach: &Reach,
    authority: Authority<'_>,
    mut addresses: VecDeque<SocketAddr>,
) -> Result<(crate::Connection, SocketAddr), Error> {
    let mut attempts = JoinSet::new();
    let mut failure = None;
    loop {
        if let Some(address) = addresses.pop_front() {
            match begin(reach, authority, address) {
                Ok(connecting) => {
                    attempts.spawn(async move { connecting.await.map(|connection| (connection, address)) });
                }
                Err(error) => {
                    failure = Some(error);
                    continue;
                }
            }
        }
        let patience = if addresses.is_empty() { Duration::MAX } else { ATTEMPT_DELAY };
        match tokio::time::timeout(patience, attempts.join_next()).await {
            Ok(Some(Ok(Ok(connected)))) => return Ok(connected),
            Ok(Some(Ok(Err(error)))) => failure = Some(Error::ConnectionLost(error)),
            Ok(None) if addresses.is_empty() => {
                return Err(failure.unwrap_or_else(|| unreachable_host(authority)));
            }
            // No attempt has ended with a result: the next address is due, no attempt is running, or an
            // attempt was aborted with its runtime.
            Ok(Some(Err(_)) | None) | Err(_) => {}
        }
    }
}

fn begin(reach: &Reach, authority: Authority<'_>, address: SocketAddr) -> Result<Connecting, Error> {
    Ok(reach.endpoint.connect_with(&reach.quic, address, authority.0)?)
}

fn unreachable_host(authority: Authority<'_>) -> Error {
    let error = std::io::Error::new(std::io::ErrorKind::NotFound, "the name has no address");
    Error::Resolve { host: authority.0.to_owned(), error }
}
