//! Settings of quiche: flow control windows as in peers/README.md, packets up to the size of the lab's links,
//! and the lab's certificate.

use anabranch_guest::{Hello, Role};
use boring::pkey::PKey;
use boring::ssl::{SslContextBuilder, SslMethod, SslVerifyMode};
use boring::x509::X509;
use quiche::{Config, CongestionControlAlgorithm, PROTOCOL_VERSION};

/// Number of bytes of UDP payload that fit into the 1500 bytes of the lab's links, over IPv4.
pub const MTU: usize = 1472;
/// Receive window of a stream in bytes. The connection's receive window is twice as large.
const WINDOW: u64 = 16 << 20;

pub fn of(hello: &Hello, congestion: CongestionControlAlgorithm) -> Result<Config, String> {
    let said = |error: boring::error::ErrorStack| error.to_string();
    let mut tls = SslContextBuilder::new(SslMethod::tls()).map_err(said)?;
    // The lab's certificates use Ed25519, which BoringSSL accepts only if it is listed here.
    tls.set_sigalgs_list("ed25519").map_err(said)?;
    tls.set_curves_list("X25519").map_err(said)?;
    let certificate = X509::from_der(&hello.certificate).map_err(said)?;
    match hello.role {
        Role::Client => {
            tls.cert_store_mut().add_cert(certificate).map_err(said)?;
            tls.set_verify(SslVerifyMode::PEER);
        }
        Role::Server => {
            tls.set_certificate(&certificate).map_err(said)?;
            let key = PKey::private_key_from_der(&hello.key).map_err(said)?;
            tls.set_private_key(&key).map_err(said)?;
        }
    }
    let said = |error: quiche::Error| error.to_string();
    let mut config = Config::with_boring_ssl_ctx_builder(PROTOCOL_VERSION, tls).map_err(said)?;
    config.set_application_protos(&[hello.alpn.as_bytes()]).map_err(said)?;
    config.set_max_idle_timeout(30_000);
    config.set_max_recv_udp_payload_size(65_527);
    config.set_max_send_udp_payload_size(MTU);
    config.set_initial_max_data(2 * WINDOW);
    config.set_max_connection_window(2 * WINDOW);
    config.set_initial_max_stream_data_bidi_local(WINDOW);
    config.set_initial_max_stream_data_bidi_remote(WINDOW);
    config.set_max_stream_window(WINDOW);
    config.set_initial_max_streams_bidi(100);
    config.set_cc_algorithm(congestion);
    Ok(config)
}
