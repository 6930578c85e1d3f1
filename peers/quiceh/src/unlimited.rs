//! Settings of quiceh for measurements without sockets. quiceh can load a certificate only from files.

use peer_common::Failure;
use peer_common::args::{Values, Wire};
use quiche::Config;

use crate::pair::unlimit;
use crate::stack;

/// Flags for these settings.
pub const FLAGS: &[&str] = &["--wire", "--cert", "--key"];

fn wire(flags: &Values) -> Result<Wire, Failure> {
    Ok(flags.get("--wire")?.unwrap_or_default())
}

/// Returns the name of the measured stack and wire format.
pub fn name(flags: &Values) -> Result<String, Failure> {
    Ok(match wire(flags)? {
        Wire::V1 => format!("{}-v1", stack::NAME),
        Wire::Reverso => format!("{}-reverso", stack::NAME),
    })
}

/// Returns the client's and the server's settings.
pub fn configs(flags: &Values) -> Result<(Config, Config), Failure> {
    let version = stack::version_of(wire(flags)?);
    let (mut client, mut server) = (Config::new(version)?, Config::new(version)?);
    server.load_cert_chain_from_pem_file(&flags.need::<String>("--cert")?)?;
    server.load_priv_key_from_pem_file(&flags.need::<String>("--key")?)?;
    unlimit(&mut client)?;
    unlimit(&mut server)?;
    Ok((client, server))
}

/// Advances the pool of quiceh's receive buffers by one of its eight shards. Reading a stream takes a buffer
/// from one shard and returns one to the next. By default it therefore takes from every second shard and
/// returns to the others, never reuses a buffer, and allocates each one anew. This is an error of the pool,
/// not a cost of VReverso.
pub fn between_batches() {
    drop(quiche::bufpool::pool_or_default().get());
}
