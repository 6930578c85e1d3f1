//! Configurations of client and server: seeded TLS, flow control windows as in peers/README.md, and packets
//! up to the size of the lab's links.

use std::process::ExitCode;
use std::sync::Arc;

use anabranch_guest::{Hello, serve};
use anabranch_seeded::{VirtualClock, deterministic_provider};
use proto::congestion::{ControllerFactory, CubicConfig, NewRenoConfig};
use proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use proto::{ClientConfig, EndpointConfig, MtuDiscoveryConfig, ServerConfig, TransportConfig, VarInt};
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};

use crate::flavor;
use crate::stack::Quinn;

/// Receive window of a stream in bytes. The connection's receive window and its send window are twice as
/// large.
const WINDOW: u32 = 16 << 20;
/// Number of bytes of UDP payload that fit into the 1500 bytes of the lab's links, over IPv4.
const MTU: u16 = 1472;

/// Runs the guest. The command line may contain only `--congestion NAME`.
pub fn play(name: &str) -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let congestion = match &arguments[..] {
        [] => Some("cubic"),
        [flag, name] if flag == "--congestion" => Some(name.as_str()),
        _ => None,
    };
    let Some(factory) = congestion.and_then(controller) else {
        eprintln!("use {name} [--congestion cubic|newreno|bbr], as a guest of `anabranch lab run`");
        return ExitCode::from(2);
    };
    serve(name, |hello| Quinn::new(hello, factory))
}

fn controller(name: &str) -> Option<Arc<dyn ControllerFactory + Send + Sync>> {
    match name {
        "cubic" => Some(Arc::new(CubicConfig::default())),
        "newreno" => Some(Arc::new(NewRenoConfig::default())),
        "bbr" => Some(flavor::bbr()),
        _ => None,
    }
}

pub fn transport(
    hello: &Hello,
    factory: Arc<dyn ControllerFactory + Send + Sync>,
) -> Result<Arc<TransportConfig>, String> {
    let mut discovery = MtuDiscoveryConfig::default();
    discovery.upper_bound(MTU);
    let mut config = TransportConfig::default();
    config
        .stream_receive_window(VarInt::from_u32(WINDOW))
        .receive_window(VarInt::from_u32(2 * WINDOW))
        .send_window(2 * u64::from(WINDOW))
        .mtu_discovery_config(Some(discovery))
        .congestion_controller_factory(factory);
    flavor::paths(&mut config, hello.paths.len() as u32);
    Ok(Arc::new(config))
}

/// Returns a configuration with QUIC version 1 only. The stack chooses connection IDs and reset tokens at
/// random, which does not affect the timing of a run: only their lengths do.
pub fn endpoint() -> Arc<EndpointConfig> {
    let mut config = EndpointConfig::default();
    config.supported_versions(vec![1]);
    Arc::new(config)
}

/// Returns the seed of an endpoint's random number generator, which differs between client and server.
pub fn seed(hello: &Hello) -> [u8; 32] {
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&hello.seed.to_le_bytes());
    seed[8] = u8::from(hello.key.is_empty());
    seed
}

pub fn client(hello: &Hello, clock: &Arc<VirtualClock>) -> Result<ClientConfig, String> {
    let said = |error: rustls::Error| error.to_string();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(hello.certificate.clone())).map_err(said)?;
    let mut tls =
        rustls::ClientConfig::builder_with_details(deterministic_provider(), Arc::clone(clock) as _)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(said)?
            .with_root_certificates(roots)
            .with_no_client_auth();
    tls.alpn_protocols = vec![hello.alpn.clone().into_bytes()];
    let tls = QuicClientConfig::try_from(tls).map_err(|error| error.to_string())?;
    Ok(ClientConfig::new(Arc::new(tls)))
}

pub fn server(hello: &Hello, clock: &Arc<VirtualClock>) -> Result<ServerConfig, String> {
    let said = |error: rustls::Error| error.to_string();
    let certificate = CertificateDer::from(hello.certificate.clone());
    let key = PrivatePkcs8KeyDer::from(hello.key.clone());
    let mut tls =
        rustls::ServerConfig::builder_with_details(deterministic_provider(), Arc::clone(clock) as _)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(said)?
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key.into())
            .map_err(said)?;
    tls.alpn_protocols = vec![hello.alpn.clone().into_bytes()];
    let tls = QuicServerConfig::try_from(tls).map_err(|error| error.to_string())?;
    Ok(ServerConfig::with_crypto(Arc::new(tls)))
}
