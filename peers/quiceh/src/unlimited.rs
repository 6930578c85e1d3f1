//! quiceh's settings for measurements without sockets. It takes a certificate from files only.

use peer_common::Failure;
use peer_common::args::{Values, Wire};
use quiche::Config;

use crate::pair::unlimit;
use crate::stack;

/// Flags that the settings come from.
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

/// Turns the pool of quiceh's receive buffers by one shard. A stream that is read takes a buffer from one
/// shard and puts one into the next, of eight; left to itself it takes from every second one and puts into
/// the others, so that it never gets back what it put, and each buffer is new memory. That is a slip of the
/// pool, not a cost of VReverso.
pub fn between_batches() {
    drop(quiche::bufpool::pool_or_default().get());
}
