//! Settings of quiceh.

use bytes::Bytes;
use peer_common::args::{Client, Common, Server};
use peer_common::{Failure, failed};
use quiche::{BufFactory, BufSplit, Config};

use crate::stack;

/// UDP payload of a full packet: the maximum for an MTU of 1,500 bytes over IPv6, as other stacks' MTU
/// discovery finds it.
pub const PACKET: usize = 1452;

/// Number of streams that a client may have open; quiceh raises the limit as they finish.
const STREAMS: u64 = 100;

/// Number of unidirectional streams that a peer may open: HTTP/3's control stream, two QPACK streams, and a
/// reserve.
const UNI_STREAMS: u64 = 8;

/// Maximum number of datagrams queued in each direction. The oldest one is dropped when it is exceeded.
const DATAGRAMS: usize = 1024;

/// Factory of reference-counted buffers. The static pattern is copied only into packets.
#[derive(Clone, Debug, Default)]
pub struct Shared;

/// Reference-counted buffer.
#[derive(Clone, Debug, Default)]
pub struct Buffer(pub Bytes);

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl BufSplit for Buffer {
    fn split_at(&mut self, at: usize) -> Self {
        Self(self.0.split_off(at))
    }
}

impl BufFactory for Shared {
    type Buf = Buffer;

    fn buf_from_slice(buf: &[u8]) -> Buffer {
        Buffer(Bytes::copy_from_slice(buf))
    }
}

/// Connection of a client or a server.
pub type Connection = quiche::Connection<Shared>;

fn both(common: &Common, alpn: &[&[u8]]) -> Result<Config, Failure> {
    let mut config = Config::new(stack::version(common))?;
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

/// Returns the server's settings. The server accepts clients of either version, whatever its own version is.
pub fn server(options: &Server) -> Result<Config, Failure> {
    if options.tickets.is_some() {
        return Err(Failure::Unsupported("quiceh's program does not choose the number of tickets".into()));
    }
    let (Some(cert), Some(key)) = (options.cert.to_str(), options.key.to_str()) else {
        return failed("paths must be UTF-8");
    };
    let mut config = both(&options.common, &[b"perf", b"hq-interop", b"h3"])?;
    config.load_cert_chain_from_pem_file(cert)?;
    config.load_priv_key_from_pem_file(key)?;
    config.set_disable_active_migration(!options.migration);
    config.enable_early_data();
    Ok(config)
}

/// Returns the client's settings.
pub fn client(options: &Client) -> Result<Config, Failure> {
    let Some(ca) = options.ca.to_str() else { return failed("paths must be UTF-8") };
    let mut config = both(&options.common, &[options.work.alpn().as_bytes()])?;
    config.verify_peer(true);
    config.load_verify_locations_from_file(ca)?;
    Ok(config)
}
