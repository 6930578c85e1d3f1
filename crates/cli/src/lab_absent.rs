//! `anabranch lab` in a program that was built without the lab.

use std::ffi::OsString;

use clap::Args;

use crate::exit::{Exit, Failure, Result};

/// Repeat experiments in simulated networks (not in this program)
#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub(crate) struct Lab {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _arguments: Vec<OsString>,
}

/// Fails with an error that names the command to build a program with the lab.
pub(crate) fn run(_: Lab) -> Result {
    Err(Failure::new(Exit::Usage, "this program was built without the lab")
        .or("cargo install --path crates/cli builds one that has it"))
}
