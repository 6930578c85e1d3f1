//! `cargo xtask paths`: `anabranch get` fetches from `anabranch serve` over two interfaces that go down, come
//! back and change their addresses, and over one path that follows the routing table. The task runs in
//! namespaces of its own, without root where users may create namespaces (user_namespaces(7)).

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
    /// Use this project's command without building it
    #[arg(long)]
    no_build: bool,
    /// Inside the namespaces: the command to test
    #[arg(long, hide = true)]
    inside: Option<PathBuf>,
}

/// Maximum duration of all scenes, without building.
const PATIENCE: Duration = Duration::from_secs(160);
/// Options for new user, network, mount and process namespaces, whose processes end with the first one.
const UNSHARE: [&str; 5] = ["--map-root-user", "--net", "--mount", "--fork", "--kill-child"];

/// Runs all scenes and prints the results. On a host without user namespaces, prints that they are skipped.
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

/// Returns an error message if this process is not in newly created namespaces, because the scenes would then
/// change interfaces in use.
fn not_fresh() -> Option<String> {
    let output = Command::new("ip").args(["-oneline", "link", "show", "up"]).output();
    match output {
        Ok(output) if output.status.success() => in_use(&String::from_utf8_lossy(&output.stdout)),
        Ok(output) => Some(format!("ip: {}", output.status)),
        Err(error) => Some(format!("ip: {error}")),
    }
}

/// Describes the interfaces that are up, from the output of `ip -oneline link show up`. In a new namespace
/// even `lo` is down.
fn in_use(up: &str) -> Option<String> {
    let names: Vec<_> = up.lines().filter_map(|line| line.split_whitespace().nth(1)).collect();
    (!names.is_empty()).then(|| {
        let names = names.join(" ");
        format!("these are no namespaces of its own ({names} up): run `cargo xtask paths` without --inside")
    })
}

/// Returns the reason why the scenes cannot run here, if there is one.
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
