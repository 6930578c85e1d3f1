//! `anabranch proxy connect`: the end of the tunnel that programs use.

use clap::Args;

use crate::exit::{self, Exit, Failure, Result};
use crate::verbose::Verbosity;

/// Offer programs of this host a proxy whose connections are carried to a server
#[derive(Args, Debug)]
#[command(after_help = exit::STATUSES)]
pub(crate) struct Connect {
    #[command(flatten)]
    pub(crate) verbosity: Verbosity,
}

pub(crate) async fn run(_options: Connect) -> Result {
    Err(Failure::new(Exit::Usage, "this build has no client of tunnels"))
}
