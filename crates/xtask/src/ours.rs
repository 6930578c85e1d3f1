//! The project's own command, for use by tasks.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Environment variable with the path of a command that is used without building it.
const GIVEN: &str = "ANABRANCH";

/// Returns the path of the command: the one in `ANABRANCH`, or else that of the release build. If `fresh`, the
/// release build is updated first.
pub(crate) fn program(root: &Path, fresh: bool) -> Result<PathBuf, String> {
    if let Some(given) = std::env::var_os(GIVEN) {
        let given = std::path::absolute(given).map_err(|error| format!("{GIVEN}: {error}"))?;
        return if given.is_file() {
            Ok(given)
        } else {
            Err(format!("{GIVEN}: there is no {}", given.display()))
        };
    }
    let target = target(root);
    if fresh {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut build = Command::new(cargo);
        build.args(["build", "--quiet", "--release", "--package", "anabranch-cli"]).current_dir(root);
        let status = build.status().map_err(|error| format!("cargo: {error}"))?;
        if !status.success() {
            return Err("the command cannot be built".to_owned());
        }
    }
    Ok(target.join("release").join("anabranch"))
}

/// Returns the directory in which cargo puts its results.
pub(crate) fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}
