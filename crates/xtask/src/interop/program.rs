//! Programs that take part: this project's command and the peers. All accept the flags of `peers/README.md`.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::process;
use crate::ours;

/// Name of this project's own command.
pub(super) const OURS: &str = "anabranch";

/// Peers of a run by default.
pub(super) const PEERS: &[&str] = &[
    "quinn",
    "quic-go",
    "quiche",
    "quiceh",
    "aioquic",
    "ngtcp2",
    "s2n-quic",
    "tquic",
    "x-net",
    "qh3",
    "curl-cffi",
];

/// Peers that are not cargo projects, and the tool that each requires.
const FOREIGN: &[(&str, &str)] = &[
    ("quic-go", "go"),
    ("masque-go", "go"),
    ("connect-ip-go", "go"),
    ("aioquic", "python3"),
    ("ngtcp2", "python3"),
    ("x-net", "go"),
    ("qh3", "python3"),
    ("curl-cffi", "python3"),
];
/// Peers whose package has another name: what stands before its version in the file that pins it.
const PACKAGES: &[(&str, &str)] = &[("x-net", "x/net")];
/// Peers that are no servers.
const ONLY_CLIENTS: &[&str] = &["curl-cffi"];
/// Peers whose TLS library accepts only a root certificate as trust anchor.
const TRUST_ONLY_ROOTS: &[&str] = &["quiche", "quiceh", "aioquic", "qh3", "tquic", "msquic"];
/// Peers that support QUIC VReverso.
const REVERSES: &[&str] = &["quiceh"];
/// Peers that support only HTTP/3.
const ONLY_HTTP3: &[&str] = &["ngtcp2", "curl-cffi"];

/// Program that can be server and client.
#[derive(Clone, Debug)]
pub(super) struct Program {
    /// Name in the matrix.
    pub(super) name: String,
    path: PathBuf,
    /// Arguments before `server` or `client`.
    prefix: &'static [&'static str],
}

impl Program {
    /// Finds the program. Builds a peer that is missing and, if `fresh`, this project's own command. The
    /// error gives the reason why the program cannot take part.
    pub(super) fn ready(root: &Path, name: &str, fresh: bool) -> Result<Self, String> {
        if name == OURS {
            return Ok(Self::at(name, ours::program(root, fresh)?, &["perf"]));
        }
        let folder = root.join("peers").join(name);
        if !folder.is_dir() {
            return Err(format!("there is no peers/{name}"));
        }
        let foreign = FOREIGN.iter().find(|(known, _)| *known == name).map(|(_, tool)| *tool);
        let release = if foreign.is_some() { folder.clone() } else { folder.join("target/release") };
        let path = release.join(format!("peer-{name}"));
        if !path.is_file() {
            let tool = foreign.unwrap_or("cargo");
            if Command::new(tool).arg("version").output().is_err() {
                return Err(format!("no toolchain: {tool} is missing"));
            }
            eprintln!("interop: building peers/{name}");
            let said = build(Command::new(root.join("peers/build.sh")).arg(name))?;
            if !path.is_file() {
                return Err(process::last_line(&said).to_owned());
            }
        }
        Ok(Self::at(name, path, &[]))
    }

    pub(super) fn at(name: &str, path: PathBuf, prefix: &'static [&'static str]) -> Self {
        Self { name: name.to_owned(), path, prefix }
    }

    /// Returns the program's path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether the program transfers files only over HTTP/3.
    pub(super) fn speaks_only_http3(&self) -> bool {
        ONLY_HTTP3.contains(&self.name.as_str())
    }

    /// Returns whether the program, as a client, accepts only a root certificate as trust anchor.
    pub(super) fn trusts_only_roots(&self) -> bool {
        TRUST_ONLY_ROOTS.contains(&self.name.as_str())
    }

    /// Returns the start of a command line in this role, `server` or `client`. This project's command offers
    /// multipath.
    pub(super) fn command(&self, role: &str) -> Command {
        let mut command = Command::new(&self.path);
        command.args(self.prefix).arg(role);
        if self.name == OURS {
            // Peers that do not support multipath must ignore the offer.
            command.args(["--max-paths", "4"]);
            if role == "client" {
                command.arg("--json");
            }
        }
        command
    }

    /// Returns whether the program supports QUIC VReverso: for peers according to `REVERSES`, for this
    /// project's command according to its help.
    pub(super) fn reverses(&self) -> bool {
        if self.name != OURS {
            return REVERSES.contains(&self.name.as_str());
        }
        let help = Command::new(&self.path).args(self.prefix).args(["client", "--help"]).output();
        help.is_ok_and(|help| offers_reverso(&String::from_utf8_lossy(&help.stdout)))
    }

    /// Returns the start of a command line for the multipath cases.
    pub(super) fn multipath(&self, role: &str) -> Command {
        let mut command = Command::new(&self.path);
        command
            .args(if self.name == OURS { &["interop", "multipath"][..] } else { &["multipath"] })
            .arg(role);
        command
    }

    /// Returns the version of the stack, from the file that pins it; `None` for this project's own command.
    pub(super) fn version(&self, root: &Path) -> Option<String> {
        let folder = root.join("peers").join(&self.name);
        let package = PACKAGES.iter().find(|(peer, _)| *peer == self.name);
        let package = package.map_or(self.name.as_str(), |(_, package)| package);
        if let Ok(module) = std::fs::read_to_string(folder.join("go.mod")) {
            let line = module.lines().find(|line| line.contains(&format!("/{package} v")))?;
            return line.split_whitespace().find_map(|word| word.strip_prefix('v')).map(str::to_owned);
        }
        if let Ok(pins) = std::fs::read_to_string(folder.join("requirements.txt")) {
            return pins.lines().find_map(|pin| pin.strip_prefix(&format!("{package}=="))).map(str::to_owned);
        }
        if self.name == "ngtcp2" {
            return debian_version("ngtcp2-client");
        }
        let lock = std::fs::read_to_string(folder.join("Cargo.lock")).ok()?;
        let (_, rest) = lock.split_once(&format!("name = \"{package}\"\nversion = \""))?;
        rest.split('"').next().map(str::to_owned)
    }
}

/// Returns whether a peer of this name can be a server.
pub(super) fn serves(name: &str) -> bool {
    !ONLY_CLIENTS.contains(&name)
}

/// Returns whether a command's help offers `--wire reverso`.
fn offers_reverso(help: &str) -> bool {
    help.split_once("--wire").is_some_and(|(_, about)| about.contains("reverso"))
}

/// Returns the upstream version of an installed Debian package.
fn debian_version(package: &str) -> Option<String> {
    let output =
        Command::new("dpkg-query").args(["-W", "-f", "${source:Upstream-Version}", package]).output().ok()?;
    let version = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !version.is_empty()).then_some(version)
}

/// Runs a build command. Returns its log.
fn build(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("cannot be built: {error}"))?;
    let log = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        return Ok(log.into_owned());
    }
    let cause =
        log.lines().find(|line| line.starts_with("error")).unwrap_or_else(|| process::last_line(&log));
    Err(format!("cannot be built: {cause}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_says_itself_whether_it_has_reverso() {
        assert!(offers_reverso("  --wire <WIRE>  What packets look like [possible values: v1, v2, reverso]"));
        assert!(!offers_reverso("  --wire <WIRE>  What packets look like [possible values: v1, v2]"));
        assert!(!offers_reverso("  --v2  Speak version 2; reverso is for others"));
    }

    #[test]
    fn only_known_peers_reverse() {
        let peer = |name| Program::at(name, PathBuf::new(), &[]);
        assert!(peer("quiceh").reverses() && !peer("quiche").reverses());
    }
}
