//! Handshakes of one server, in memory.

use anabranch_transport::TransportConfig;

use crate::Error;
use crate::memory::Memory;

/// Opens `count` connections to one server, which stay open: with full handshakes or, after the first one, with resumed sessions.
/// Returns their number.
///
/// # Errors
///
/// A handshake did not succeed.
pub fn run(count: u64, resumed: bool) -> Result<u64, Error> {
    let mut memory = Memory::with_sessions(TransportConfig::default(), usize::from(resumed))?;
    for _ in 0..count {
        memory.connect()?;
    }
    Ok(count)
}
