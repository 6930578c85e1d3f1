use std::os::unix::fs::PermissionsExt;
use std::time::Instant;

use super::*;
use crate::order::{Link, Properties, Way, Work};

fn order() -> Order {
    let first = Properties { rate_bps: 1_000_000, delay_ns: 0, loss: 0.0 };
    let way = Way { first, queue_packets: 10, changes: Vec::new() };
    Order {
        stack: "tcp-cubic".parse().unwrap(),
        paths: vec![Link { up: way.clone(), down: way }],
        work: Work::Download { bytes: 1 },
        deadline_ns: 1,
        seed: 1,
    }
}

/// Boots a script in place of a kernel.
fn boot(script: &str, limit: Duration) -> Result<Report, BootError> {
    let dir = tempfile::tempdir().unwrap();
    let kernel = dir.path().join("kernel");
    fs::write(&kernel, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&kernel, fs::Permissions::from_mode(0o755)).unwrap();
    let program = "/bin/true".into();
    Host { kernel, program, arguments: vec!["guest".to_owned()], before: Vec::new(), limit }.boot(&order())
}

const PATIENT: Duration = Duration::from_secs(60);

#[test]
fn a_report_ends_a_guest_that_would_go_on() {
    let begun = Instant::now();
    let script = r#"echo boot; echo 'anabranch-report {"last_byte_ns":7,"kernel":"6.12"}'; sleep 600"#;
    let report = boot(script, PATIENT).unwrap();
    assert_eq!((report.last_byte_ns, report.kernel.as_str()), (Some(7), "6.12"));
    assert!(begun.elapsed() < PATIENT);
}

#[test]
fn a_guest_that_hangs_is_stopped_with_all_its_processes() {
    let dir = tempfile::tempdir().unwrap();
    let sign = dir.path().join("alive");
    let script = format!("(sleep 1; echo alive > {}) & sleep 600", sign.display());
    let fault = boot(&script, Duration::from_millis(200)).unwrap_err();
    assert_eq!(fault.to_string(), "the guest did not end within 0 s and was stopped");
    thread::sleep(Duration::from_millis(1500));
    assert!(!sign.exists(), "MAX_WALL ends the children as well");
}

#[test]
fn a_guest_that_floods_its_console_is_stopped() {
    let fault = boot("exec yes flood flood flood flood flood", PATIENT).unwrap_err();
    assert!(matches!(fault, BootError::Flood), "{fault}: at most MAX_OUTPUT");
}

#[test]
fn a_guest_that_dies_is_quoted_in_one_line() {
    let fault =
        boot("printf 'a\\nKernel panic - not syncing: \\033[31mno init\\nrest\\n'; kill -9 $$", PATIENT);
    let fault = fault.unwrap_err().to_string();
    assert!(fault.ends_with("last words: Kernel panic - not syncing: [31mno init"), "{fault}");
    assert!(boot("exit 3", PATIENT).unwrap_err().to_string().ends_with("last words: none"));
}

#[test]
fn a_guest_that_lies_is_told_so() {
    let fault = boot("echo 'anabranch-report {\"last_byte_ns\":-1}'", PATIENT).unwrap_err();
    assert!(matches!(fault, BootError::Nonsense(_)) && fault.to_string().lines().count() == 1, "{fault}");
}

#[test]
fn a_kernel_that_is_none_is_an_error_in_one_line() {
    let host = Host {
        kernel: "/nonexistent/kernel".into(),
        program: "/bin/true".into(),
        arguments: Vec::new(),
        before: Vec::new(),
        limit: PATIENT,
    };
    assert!(host.boot(&order()).unwrap_err().to_string().starts_with("the guest cannot be started: "));
}
