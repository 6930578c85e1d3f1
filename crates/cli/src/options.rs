//! Options that several commands share, and the configurations that they produce.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anabranch::congestion::Algorithm;
use anabranch::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use anabranch::rustls::{self, crypto::CryptoProvider};
use anabranch::{ClientConfig, Endpoint, ServerConfig, StreamsConfig, TransportConfig, Version, config, tls};
use clap::Args;
use ipnet::IpNet;

use crate::algorithm;
use crate::exit::{Exit, Failure, Result};
use crate::insecure::AcceptAnyCertificate;
use crate::pin::{Pin, PinnedKey};
use crate::size;
use crate::verifier::JudgedVerifier;
use crate::wire::Wire;

/// Maximum idle timeout, in milliseconds: 49 days.
const MAX_IDLE_MS: u64 = u32::MAX as u64;
/// Maximum window of a stream, in bytes. The connection's window is twice as large and must fit in a
/// variable-length integer (RFC 9000 §16).
const MAX_WINDOW: u64 = (1 << 61) - 1;

/// Settings of the transport.
#[derive(Args, Clone, Debug)]
pub(crate) struct Tuning {
    /// Close a silent connection after this many milliseconds
    #[arg(long, value_name = "N", default_value_t = 30_000,
          value_parser = clap::value_parser!(u64).range(..=MAX_IDLE_MS))]
    pub(crate) idle_ms: u64,
    /// Bytes that a peer may send on a stream ahead of its reader; a connection gets twice this amount
    #[arg(long, value_name = "BYTES", default_value = "16MiB", value_parser = window)]
    pub(crate) window: u64,
    /// Congestion controller
    #[arg(long, value_name = "NAME", default_value_t = Algorithm::Bbr, value_parser = algorithm::controller)]
    pub(crate) congestion: Algorithm,
    /// Wire image of packets: a client uses it from the first packet on, and no other; a server prefers it to
    /// version 1. Without this option a server also accepts VReverso
    #[arg(long, value_name = "WIRE", value_enum, conflicts_with = "v2")]
    pub(crate) wire: Option<Wire>,
    /// Stay at one address: a client does not migrate when addresses or routes change or its network falls
    /// silent; a server does not let its clients migrate
    #[arg(long)]
    pub(crate) no_migration: bool,
    /// Support QUIC version 2 (RFC 9369) too, and prefer it
    #[arg(long)]
    pub(crate) v2: bool,
}

impl Tuning {
    pub(crate) fn transport(&self) -> TransportConfig {
        let streams = StreamsConfig::default()
            .with_stream_window(self.window)
            .with_stream_window_max(self.window)
            .with_connection_window(self.window * 2)
            .with_connection_window_max(self.window * 2);
        let versions = match self.wire {
            Some(wire) => vec![wire.version()],
            None if self.v2 => vec![Version::V2, Version::V1],
            None => vec![Version::V1],
        };
        let defaults = TransportConfig::default();
        // A longer idle timeout also means a longer handshake timeout.
        let patience = defaults.handshake_timeout().max(Duration::from_millis(self.idle_ms));
        let recovery = defaults.recovery().clone().with_congestion(self.congestion);
        defaults
            .with_streams(streams)
            .with_recovery(recovery)
            .with_handshake_timeout(patience)
            .with_migration(!self.no_migration)
            .with_max_idle_timeout((self.idle_ms > 0).then(|| Duration::from_millis(self.idle_ms)))
            .with_versions(versions)
    }

    /// Returns the configuration for a server.
    pub(crate) fn served(&self) -> TransportConfig {
        let versions = match self.wire {
            Some(wire) => wire.served(),
            None if self.v2 => Wire::V2.served(),
            None => Wire::Reverso.served(),
        };
        self.transport().with_versions(versions)
    }

    /// Returns the QUIC version of a client's first packets.
    pub(crate) fn first_version(&self) -> Version {
        self.wire.map_or(Version::V1, Wire::version)
    }
}

/// Parses a stream's window, at most [`MAX_WINDOW`].
fn window(text: &str) -> std::result::Result<u64, String> {
    match size::parse(text)? {
        window @ 1..=MAX_WINDOW => Ok(window),
        _ => Err(format!("it has 1 to {MAX_WINDOW} bytes")),
    }
}

/// Options that decide which servers are trusted.
#[derive(Args, Clone, Debug)]
pub(crate) struct Trust {
    /// Trust the certificates in this PEM file instead of the system's
    #[arg(long, value_name = "PEM", conflicts_with_all = ["insecure", "pin"])]
    pub(crate) ca: Option<PathBuf>,
    /// Trust the server that has this key, and no other, regardless of its certificate; `anabranch serve`
    /// prints it
    #[arg(long, value_name = "sha256:DIGEST", conflicts_with = "insecure")]
    pub(crate) pin: Option<Pin>,
    /// Trust any server
    #[arg(long)]
    pub(crate) insecure: bool,
}

/// Parts of a client's configuration.
pub(crate) struct ClientPlan<'a> {
    pub(crate) trust: &'a Trust,
    pub(crate) alpn: &'a str,
    pub(crate) transport: TransportConfig,
    /// QUIC version of the first packets.
    pub(crate) first: Version,
    /// `true` if the client offers only TLS_CHACHA20_POLY1305_SHA256.
    pub(crate) chacha20: bool,
    /// `true` if the client stores sessions to resume them.
    pub(crate) resume: bool,
}

/// A client's certificate chain, and its private key.
pub(crate) type ClientIdentity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

impl ClientPlan<'_> {
    pub(crate) fn config(self) -> Result<ClientConfig> {
        self.config_with(None)
    }

    /// Creates the configuration of a client that shows a certificate to servers that request one.
    pub(crate) fn config_with(self, identity: Option<ClientIdentity>) -> Result<ClientConfig> {
        let mut builder = tls::ClientConfig::builder().alpn([self.alpn]).key_log_from_environment();
        if let Some((chain, key)) = identity {
            builder = builder.certificate(chain, key);
        }
        builder = match (&self.trust.ca, self.trust.pin, self.trust.insecure) {
            (_, _, true) => builder.verifier(Arc::new(JudgedVerifier::new(AcceptAnyCertificate))),
            (_, Some(pin), false) => builder.verifier(Arc::new(JudgedVerifier::new(PinnedKey(pin)))),
            (Some(file), None, false) => builder.roots(config::roots(file)?),
            (None, None, false) => builder.roots(config::system_roots()?),
        };
        if self.chacha20 {
            builder = builder.provider(Arc::new(only_chacha20()));
        }
        builder = if self.resume { builder.early_data(true) } else { builder.remembered_servers(0) };
        let tls = builder.build().map_err(|error| Failure::new(Exit::Usage, error))?;
        let config = ClientConfig::new(tls).with_transport(self.transport).with_initial_version(self.first);
        Ok(config)
    }
}

/// Returns the default cryptography, with TLS_CHACHA20_POLY1305_SHA256 as its only cipher suite.
pub(crate) fn only_chacha20() -> CryptoProvider {
    let mut provider = rustls::crypto::aws_lc_rs::default_provider();
    let wanted = rustls::CipherSuite::TLS13_CHACHA20_POLY1305_SHA256;
    provider.cipher_suites.retain(|suite| suite.suite() == wanted);
    provider
}

/// Parses the static key of stateless resets (RFC 9000 §10.3.2): 64 hexadecimal digits.
pub(crate) fn reset_key(digits: &str) -> std::result::Result<[u8; 32], String> {
    let mut key = [0; 32];
    if digits.len() != 2 * key.len() || !digits.is_ascii() {
        return Err(format!("{} hexadecimal digits are wanted", 2 * key.len()));
    }
    for (i, byte) in key.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).map_err(|error| error.to_string())?;
    }
    Ok(key)
}

/// Binds a server's endpoint. The error names the port if it is in use.
pub(crate) fn listen(
    config: ServerConfig,
    address: SocketAddr,
    reset_key: Option<[u8; 32]>,
    workers: usize,
) -> Result<Endpoint> {
    let bound = anabranch::bind_workers(address, workers).and_then(|sockets| {
        let mut secrets = anabranch::random_config()?;
        if let Some(key) = reset_key {
            secrets = secrets.with_reset_key(key);
        }
        Ok(Endpoint::with_workers(&secrets, Some(config), sockets)?)
    });
    bound.map_err(|error| cannot_listen(address, &error))
}

/// Parses a network in CIDR notation, or an address, which is a network of its own.
pub(crate) fn network(text: &str) -> std::result::Result<IpNet, String> {
    let address = || text.parse::<IpAddr>().map(IpNet::from);
    text.parse().or_else(|_| address()).map_err(|_| "write 192.0.2.0/24 or 192.0.2.1".to_owned())
}

pub(crate) fn cannot_listen(address: SocketAddr, error: &std::io::Error) -> Failure {
    match error.kind() {
        std::io::ErrorKind::AddrInUse => Failure::new(Exit::BusyPort, format!("{address} is in use"))
            .or("choose another address, or port 0"),
        _ => Failure::io(format_args!("cannot listen on {address}"), error),
    }
}

/// Returns the absolute path of an existing directory, with symbolic links resolved.
pub(crate) fn directory(path: &Path) -> Result<PathBuf> {
    match path.canonicalize() {
        Ok(path) if path.is_dir() => Ok(path),
        Ok(_) => Err(Failure::new(Exit::Usage, format!("{} is not a directory", path.display()))),
        Err(error) => {
            let failure = Failure::new(Exit::Usage, format!("{}: {error}", path.display()));
            let is_address =
                path.to_str().is_some_and(|name| name.starts_with(':') || name.parse::<SocketAddr>().is_ok());
            Err(if is_address { failure.or("say where to listen with --listen") } else { failure })
        }
    }
}
