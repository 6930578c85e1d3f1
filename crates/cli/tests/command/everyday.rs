//! Everyday use: small files, short measurements, wrong directories.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::{Server, anabranch, json, names, status, stderr};

/// Maximum duration of fetching a small file, as the best of many attempts, with a test build. Waiting for
/// the closing period, or gathering jitter entropy, would take longer.
const SMALL: Duration = Duration::from_millis(75);

/// Fetching a file of ten bytes ends at once: the command sends CONNECTION_CLOSE and waits for nothing more.
#[test]
fn a_small_file_takes_next_to_no_time() {
    let server = Server::serve();
    let (url, ca) = (server.url("/small").replace("localhost", "127.0.0.1"), server.ca());
    let mut best = Duration::MAX;
    for _ in 0..100 {
        let begin = Instant::now();
        let output = anabranch(server.dir.path(), &["get", &url, "--ca", &ca, "-o", "-", "-q"]);
        assert_eq!((status(&output), &output.stdout[..]), (0, &b"small file"[..]), "{}", stderr(&output));
        best = best.min(begin.elapsed());
        if best < SMALL {
            return;
        }
    }
    panic!("the fastest of 100 took {best:?}");
}

#[test]
fn perf_speaks_to_people() {
    let server = Server::start(&["perf", "server"], &[]);
    let ca = server.ca();
    let place = format!("localhost:{}", server.address.port());
    let client = |args: &[&str]| {
        let output =
            anabranch(server.dir.path(), &[&["perf", "client", "-c", &place, "--ca", &ca], args].concat());
        assert_eq!(status(&output), 0, "{args:?}: {}", stderr(&output));
        output
    };
    let text = |args: &[&str]| String::from_utf8(client(args).stdout).unwrap();
    let sent = text(&["-t", "0.7", "-i", "0.2"]);
    assert!(sent.contains(" in 0.") && sent.contains("bit/s"), "{sent}");
    assert!(
        sent.lines().filter(|line| line.contains(" to ") && line.contains("bit/s")).count() >= 2,
        "{sent}"
    );
    let received = text(&["-R", "-t", "0.3s", "-P", "3"]);
    assert!(received.contains(" in 0.") && !received.contains(" to "), "{received}");
    assert!(text(&["--download", "2.5MB"]).starts_with("2.50 MB in "));
    let facts = json(&client(&["--upload", "1MiB", "-J"])).remove(0);
    assert_eq!(facts["bytes"], 1 << 20);
    let timed = json(&client(&["-t", "0.2", "--json"])).remove(0);
    assert!(timed["bytes"].as_u64() > Some(0) && timed["seconds"].as_f64() >= Some(0.2), "{timed}");
    for bad in [&["--download", "10X"][..], &["-t", "-1"], &["-t", "1", "--download", "1"], &["-t", "x"]] {
        let output = anabranch(server.dir.path(), &[&["perf", "client", "-c", &place], bad].concat());
        assert_eq!(status(&output), 2, "{bad:?}: {}", stderr(&output));
    }
}

#[test]
fn sizes_have_one_system_of_units() {
    let here = tempfile::tempdir().unwrap();
    for nothing in ["0", "0MB"] {
        let output = anabranch(here.path(), &["demo", "--size", nothing]);
        assert_eq!(status(&output), 2, "{}", stderr(&output));
        assert!(stderr(&output).contains("there has to be something to move"), "{}", stderr(&output));
    }
    let args = ["demo", "--size", "500kB", "--paths", "50mbit/2ms", "--json", "-"];
    let output = anabranch(here.path(), &args);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    assert_eq!(json(&output)[0]["bytes"], 500_000);
}

#[test]
fn helps_tell_what_statuses_mean() {
    let here = tempfile::tempdir().unwrap();
    for command in
        [&["get", "--help"][..], &["get", "-h"], &["serve", "--help"], &["perf", "client", "--help"]]
    {
        let help = String::from_utf8(anabranch(here.path(), command).stdout).unwrap();
        assert!(help.contains("11 HTTP status of 300 or more"), "{command:?}: {help}");
    }
}

/// An invalid environment variable is reported once, regardless of the number of connections.
#[test]
fn traces_that_cannot_be_written_are_told_once() {
    let server = Server::serve();
    let here = tempfile::tempdir().unwrap();
    std::fs::write(here.path().join("file"), "").unwrap();
    let fetch = |traces: &str, secrets: &str| {
        Command::new(env!("CARGO_BIN_EXE_anabranch"))
            .args(["get", &server.url("/small"), "--ca", &server.ca(), "--repeat", "3", "-q", "-o", "-"])
            .current_dir(here.path())
            .env("QLOGDIR", traces)
            .env("SSLKEYLOGFILE", secrets)
            .stdin(Stdio::null())
            .output()
            .unwrap()
    };
    let output = fetch("file/traces", "no/such/file");
    let said = stderr(&output);
    assert_eq!(status(&output), 0, "{said}");
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines.len(), 2, "{said}");
    assert!(lines[0].starts_with("anabranch: SSLKEYLOGFILE: cannot write no/such/file: "), "{said}");
    assert!(lines[1].starts_with("anabranch: QLOGDIR: cannot write file/traces: "), "{said}");
    assert_eq!(stderr(&fetch("traces", "secrets")), "");
    assert_eq!(names(&here.path().join("traces")).len(), 3);
}
