//! This library as a guest of the lab: one end of a connection in a process of its own, with the
//! configuration of a variant.

use std::process::ExitCode;

use anabranch_lab::guest::own;
use anabranch_lab::profile::{Settings, Variant};
use clap::Args;

use crate::Error;

/// Name of the subcommand.
const COMMAND: &str = "guest";

#[derive(Args)]
pub(crate) struct Options {
    /// Settings of the variant, as JSON
    settings: String,
}

/// Returns the arguments of this program that make it a guest with these settings.
pub(super) fn arguments(settings: &Settings) -> Result<[String; 2], Error> {
    Ok([COMMAND.to_owned(), serde_json::to_string(settings)?])
}

/// Plays the end that the lab asks for, over standard input and output.
pub(crate) fn run(options: &Options) -> Result<ExitCode, Error> {
    let settings = serde_json::from_str(&options.settings)?;
    Ok(own::play(Variant { name: COMMAND.to_owned(), settings }.server()))
}
