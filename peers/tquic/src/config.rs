//! Settings of client and server.

use std::path::Path;

use peer_common::args::{Client, Common, Server};
use peer_common::{Failure, failed, socket};
use tquic::{Config, TlsConfig};

/// Largest datagram that is sent; discovery of the path MTU goes up to it.
const MAX_DATAGRAM: usize = 1452;

/// Number of bytes in a key of stateless reset tokens.
const RESET_KEY: usize = 64;

/// Returns the settings of both roles.
fn shared(common: &Common) -> Result<Config, Failure> {
    if common.v2 {
        return Err(Failure::Unsupported("tquic has no QUIC version 2".into()));
    }
    if let Some(cpu) = common.one_core {
        socket::pin(cpu)?;
    }
    let mut config = Config::new()?;
    config.set_max_idle_timeout(u64::try_from(common.idle.as_millis())?);
    config.set_max_handshake_timeout(u64::try_from(common.idle.as_millis())?);
    config.set_send_udp_payload_size(MAX_DATAGRAM);
    // Windows are those of all peers from the beginning, and do not grow.
    config.set_initial_max_data(common.window * 2);
    config.set_max_connection_window(common.window * 2);
    config.set_initial_max_stream_data_bidi_local(common.window);
    config.set_initial_max_stream_data_bidi_remote(common.window);
    config.set_max_stream_window(common.window);
    // Otherwise the key is empty, and everybody could send resets.
    config.set_reset_token_key(random()?);
    Ok(config)
}

/// Returns the settings of a server.
pub fn server(options: &Server) -> Result<Config, Failure> {
    if options.tickets.is_some() {
        return Err(Failure::Unsupported("tquic's program does not choose the number of tickets".into()));
    }
    if options.preferred.is_some() || !options.migration {
        return Err(Failure::Unsupported(
            "tquic's interface has neither preferred_address nor disable_active_migration".into(),
        ));
    }
    let mut config = shared(&options.common)?;
    config.enable_retry(options.retry);
    if let Some(key) = &options.reset_key {
        let mut padded = [0; RESET_KEY];
        padded[..key.0.len()].copy_from_slice(&key.0);
        config.set_reset_token_key(padded);
    }
    let protocols = ["perf", "hq-interop", "h3"].map(|name| name.as_bytes().to_vec()).to_vec();
    let mut tls = TlsConfig::new_server_config(text(&options.cert)?, text(&options.key)?, protocols, true)?;
    let key: [u8; RESET_KEY] = random()?;
    tls.set_ticket_key(&key[..48])?;
    config.set_tls_config(tls);
    Ok(config)
}

/// Returns the settings of a client.
pub fn client(options: &Client, early_data: bool) -> Result<Config, Failure> {
    let mut config = shared(&options.common)?;
    let mut tls = TlsConfig::new_client_config(vec![options.work.alpn().into()], early_data)?;
    tls.set_verify(true);
    tls.set_ca_certs(text(&options.ca)?)?;
    config.set_tls_config(tls);
    Ok(config)
}

fn text(path: &Path) -> Result<&str, Failure> {
    path.to_str().map_or_else(|| failed("a path is not UTF-8"), Ok)
}

/// Returns random bytes, of connection IDs.
fn random() -> Result<[u8; RESET_KEY], Failure> {
    let mut bytes = [0; RESET_KEY];
    for part in bytes.chunks_mut(16) {
        part.copy_from_slice(&tquic::ConnectionId::random()[..part.len()]);
    }
    Ok(bytes)
}
