//! Packet trains sent through ns-3, in a separate program.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::train::{Arrival, Train};
use crate::child::{Reaped, collect};

/// Maximum duration of all trains together.
const PATIENCE: Duration = Duration::from_secs(120);
/// Name in pkg-config of ns-3's module with the link.
const MODULE: &str = "ns3-point-to-point";

/// Built program that sends packet trains through ns-3.
pub(super) struct Ns3 {
    program: PathBuf,
    /// Version of ns-3.
    pub(super) version: String,
}

impl Ns3 {
    /// Builds the program. Returns `None` if ns-3 is not installed.
    pub(super) fn build(root: &Path) -> Result<Option<Self>, String> {
        let Ok(found) = Command::new("pkg-config").args(["--modversion", MODULE]).output() else {
            return Ok(None);
        };
        if !found.status.success() {
            return Ok(None);
        }
        let built = Command::new(root.join("peers/build.sh")).arg("ns3").status();
        if !built.map_err(|error| format!("peers/build.sh: {error}"))?.success() {
            return Err("peers/ns3 cannot be built".to_owned());
        }
        let version = String::from_utf8_lossy(&found.stdout).trim().to_owned();
        Ok(Some(Self { program: root.join("peers/ns3/peer-ns3"), version }))
    }

    /// Sends the trains through ns-3 and returns the arrivals of each train's packets.
    pub(super) fn run(&self, trains: &[Train]) -> Result<Vec<Vec<Arrival>>, String> {
        let mut text = String::new();
        trains.iter().for_each(|train| train.write(&mut text));
        let mut command = Command::new(&self.program);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = Reaped::spawn(&mut command).map_err(|error| format!("peer-ns3: {error}"))?;
        let printed = collect(child.0.stdout.take());
        // The program reads all input before it prints. If it has already ended, its exit status is reported
        // below.
        let _ = child.0.stdin.take().map(|mut stdin| stdin.write_all(text.as_bytes()));
        let status = child.wait_until(Instant::now() + PATIENCE).ok_or("peer-ns3 does not end")?;
        if !status.success() {
            return Err(format!("peer-ns3: {status}"));
        }
        let printed = printed.join().map_err(|_| "peer-ns3: its output cannot be read")?;
        let arrivals = parse(&printed)?;
        let lengths = |all: &[Vec<Arrival>]| all.iter().map(Vec::len).collect::<Vec<_>>();
        let expected: Vec<_> = trains.iter().map(|train| train.packets.len()).collect();
        if lengths(&arrivals) != expected {
            return Err("peer-ns3 printed other trains than it was given".to_owned());
        }
        Ok(arrivals)
    }
}

fn parse(printed: &str) -> Result<Vec<Vec<Arrival>>, String> {
    let mut trains: Vec<Vec<Arrival>> = Vec::new();
    for line in printed.lines() {
        if line == "train" {
            trains.push(Vec::new());
            continue;
        }
        let unknown = || format!("peer-ns3 printed `{line}`");
        let arrival = match line {
            "drop" => None,
            at => Some(at.parse().map_err(|_| unknown())?),
        };
        trains.last_mut().ok_or_else(unknown)?.push(arrival);
    }
    Ok(trains)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_prints_is_read() {
        assert_eq!(parse("train\n17\ndrop\ntrain\n"), Ok(vec![vec![Some(17), None], vec![]]));
        assert_eq!(parse("17\n"), Err("peer-ns3 printed `17`".to_owned()));
        assert!(parse("train\nx\n").is_err());
    }
}
