//! The `anabranch` command.
#![forbid(unsafe_code)]

mod algorithm;
mod demo;
mod environment;
mod events;
mod exit;
mod files;
mod forward;
mod get;
mod hq;
mod identity;
mod insecure;
mod interop;
#[cfg(feature = "lab")]
mod lab;
#[cfg(not(feature = "lab"))]
#[path = "lab_absent.rs"]
mod lab;
mod lines;
mod listen;
mod manual;
mod multipath;
mod options;
mod output;
mod paths;
mod perf;
mod pin;
mod proxy;
mod rate;
mod relay;
mod reordering;
mod screen;
mod serve;
mod server;
mod signal;
mod size;
mod status;
mod table;
mod target;
#[cfg(all(feature = "vpn", target_os = "linux"))]
mod tun;
mod verbose;
mod verifier;
#[cfg(all(feature = "vpn", target_os = "linux"))]
mod vpn;
mod wire;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use tokio::runtime::Builder;

use crate::exit::{Failure, Result};
use crate::verbose::Verbosity;

/// Allocator of the command. Requests allocate many small blocks, and the system's allocator makes a busy
/// server a tenth slower.
#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// QUIC from the command line
#[derive(Parser, Debug)]
#[command(name = "anabranch", version, after_help = format!("{}\n\n{}", exit::STATUSES, environment::HELP))]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Get(get::Get),
    Serve(serve::Serve),
    #[command(subcommand)]
    Perf(perf::Perf),
    Demo(demo::Demo),
    #[command(subcommand)]
    Proxy(proxy::Proxy),
    Forward(proxy::config::Configured<forward::Forward>),
    #[cfg(all(feature = "vpn", target_os = "linux"))]
    #[command(subcommand)]
    Vpn(vpn::Vpn),
    Relay(relay::Relay),
    Status(status::Status),
    Paths(paths::Paths),
    Interop(interop::Interop),
    #[cfg_attr(feature = "lab", command(subcommand))]
    #[cfg_attr(not(feature = "lab"), command(hide = true))]
    Lab(lab::Lab),
    Completions(manual::Completions),
    Man(manual::Manual),
}

impl Command {
    /// Returns the command's logging options; `None` if it makes no connections.
    fn verbosity(&self) -> Option<Verbosity> {
        match self {
            Self::Get(options) => Some(options.verbosity),
            Self::Serve(options) => Some(options.verbosity),
            Self::Perf(options) => Some(options.verbosity()),
            Self::Demo(options) => Some(options.verbosity),
            Self::Proxy(command) => command.verbosity(),
            Self::Forward(options) => Some(options.verbosity()),
            #[cfg(all(feature = "vpn", target_os = "linux"))]
            Self::Vpn(command) => command.verbosity(),
            Self::Relay(_) => None,
            Self::Interop(options) => (!options.check).then(Verbosity::default),
            Self::Lab(_) | Self::Paths(_) | Self::Status(_) | Self::Completions(_) | Self::Man(_) => None,
        }
    }
}

fn main() -> ExitCode {
    let result = run(Cli::parse().command);
    verbose::flush();
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn run(command: Command) -> Result {
    if let Some(verbosity) = command.verbosity() {
        verbosity.begin()?;
        environment::check();
    }
    match command {
        Command::Get(options) => block_on(1, get::run(options)),
        Command::Serve(options) => block_on(0, serve::run(options)),
        Command::Demo(options) => block_on(0, demo::run(options)),
        Command::Proxy(command) => command.run(block_on),
        Command::Forward(options) => block_on(0, forward::run(options)),
        #[cfg(all(feature = "vpn", target_os = "linux"))]
        Command::Vpn(command) => block_on(0, command.run()),
        Command::Relay(options) => block_on(1, relay::run(options)),
        Command::Status(options) => status::run(&options),
        Command::Paths(options) => block_on(1, paths::run(options)),
        Command::Interop(options) => block_on(0, interop::run(options)),
        Command::Lab(command) => lab::run(command),
        Command::Completions(options) => manual::completions(&options, Cli::command()),
        Command::Man(options) => manual::manual(&options, Cli::command()),
        Command::Perf(options) => {
            options.place().pin()?;
            let threads = usize::from(options.place().one_core.is_some());
            match options {
                perf::Perf::Server(options) => block_on(threads, perf::server::run(options)),
                perf::Perf::Client(options) => block_on(1, perf::client::run(options)),
            }
        }
    }
}

/// Runs `command` on one thread, or on as many threads as there are CPUs if `threads` is 0.
fn block_on(threads: usize, command: impl Future<Output = Result>) -> Result {
    let mut builder = if threads == 1 { Builder::new_current_thread() } else { Builder::new_multi_thread() };
    let runtime =
        builder.enable_all().build().map_err(|error| Failure::io("cannot start the runtime", &error))?;
    let result = runtime.block_on(command);
    // Does not wait for name lookups or file operations that have not returned.
    runtime.shutdown_background();
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_options_of_a_command_have_the_same_name() {
        Cli::command().debug_assert();
    }

    /// Checks the descriptions of a command's subcommands, at any depth: each has one, and none is that of a group of options, `other`.
    /// Returns their number.
    fn check_descriptions(command: &clap::Command, other: &str) -> usize {
        let subcommands = command.get_subcommands();
        subcommands
            .map(|sub| {
                let about = sub.get_about().map(ToString::to_string).unwrap_or_default();
                assert!(!about.is_empty() && about != other, "{} is described as {about:?}", sub.get_name());
                1 + check_descriptions(sub, other)
            })
            .sum()
    }

    #[test]
    fn each_command_has_its_own_description() {
        let options = <Verbosity as clap::Args>::augment_args(clap::Command::new("options"));
        let other = options.get_about().map(ToString::to_string).unwrap_or_default();
        assert!(
            !other.is_empty(),
            "a group of options has a description, which would replace that of a command"
        );
        assert!(check_descriptions(&Cli::command(), &other) > 20);
    }
}
