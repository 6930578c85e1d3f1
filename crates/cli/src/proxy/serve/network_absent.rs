//! Replacement of `network.rs` without the feature `vpn`, and on systems other than Linux.

use anabranch::proxy::server::Proxy;
use clap::Args;
use tokio::task::JoinSet;

use crate::exit::{Exit, Failure, Result};
use crate::proxy::config::VpnNetworks;

/// Options of the network behind the proxy: none.
#[derive(Args, Clone, Debug)]
pub(super) struct Network {}

impl Network {
    /// Returns the proxy unchanged.
    ///
    /// # Errors
    /// Fails if the configuration has pools.
    pub(super) fn attach(
        &self,
        configured: &VpnNetworks,
        proxy: Proxy,
        _: &mut JoinSet<()>,
    ) -> Result<Proxy> {
        match configured.pools.is_empty() {
            true => Ok(proxy),
            false => {
                Err(Failure::new(Exit::Usage, "vpn_pool: this build of anabranch carries no IP packets"))
            }
        }
    }
}
