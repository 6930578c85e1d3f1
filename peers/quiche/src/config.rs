//! Settings of quiche.

use boring::ssl::{SslContextBuilder, SslMethod, SslOptions};
use bytes::Bytes;
use peer_common::args::{Client, Common, Server};
use peer_common::{Failure, failed};
use quiche::{BufFactory, Config, PROTOCOL_VERSION};

/// UDP payload of a full packet: the maximum for an MTU of 1,500 bytes over IPv6, as other stacks' MTU
/// discovery finds it.
pub const PACKET: usize = 1452;

/// Number of streams that a client may have open; quiche raises the limit as they finish.
const STREAMS: u64 = 100;

/// Number of unidirectional streams that a peer may open: HTTP/3's control stream, two QPACK streams, and a
/// reserve.
const UNI_STREAMS: u64 = 8;

/// Maximum number of datagrams queued in each direction. The oldest one is dropped when it is exceeded.
const DATAGRAMS: usize = 1024;

/// Number of tickets that BoringSSL issues for each full handshake.
const TICKETS: u32 = 2;

/// Factory of reference-counted buffers. The static pattern is copied only into packets.
#[derive(Clone, Debug, Default)]
pub struct Shared;

impl BufFactory for Shared {
    type Buf = Bytes;
    type DgramBuf = Vec<u8>;

    fn buf_from_slice(buf: &[u8]) -> Bytes {
        Bytes::copy_from_slice(buf)
    }

    fn dgram_buf_from_slice(buf: &[u8]) -> Vec<u8> {
        buf.to_vec()
    }
}

/// Connection of a client or a server.
pub type Connection = quiche::Connection<Shared>;

fn both(mut config: Config, common: &Common, alpn: &[&[u8]]) -> Result<Config, Failure> {
    // No post-quantum group is used, because its cost would hide the differences that the handshake benchmark
    // measures.
    config.set_curves_list("X25519:P-256")?;
    config.set_application_protos(alpn)?;
    config.set_max_idle_timeout(u64::try_from(common.idle.as_millis())?);
    config.set_max_send_udp_payload_size(PACKET);
    config.set_initial_max_data(common.window * 2);
    config.set_max_connection_window(common.window * 2);
    config.set_initial_max_stream_data_bidi_local(common.window);
    config.set_initial_max_stream_data_bidi_remote(common.window);
    config.set_max_stream_window(common.window);
    config.set_initial_max_streams_bidi(STREAMS);
    config.set_initial_max_stream_data_uni(common.window);
    config.set_initial_max_streams_uni(UNI_STREAMS);
    // Pacing needs a socket that delays packets, which the other peers do not use either.
    config.enable_pacing(false);
    config.enable_dgram(true, DATAGRAMS, DATAGRAMS);
    Ok(config)
}

/// Returns the server's settings.
pub fn server(options: &Server) -> Result<Config, Failure> {
    let (Some(cert), Some(key)) = (options.cert.to_str(), options.key.to_str()) else {
        return failed("paths must be UTF-8");
    };
    let fresh = if options.issues_tickets(TICKETS)? {
        Config::new(PROTOCOL_VERSION)?
    } else {
        let mut tls = SslContextBuilder::new(SslMethod::tls())?;
        tls.set_options(SslOptions::NO_TICKET);
        Config::with_boring_ssl_ctx_builder(PROTOCOL_VERSION, tls)?
    };
    let mut config = both(fresh, &options.common, &[b"perf", b"hq-interop", b"h3"])?;
    config.load_cert_chain_from_pem_file(cert)?;
    config.load_priv_key_from_pem_file(key)?;
    config.set_disable_active_migration(!options.migration);
    config.enable_early_data();
    Ok(config)
}

/// Returns the client's settings.
pub fn client(options: &Client) -> Result<Config, Failure> {
    let Some(ca) = options.ca.to_str() else { return failed("paths must be UTF-8") };
    let mut config =
        both(Config::new(PROTOCOL_VERSION)?, &options.common, &[options.work.alpn().as_bytes()])?;
    config.verify_peer(true);
    config.load_verify_locations_from_file(ca)?;
    config.enable_early_data();
    Ok(config)
}
