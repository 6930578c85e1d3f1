//! Claims about processing time. `anabranch-bench`, in the same directory as this command, makes the
//! measurements that they need.

use std::process::{Command, Stdio};

use anabranch_lab::claim::Measured;

use crate::exit::{Exit, Failure, Result};

/// Name of the program.
const BENCH: &str = "anabranch-bench";
/// Command that builds `anabranch-bench`.
const BUILD: &str = "build it with `cargo build --release -p anabranch-bench`";

/// Runs the measurements, which takes some minutes.
pub(super) fn measure() -> Result<Measured> {
    let beside = std::env::current_exe().map_err(|error| Failure::io("cannot find this command", &error))?;
    let program = beside.with_file_name(BENCH);
    if !program.is_file() {
        return Err(Failure::new(Exit::Usage, format!("{} is not there", program.display())).or(BUILD));
    }
    let failed = |error: &dyn std::fmt::Display| Failure::new(Exit::Io, format!("{BENCH}: {error}"));
    let mut command = Command::new(program);
    command.args(["claims", "--json", "-"]).stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = command.output().map_err(|error| failed(&error))?;
    if !output.status.success() {
        return Err(failed(&output.status));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| failed(&error))
}
