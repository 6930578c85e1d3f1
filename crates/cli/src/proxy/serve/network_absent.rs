//! Replacement of `network.rs` without the feature `vpn`, and on systems other than Linux.

use anabranch::proxy::server::Proxy;
use clap::Args;
use tokio::task::JoinSet;

use crate::exit::Result;

/// Options of the network behind the proxy: none.
#[derive(Args, Clone, Debug)]
pub(super) struct Network {}

impl Network {
    /// Returns the proxy unchanged.
    #[expect(clippy::unnecessary_wraps, reason = "the other version can fail")]
    pub(super) fn attach(&self, proxy: Proxy, _: &mut JoinSet<()>) -> Result<Proxy> {
        Ok(proxy)
    }
}
