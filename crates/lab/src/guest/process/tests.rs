use anabranch_guest::Workload;

use super::*;
use crate::guest::hellos;

/// Starts a shell that plays the guest.
fn shell(script: &str, limit: Duration) -> Result<Process, String> {
    let command = ["/bin/sh", "-c", script].map(str::to_owned);
    let [client, _] = hellos(1, 1, Workload::Download { bytes: 1 }).unwrap();
    Process::start(&command, &client, Limits { step: limit })
}

fn fault(script: &str) -> String {
    shell(script, Duration::from_secs(20)).err().unwrap()
}

/// Message of the guest `x` with its [`Welcome`], in the syntax of the shell's `printf`.
const WELCOME: &str = r"\006\000\000\000\002\001\000\001\000x";

#[test]
fn a_guest_that_dies_is_described_by_its_last_words() {
    assert_eq!(
        fault("echo no license >&2; exit 3"),
        "guest `/bin/sh`: ended with exit status: 3: no license"
    );
    assert!(fault("kill -9 $$").contains("signal: 9"));
    assert_eq!(fault("exit 0"), "guest `/bin/sh`: ended with exit status: 0");
    let long = fault("head -c 1000000 /dev/zero | tr '\\0' 'x' >&2; exit 1");
    assert!(long.len() < MAX_STDERR + 100, "{} bytes", long.len());
}

#[test]
fn a_guest_that_prints_something_else_does_not_speak_the_protocol() {
    assert!(fault("echo listening on port 443; sleep 9").contains("not the guest protocol"));
    assert!(fault("cat /dev/zero").contains("not the guest protocol"), "megabytes of zeros");
    assert!(fault(r"yes megabytes").contains("not the guest protocol"));
    assert!(fault(r"printf '\006\000\000\000\002\007\000\001\000x'; sleep 9").contains("version 7"));
}

#[test]
fn a_guest_that_hangs_is_ended_with_everything_that_it_started() {
    let limit = Duration::from_millis(100);
    let hung = "guest `/bin/sh`: gave no answer in time and was ended";
    assert_eq!(shell("sleep 100; true", limit).err().unwrap(), hung);
    // The guest sends its welcome, and then no answer to the step.
    let mut process = shell(&format!("printf '{WELCOME}'; sleep 100; true"), limit).unwrap();
    let step = Step { number: 0, now: 0, datagrams: Vec::new() };
    assert_eq!(process.step(&step).err().unwrap(), hung);
}

#[test]
fn answers_that_nobody_asked_for_are_noticed() {
    // An answer to step 5: kind, number, flags, four numbers, no reason, no datagrams.
    let zeros = r"\000".repeat(7 + 1 + 32 + 4);
    let script = format!(r"printf '{WELCOME}'; printf '\056\000\000\000\004\005{zeros}'; sleep 9");
    let mut process = shell(&script, Duration::from_secs(20)).unwrap();
    let step = Step { number: 0, now: 0, datagrams: Vec::new() };
    let fault = process.step(&step).err().unwrap();
    assert_eq!(fault, "guest `/bin/sh`: answered step 5 when it was asked 0");
}

#[test]
fn a_program_that_is_nowhere_is_named() {
    let [client, _] = hellos(1, 1, Workload::Download { bytes: 1 }).unwrap();
    let fault = Process::start(&["no-such-guest".to_owned()], &client, Limits::default()).err().unwrap();
    assert_eq!(fault, "guest `no-such-guest`: there is no such program");
    assert!(Process::start(&[], &client, Limits::default()).is_err());
}
