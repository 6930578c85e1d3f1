//! In place of `network.rs` where there are no TUN devices, or none are wanted.

use anabranch::proxy::server::Proxy;
use clap::Args;
use tokio::task::JoinSet;

use crate::exit::Result;

/// Options of the network behind the proxy: none.
#[derive(Args, Clone, Debug)]
pub(super) struct Network {}

impl Network {
    /// Returns the proxy as it is.
    #[expect(clippy::unnecessary_wraps, reason = "the other version can fail")]
    pub(super) fn attach(&self, proxy: Proxy, _: &mut JoinSet<()>) -> Result<Proxy> {
        Ok(proxy)
    }
}
