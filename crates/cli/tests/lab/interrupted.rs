//! Sweeps that are interrupted and continued.

use std::collections::BTreeSet;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{PLAN, TestDir, stderr};

/// Maximum time that a test waits for a condition.
const PATIENCE: Duration = Duration::from_secs(120);
const RUNS: usize = 160;

/// Creates a plan with so many runs that the sweep takes a while, and runs all of them into `whole`.
fn long() -> TestDir {
    let place =
        TestDir::new(&PLAN.replace("repetitions = 2", "repetitions = 40").replace("20_000", "200_000"));
    place.says(&["run", "plan.toml", "--out", "whole"]);
    assert_eq!(place.journal("whole").len(), RUNS);
    place
}

/// Starts a sweep and waits until it has recorded a few runs.
fn begin(place: &TestDir) -> Child {
    let before = place.journal("parts").len();
    let mut command = place.command(&["run", "plan.toml", "--out", "parts", "--threads", "2"]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let start = Instant::now();
    while place.journal("parts").len() < before + 5 {
        assert!(start.elapsed() < PATIENCE, "nothing is written down");
        std::thread::sleep(Duration::from_millis(2));
    }
    child
}

fn send(child: &Child, signal: Signal) {
    kill(Pid::from_raw(child.id().try_into().unwrap()), signal).unwrap();
}

/// Gives the same command again, and checks that all runs are recorded, each once.
fn goes_on(place: &TestDir) {
    let before = place.journal("parts");
    place.says(&["run", "plan.toml", "--out", "parts", "--threads", "2"]);
    let after = place.journal("parts");
    assert_eq!(after[..before.len()], before);
    let job = |line: &String| line.split_once("\"paths\"").unwrap().0.to_owned();
    let jobs: BTreeSet<String> = after.iter().map(job).collect();
    assert_eq!((after.len(), jobs.len()), (RUNS, RUNS));
    assert_eq!(place.results("parts"), place.results("whole"));
}

#[test]
fn a_killed_sweep_goes_on() {
    let place = long();
    let mut child = begin(&place);
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().code(), None);
    assert!((5..RUNS).contains(&place.journal("parts").len()));
    assert!(!place.path("parts/runs.csv").exists());
    goes_on(&place);
}

#[test]
fn a_signal_ends_a_sweep_in_good_order() {
    let place = long();
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let child = begin(&place);
        send(&child, signal);
        let output = child.wait_with_output().unwrap();
        let (line, done) = (stderr(&output), place.journal("parts").len());
        assert_eq!(output.status.code(), Some(10), "{line}");
        let said =
            format!("stopped with {done} of {RUNS} runs done; the same command goes on where it stopped");
        // On a busy machine, active runs that have not ended in time may be dropped.
        let dropped = line.contains("those under way dropped");
        // The second sweep first prints how many runs exist already.
        let last = line.lines().last().unwrap_or_default();
        assert!(dropped || last == format!("anabranch: {said}"), "{line}");
        assert_eq!(line.contains("of 160 runs are there already"), signal == Signal::SIGTERM, "{line}");
        assert!(done < RUNS, "it ended before the signal came");
    }
    goes_on(&place);
}

/// Starts a sweep of a single run that would take hours.
fn endless() -> (TestDir, Child) {
    let place = TestDir::new(
        &PLAN.replace("20_000", "20_000_000_000").replace("deadline_s = 60", "deadline_s = 1_000_000"),
    );
    let args =
        ["run", "plan.toml", "--out", "parts", "--points", "3", "--variants", "both", "--threads", "1"];
    let child = place.command(&args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let start = Instant::now();
    let journal = place.path("parts/journal.jsonl");
    while std::fs::read_to_string(&journal).unwrap_or_default().lines().count() < 2 {
        assert!(start.elapsed() < PATIENCE, "nothing begins");
        std::thread::sleep(Duration::from_millis(2));
    }
    std::thread::sleep(Duration::from_millis(300));
    (place, child)
}

const DROPPED: &str = "anabranch: stopped with 0 of 2 runs done, those under way dropped; the same command goes on where it stopped\n";

/// One signal suffices, regardless of the duration of the active run.
#[test]
fn a_signal_drops_a_run_that_takes_long() {
    let (place, child) = endless();
    let start = Instant::now();
    send(&child, Signal::SIGINT);
    let output = child.wait_with_output().unwrap();
    // The limit is a second and a half, plus a margin for a busy machine.
    let took = start.elapsed();
    assert!(took > Duration::from_secs(1) && took < Duration::from_secs(20), "{took:?}");
    assert_eq!((output.status.code(), stderr(&output)), (Some(10), DROPPED.to_owned()));
    assert_eq!(place.journal("parts").len(), 0);
    // The directory is no longer locked.
    let line = place.fails(2, &["run", "plan.toml", "--out", "parts", "--bytes", "1000"]);
    assert!(line.contains("instead of download of 1000 bytes"), "{line}");
}

/// The second signal drops the active run at once.
#[test]
fn a_second_signal_does_not_wait() {
    let (_place, mut child) = endless();
    send(&child, Signal::SIGINT);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(child.try_wait().unwrap(), None, "it gives its run a moment");
    send(&child, Signal::SIGINT);
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), stderr(&output)), (Some(10), DROPPED.to_owned()));
}
