//! `anabranch vpn`: all packets of this host through a proxy.

mod connect;
mod dns;
mod netlink;
mod packets;
mod plan;
mod stack;
mod state;
mod undo;

use clap::Subcommand;

use crate::exit::Result;
use crate::verbose::Verbosity;

/// Send all packets of this host through a proxy, over all networks at once
#[derive(Subcommand, Debug)]
pub(crate) enum Vpn {
    Connect(Box<connect::Connect>),
    Clean(undo::Clean),
}

impl Vpn {
    /// Returns the command's logging options; `None` if it makes no connections.
    pub(crate) fn verbosity(&self) -> Option<Verbosity> {
        match self {
            Self::Connect(options) => Some(options.verbosity),
            Self::Clean(_) => None,
        }
    }

    pub(crate) async fn run(self) -> Result {
        match self {
            Self::Connect(options) => connect::run(*options).await,
            Self::Clean(options) => undo::run(&options).await,
        }
    }
}
