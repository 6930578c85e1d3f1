//! Hours of churn over real sockets, by `anabranch-bench soak`.

use std::path::Path;
use std::process::Command;

use clap::Args;

use crate::ours;

/// Options of `cargo xtask soak`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Duration in minutes
    #[arg(long, default_value_t = 120.0)]
    minutes: f64,
    /// Seed of the clients' actions
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Builds and runs the soak. Returns whether everything was kept.
pub(crate) fn run(root: &Path, arguments: &Arguments) -> Result<bool, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--release", "--package", "anabranch-cli", "--package", "anabranch-bench"]);
    let built = build.current_dir(root).status().map_err(|error| format!("cargo: {error}"))?;
    if !built.success() {
        return Err("the benchmarks cannot be built".to_owned());
    }
    let mut soak = Command::new(ours::target(root).join("release").join("anabranch-bench"));
    soak.arg("soak").args(["--minutes", &arguments.minutes.to_string()]);
    soak.args(["--seed", &arguments.seed.to_string()]);
    let status = soak.status().map_err(|error| format!("anabranch-bench: {error}"))?;
    Ok(status.success())
}
