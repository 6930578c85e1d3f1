//! The programs that take part: this project's command and the peers, all with the flags of `peers/README.md`.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::process;

/// The name of this project's own command.
pub(super) const OURS: &str = "anabranch";

/// Peers of a run that names none.
pub(super) const PEERS: &[&str] = &["quinn", "quic-go"];

/// A program that can be server and client.
#[derive(Clone, Debug)]
pub(super) struct Program {
    /// Name in the matrix.
    pub(super) name: String,
    path: PathBuf,
    /// Words before `server` or `client`.
    prefix: &'static [&'static str],
}

impl Program {
    /// Finds the program; builds a peer that is missing and, if `fresh`, this project's own. The error says why it cannot
    /// take part.
    pub(super) fn ready(root: &Path, name: &str, fresh: bool) -> Result<Self, String> {
        if name == OURS {
            let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
            let mut command = Command::new(cargo);
            command.args(["build", "--release", "--package", "anabranch-cli"]).current_dir(root);
            if fresh {
                build(&mut command)?;
            }
            return Ok(Self::at(name, target(root).join("release").join(OURS), &["perf"]));
        }
        let folder = root.join("peers").join(name);
        if !folder.is_dir() {
            return Err(format!("there is no peers/{name}"));
        }
        let path = match name {
            "quic-go" => folder.join("peer-quic-go"),
            _ => folder.join(format!("target/release/peer-{name}")),
        };
        if !path.is_file() {
            let tool = if name == "quic-go" { "go" } else { "cargo" };
            if Command::new(tool).arg("version").output().is_err() {
                return Err(format!("no toolchain: {tool} is missing"));
            }
            eprintln!("interop: building peers/{name}");
            build(Command::new(root.join("peers/build.sh")).arg(name))?;
        }
        Ok(Self::at(name, path, &[]))
    }

    fn at(name: &str, path: PathBuf, prefix: &'static [&'static str]) -> Self {
        Self { name: name.to_owned(), path, prefix }
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The start of a command line in this role, `server` or `client`.
    pub(super) fn command(&self, role: &str) -> Command {
        let mut command = Command::new(&self.path);
        command.args(self.prefix).arg(role);
        command
    }

    /// The version of the stack, from the peer's lock file; `None` for this project's own.
    pub(super) fn version(&self, root: &Path) -> Option<String> {
        let folder = root.join("peers").join(&self.name);
        if let Ok(module) = std::fs::read_to_string(folder.join("go.mod")) {
            let line = module.lines().find(|line| line.contains(&format!("/{} v", self.name)))?;
            return line.split_whitespace().find_map(|word| word.strip_prefix('v')).map(str::to_owned);
        }
        let lock = std::fs::read_to_string(folder.join("Cargo.lock")).ok()?;
        let package = format!("name = \"{}\"\nversion = \"", self.name);
        let (_, rest) = lock.split_once(&package)?;
        rest.split('"').next().map(str::to_owned)
    }
}

/// Where cargo puts what it builds.
fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

fn build(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("cannot be built: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let log = String::from_utf8_lossy(&output.stderr);
    let cause =
        log.lines().find(|line| line.starts_with("error")).unwrap_or_else(|| process::last_line(&log));
    Err(format!("cannot be built: {cause}"))
}
