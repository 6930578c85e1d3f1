//! `anabranch interop`: an endpoint of the public interop runner (quic-interop-runner). Its interface
//! consists of environment variables, folders and exit statuses; `interop/run_endpoint.sh` passes them on.

mod case;
mod client;
mod contract;
mod multipath;
mod server;

use clap::{Args, Subcommand};

use self::contract::{Contract, Role};
use crate::exit::Result;

/// Run an endpoint of the QUIC interop runner
#[derive(Args, Debug)]
#[command(after_help = ENVIRONMENT)]
pub(crate) struct Interop {
    /// Only report, by the exit status, whether TESTCASE is known
    #[arg(long)]
    pub(crate) check: bool,
    #[command(subcommand)]
    own: Option<Own>,
}

/// Cases that the public runner does not have.
#[derive(Subcommand, Debug)]
enum Own {
    /// Run an endpoint of a multipath case of this project (see peers/README.md)
    #[command(subcommand)]
    Multipath(multipath::Multipath),
}

const ENVIRONMENT: &str = "\
Environment: ROLE (client or server), TESTCASE, REQUESTS (a client's URLs, separated by spaces); ANABRANCH_WWW,
ANABRANCH_CERTS and ANABRANCH_DOWNLOADS in place of /www, /certs and /downloads, ANABRANCH_PORT in place of 443;
SSLKEYLOGFILE and QLOGDIR as everywhere.

Exit status: 0 success, 1 failure, 127 unknown TESTCASE.";

pub(crate) async fn run(options: Interop) -> Result {
    if let Some(Own::Multipath(end)) = options.own {
        return multipath::run(end).await.map_err(contract::failed);
    }
    let (contract, case) = Contract::read(|name| std::env::var(name).ok())?;
    if options.check {
        return Ok(());
    }
    let done = match contract.role {
        Role::Client => client::run(&contract, case).await,
        Role::Server => server::run(&contract, case).await,
    };
    done.map_err(contract::failed)
}
