//! `anabranch interop multipath`: an endpoint that follows a plan of opening and closing paths and setting
//! their status during a transfer. The cases of `cargo xtask interop --multipath` are such plans.

mod client;
mod content;
mod paths;
mod plan;
mod server;
mod words;

use std::time::Duration;

use anabranch::{MultipathConfig, TransportConfig};
use clap::{Args, Subcommand};

use self::plan::Plan;
use crate::exit::Result;
use crate::options::Tuning;

/// Protocol name in ALPN of [`content`].
const ALPN: &str = "checked";
/// Time for the other end to receive CONNECTION_CLOSE.
const FAREWELL: Duration = Duration::from_millis(500);

/// Run an endpoint of a multipath case (see peers/README.md)
#[derive(Subcommand, Debug)]
pub(super) enum Multipath {
    /// Serve until standard input ends
    Server(server::Server),
    /// Transfer data, follow the plan, and print a report
    Client(client::Client),
}

/// Options of both endpoints.
#[derive(Args, Clone, Debug)]
struct Common {
    /// Maximum number of paths at once; 0 turns multipath off
    #[arg(long, value_name = "N", default_value_t = 4)]
    paths: u32,
    /// Plan of the paths: steps, separated by semicolons
    #[arg(long, value_name = "STEPS", default_value = "")]
    plan: Plan,
    #[command(flatten)]
    tuning: Tuning,
}

impl Common {
    fn transport(&self) -> TransportConfig {
        let config = MultipathConfig::default().with_max_paths(self.paths);
        self.tuning.transport().with_multipath((self.paths > 0).then_some(config))
    }
}

pub(super) async fn run(end: Multipath) -> Result {
    match end {
        Multipath::Server(options) => server::run(options).await,
        Multipath::Client(options) => client::run(options).await,
    }
}
