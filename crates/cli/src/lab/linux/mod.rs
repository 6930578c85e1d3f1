//! `anabranch lab linux`: runs the TCP and Multipath TCP of a Linux kernel in virtual time.

mod build;
mod check;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use anabranch_lab::run::Engine;
use anabranch_linux::Linux;
use anabranch_linux::build::{BuildError, Cache, Kernel};
use anabranch_linux::host::{self, Host, MAX_WALL};
use clap::{Args, Subcommand};

use crate::exit::{Exit, Failure, Result};

/// Build and check a Linux kernel in virtual time, for variants that use its TCP or Multipath TCP
///
/// The kernel is User-Mode Linux, made from Debian's source package; it runs as an ordinary process of the
/// user, without privileges. Nothing else in the lab needs it.
#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    Build(build::Build),
    Check(check::Check),
    #[command(hide = true)]
    Guest(Guest),
    #[command(hide = true)]
    Enter(Enter),
}

/// Run as the first process of a guest
#[derive(Args, Debug)]
pub(crate) struct Guest {
    /// File with the order: the stack, the links and the work of a run
    order: PathBuf,
    /// Arguments that the kernel adds by itself, which are ignored
    #[arg(allow_hyphen_values = true)]
    rest: Vec<OsString>,
}

/// Run a guest's kernel, which ends when the process that started it ends
#[derive(Args, Debug)]
pub(crate) struct Enter {
    /// The kernel and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    command: Vec<OsString>,
}

pub(super) fn run(command: &Command) -> Result {
    match command {
        Command::Build(options) => build::run(options),
        Command::Check(options) => check::run(options),
        Command::Guest(options) => anabranch_linux::guest::run(&options.order)
            .map_err(|error| Failure::new(Exit::Usage, format!("lab linux guest: {error}"))),
        Command::Enter(options) => {
            let error = host::enter(&options.command);
            Err(Failure::io("the guest's kernel cannot be started", &error))
        }
    }
}

/// Hint on how to build the kernel.
pub(super) const BUILD: &str = "`anabranch lab linux build` makes it";

/// Returns the engine for Linux, if its kernel was built.
pub(super) fn engine() -> Option<Arc<dyn Engine>> {
    let kernel = Cache::of_user()?.kernel()?;
    let host = host(&kernel).ok()?;
    Some(Arc::new(Linux::new(host, &kernel.version)))
}

/// Returns the settings to boot a kernel, with this program as the guest's first process.
fn host(kernel: &Kernel) -> Result<Host> {
    let program = std::env::current_exe().map_err(|error| Failure::io("this program has no path", &error))?;
    let words = |last: &str| ["lab", "linux", last].map(str::to_owned);
    let mut before = vec![program.clone().into_os_string()];
    before.extend(words("enter").map(OsString::from));
    // The kernel and its arguments follow.
    before.push("--".into());
    let arguments = words("guest").into();
    Ok(Host { kernel: kernel.program.clone(), program, arguments, before, limit: MAX_WALL })
}

/// Returns the user's cache of kernels.
fn cache() -> Result<Cache> {
    let none = || Failure::new(Exit::Usage, "no place for the kernel").or("set HOME or XDG_CACHE_HOME");
    Cache::of_user().ok_or_else(none)
}

impl From<BuildError> for Failure {
    fn from(error: BuildError) -> Self {
        let exit = match error {
            BuildError::Tools { .. } | BuildError::Source(_) => Exit::Usage,
            _ => Exit::Io,
        };
        let again = matches!(error, BuildError::Step { .. });
        let failure = Self::new(exit, error);
        if again { failure.or("the same command goes on from there") } else { failure }
    }
}
