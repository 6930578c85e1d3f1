//! `anabranch proxy`: the client and the server of tunnels for TCP connections and UDP flows of other programs.

mod check;
pub(crate) mod config;
pub(crate) mod connect;
mod hash;
mod serve;

use clap::Subcommand;

use crate::exit::Result;
use crate::verbose::Verbosity;

/// Maximum size of the datagrams that wait to be sent on one connection, in bytes: those of 100 ms at 300 Mbit/s, in which a
/// connection finds the rate of its paths. The deadline of each datagram limits its age.
const MAX_WAITING_DATAGRAMS: usize = 4 << 20;

/// Carry TCP connections and UDP flows of other programs over HTTP/3, over several paths at once
#[derive(Subcommand, Debug)]
pub(crate) enum Proxy {
    Connect(config::Configured<connect::Connect>),
    Serve(Box<serve::Serve>),
    Check(check::Check),
    Hash(hash::Hash),
}

impl Proxy {
    /// Returns the command's logging options; `None` if it makes no connections.
    pub(crate) fn verbosity(&self) -> Option<Verbosity> {
        match self {
            Self::Connect(options) => Some(options.verbosity()),
            Self::Serve(options) => Some(options.verbosity),
            Self::Check(_) | Self::Hash(_) => None,
        }
    }

    /// Runs the command. `block_on` runs a future on the given number of threads, or on one for each CPU if the number is 0.
    pub(crate) fn run<R>(self, mut block_on: R) -> Result
    where
        R: FnMut(usize, std::pin::Pin<Box<dyn Future<Output = Result>>>) -> Result,
    {
        match self {
            Self::Connect(options) => block_on(0, Box::pin(connect::run(options))),
            Self::Serve(options) => block_on(0, Box::pin(serve::run(*options))),
            Self::Check(options) => check::run(&options),
            Self::Hash(options) => hash::run(&options),
        }
    }
}
