//! `cargo xtask paths`: `anabranch get` fetches from `anabranch serve` over two interfaces that go down, come
//! back and change their addresses, and over one path that follows the routing table, in namespaces of its
//! own. Needs no root where users may make namespaces (user_namespaces(7)).

mod follow;
mod network;
mod play;
mod scene;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::child::Reaped;
use crate::ours;

/// Options for a run.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Take this project's command as it has been built
    #[arg(long)]
    no_build: bool,
    /// Within the namespaces: what to play with
    #[arg(long, hide = true)]
    inside: Option<PathBuf>,
}

/// Time that everything except building may take.
const PATIENCE: Duration = Duration::from_secs(160);
/// New namespaces for users, network, mounts and processes; the processes end with the first one.
const UNSHARE: [&str; 5] = ["--map-root-user", "--net", "--mount", "--fork", "--kill-child"];

/// Plays everything and says what came of it; a host without user namespaces is skipped by name.
pub(crate) fn run(root: &Path, arguments: &Arguments) -> Result<bool, String> {
    if let Some(program) = &arguments.inside {
        if let Some(obstacle) = not_fresh() {
            return Err(obstacle);
        }
        return play::run(program);
    }
    if let Some(obstacle) = obstacle() {
        println!("skipped: {obstacle}");
        return Ok(true);
    }
    let program = ours::program(root, !arguments.no_build)?;
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new("unshare");
    command.arg("--user").args(UNSHARE).arg("--pid").arg(own).args(["paths", "--inside"]).arg(program);
    command.stdin(Stdio::null());
    let mut child = Reaped::spawn(&mut command).map_err(|error| format!("unshare: {error}"))?;
    let ended = child.wait_until(Instant::now() + PATIENCE);
    ended
        .map(|status| status.success())
        .ok_or_else(|| format!("it takes longer than {} s", PATIENCE.as_secs()))
}

/// Returns the reason why this process is not in namespaces made for it; there it would change interfaces
/// that others use.
fn not_fresh() -> Option<String> {
    let output = Command::new("ip").args(["-oneline", "link", "show", "up"]).output();
    match output {
        Ok(output) if output.status.success() => in_use(&String::from_utf8_lossy(&output.stdout)),
        Ok(output) => Some(format!("ip: {}", output.status)),
        Err(error) => Some(format!("ip: {error}")),
    }
}

/// Interfaces that are up, as `ip -oneline link show up` lists them; in a new namespace not even `lo` is.
fn in_use(up: &str) -> Option<String> {
    let names: Vec<_> = up.lines().filter_map(|line| line.split_whitespace().nth(1)).collect();
    (!names.is_empty()).then(|| {
        let names = names.join(" ");
        format!("these are no namespaces of its own ({names} up): run `cargo xtask paths` without --inside")
    })
}

/// Returns the reason why the scenes cannot be played here, if there is one.
fn obstacle() -> Option<&'static str> {
    let works = |program: &str, words: &[&str]| {
        let output = Command::new(program).args(words).output();
        output.is_ok_and(|output| output.status.success())
    };
    let namespaces = [&["--user"][..], &UNSHARE, &["--pid", "true"]].concat();
    if !works("unshare", &namespaces) {
        Some("no user namespaces")
    } else if !works("ip", &["-V"]) || !works("tc", &["-V"]) {
        Some("no iproute2")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_with_interfaces_is_left_alone() {
        assert_eq!(in_use(""), None, "a new namespace");
        let up = "1: lo: <LOOPBACK,UP,LOWER_UP> mtu 65536\n2: eth0: <BROADCAST,UP> mtu 1500\n";
        assert!(in_use(up).is_some_and(|why| why.contains("(lo: eth0: up)")));
    }
}
