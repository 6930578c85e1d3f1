//! A connection with or without TLS. All randomness follows from the order's seed.

use core::time::Duration;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use anabranch_seeded::{Identity, deterministic_provider, seed_thread};
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256;
use rustls::pki_types::ServerName;
use rustls::{
    ClientConfig, ClientConnection, ServerConfig, ServerConnection, StreamOwned, SupportedProtocolVersion,
};

use crate::order::Order;
use crate::stack::Tls;

/// Name of the server in its certificate.
const NAME: &str = "server.test";
/// Seed of the certificate, the same for all orders.
const CERTIFICATE: u64 = 1;

/// An end of a connection.
pub(super) enum Stream {
    Plain(TcpStream),
    Client(Box<StreamOwned<ClientConnection, TcpStream>>),
    Server(Box<StreamOwned<ServerConnection, TcpStream>>),
}

/// Creates the client's end, and completes the handshake.
pub(super) fn client(order: &Order, connection: TcpStream) -> io::Result<Stream> {
    let Some(version) = order.stack.tls else { return Ok(Stream::Plain(connection)) };
    seed_thread(order.seed);
    let (provider, versions) = suite(version);
    let roots = identity()?.roots().map_err(io::Error::other)?;
    let config = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[versions]);
    let config = config.map_err(io::Error::other)?.with_root_certificates(roots).with_no_client_auth();
    let name = ServerName::try_from(NAME).map_err(io::Error::other)?;
    let session = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
    let mut stream = StreamOwned::new(session, connection);
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock)?;
    }
    Ok(Stream::Client(Box::new(stream)))
}

/// Creates the server's end. The handshake takes place in the first read.
pub(super) fn server(order: &Order, connection: TcpStream) -> io::Result<Stream> {
    let Some(version) = order.stack.tls else { return Ok(Stream::Plain(connection)) };
    seed_thread(order.seed ^ 1 << 63);
    let (provider, versions) = suite(version);
    let identity = identity()?;
    let config = ServerConfig::builder_with_provider(provider).with_protocol_versions(&[versions]);
    let config = config.map_err(io::Error::other)?.with_no_client_auth();
    let config =
        config.with_single_cert(vec![identity.certificate], identity.key).map_err(io::Error::other)?;
    let session = ServerConnection::new(Arc::new(config)).map_err(io::Error::other)?;
    Ok(Stream::Server(Box::new(StreamOwned::new(session, connection))))
}

fn identity() -> io::Result<Identity> {
    Identity::new(CERTIFICATE, &[NAME]).map_err(io::Error::other)
}

/// Returns the cryptography and the only TLS version of both ends. TLS 1.2 has a single cipher suite.
fn suite(version: Tls) -> (Arc<CryptoProvider>, &'static SupportedProtocolVersion) {
    let provider = deterministic_provider();
    match version {
        Tls::V13 => (provider, &rustls::version::TLS13),
        Tls::V12 => {
            let mut older = CryptoProvider::clone(&provider);
            older.cipher_suites = vec![TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256];
            (Arc::new(older), &rustls::version::TLS12)
        }
    }
}

impl Stream {
    /// Sets the maximum time for which a read waits; `None` for no maximum.
    pub(super) fn set_patience(&self, patience: Option<Duration>) -> io::Result<()> {
        let connection = match self {
            Self::Plain(connection) => connection,
            Self::Client(stream) => &stream.sock,
            Self::Server(stream) => &stream.sock,
        };
        connection.set_read_timeout(patience)
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(connection) => connection.read(buffer),
            Self::Client(stream) => stream.read(buffer),
            Self::Server(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(connection) => connection.write(bytes),
            Self::Client(stream) => stream.write(bytes),
            Self::Server(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(connection) => connection.flush(),
            Self::Client(stream) => stream.flush(),
            Self::Server(stream) => stream.flush(),
        }
    }
}
