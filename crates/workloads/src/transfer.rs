//! A download over two paths in virtual time.

use std::time::Duration;

use anabranch_lab::link::LinkSpec;
use anabranch_lab::transfer::{Measured, Transfer};
use anabranch_transport::{MultipathConfig, TransportConfig};

use crate::Error;

/// Rate in bits per second and round-trip time in milliseconds of each path. Queues hold one bandwidth-delay product.
pub const LINKS: [(u64, u64); 2] = [(50_000_000, 30), (40_000_000, 60)];

/// Largest UDP payload on links with an MTU of 1500 bytes.
pub const MAX_UDP_PAYLOAD: usize = 1472;

/// Returns the download of `bytes` with default settings on all paths.
pub fn two_paths(seed: u64, bytes: u64) -> Transfer {
    let transport = TransportConfig::default().with_multipath(MultipathConfig::default());
    let link = |(rate, rtt)| LinkSpec::new(rate, Duration::from_millis(rtt)).mtu(MAX_UDP_PAYLOAD);
    Transfer { seed, links: LINKS.map(link).into(), bytes, client: transport.clone(), server: transport }
}

/// Runs a download to its end.
///
/// # Errors
///
/// The download did not end.
#[inline(never)]
pub fn simulate(transfer: &Transfer) -> Result<Measured, Error> {
    Ok(transfer.run(false)?)
}
