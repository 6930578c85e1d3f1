//! One attempt to connect to the proxy over TCP.

use std::io;

use anabranch_tls::rustls::pki_types::ServerName;
use tokio::sync::watch;
use tokio_rustls::TlsConnector;

use super::connection::Connection;
use super::dial::dial;
use super::error::TcpFailure;
use crate::paths::Candidate;
use crate::proxy::client::config::ProxyConfig;

/// ALPN protocol name of HTTP/2 (RFC 9113 §3.1).
const ALPN: &[u8] = b"h2";

/// Connects to the proxy by one of the candidates. The connection is aborted when `farewell` says so.
pub(in crate::proxy::client) async fn connect(
    config: &ProxyConfig,
    candidates: Vec<Candidate>,
    farewell: &watch::Sender<bool>,
) -> Result<Connection, TcpFailure> {
    let name = ServerName::try_from(config.host.clone())
        .map_err(|error| TcpFailure::Tcp(io::Error::new(io::ErrorKind::InvalidInput, error)))?;
    let tcp = dial(candidates, config.race, config.tcp_mark).await.map_err(TcpFailure::Tcp)?;
    let tls = TlsConnector::from(config.quic.tls().over_tcp([ALPN]));
    let stream = tls.connect(name, tcp).await.map_err(TcpFailure::Later)?;
    if stream.get_ref().1.alpn_protocol() != Some(ALPN) {
        return Err(TcpFailure::Later(io::Error::other("the server does not speak HTTP/2")));
    }
    Connection::begin(stream, farewell).await
}
