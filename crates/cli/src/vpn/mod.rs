//! `anabranch vpn`: all packets of this host through a proxy.

mod around;
mod carry;
mod connect;
mod dns;
mod flows;
mod host;
mod netlink;
mod options;
mod packets;
mod plan;
mod record;
mod remotes;
mod resolvers;
mod stack;
mod state;
mod undo;

use clap::Subcommand;

pub(crate) use self::options::Connect;

use crate::exit::Result;
use crate::proxy::config::Configured;
use crate::verbose::Verbosity;

/// Send all packets of this host through a proxy, over all networks at once
#[derive(Subcommand, Debug)]
pub(crate) enum Vpn {
    Connect(Configured<Connect>),
    Clean(undo::Clean),
}

impl Vpn {
    /// Returns the command's logging options; `None` if it makes no connections.
    pub(crate) fn verbosity(&self) -> Option<Verbosity> {
        match self {
            Self::Connect(options) => Some(options.verbosity()),
            Self::Clean(_) => None,
        }
    }

    pub(crate) async fn run(self) -> Result {
        match self {
            Self::Connect(options) => connect::run(options).await,
            Self::Clean(options) => undo::run(&options).await,
        }
    }
}
