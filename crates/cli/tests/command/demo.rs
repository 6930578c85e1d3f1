//! Tests of the demo with little data.

use std::process::{Command, Stdio};
use std::time::Duration;

use super::{anabranch, json, names, status, stderr};

/// Two links, over which the transfers of these tests take about a second.
const PATHS: &str = "20mbit/20ms,10mbit/40ms";

#[test]
fn it_moves_everything_over_two_paths() {
    let here = tempfile::tempdir().unwrap();
    let args = ["demo", "--size", "2", "--paths", PATHS, "--report", "story.html", "--qlog", "traces"];
    let output = anabranch(here.path(), &args);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    assert_eq!(stderr(&output), "", "no bars without a terminal");
    let table = String::from_utf8(output.stdout).unwrap();
    for part in [
        "20mbit/20ms",
        "10mbit/40ms",
        "30.0 Mbit/s",
        "2.0 MB in",
        "best single path",
        "matches",
        "story.html",
    ] {
        assert!(table.contains(part), "{part} is missing in\n{table}");
    }
    assert_eq!(names(here.path()), ["story.html", "traces"]);
    let traces = names(&here.path().join("traces"));
    assert!(traces.iter().filter(|name| name.ends_with("_client.sqlog")).count() == 1, "{traces:?}");
    assert!(traces.iter().filter(|name| name.ends_with("_server.sqlog")).count() == 1, "{traces:?}");
    let story = std::fs::read_to_string(here.path().join("story.html")).unwrap();
    assert!(story.starts_with("<!DOCTYPE html>") && story.ends_with("</html>"));
    for window in ["wide", "narrow"] {
        let charts = story.matches(&format!("<svg class=\"{window}\"")).count();
        assert_eq!(charts, 9, "{window}: a chart for all, and four for each path");
    }
    // The page loads nothing from elsewhere.
    assert!(!story.contains("http") && !story.contains("src=") && !story.contains("url("), "{story}");
}

#[test]
fn a_path_that_dies_costs_no_byte() {
    a_path_dies("multiple");
}

#[test]
fn nor_does_it_with_one_packet_number_space() {
    a_path_dies("single");
}

/// Runs the demo with 3 MB and a failure of path 0.
fn a_path_dies(numbering: &str) {
    let here = tempfile::tempdir().unwrap();
    let fail = ["--fail", "0@400ms+300ms", "--numbering", numbering, "--json", "-"];
    let output = anabranch(here.path(), &[&["demo", "--size", "3", "--paths", PATHS][..], &fail].concat());
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let facts = &json(&output)[0];
    let number = |name: &str| facts[name].as_f64().unwrap_or_else(|| panic!("{name} in {facts}"));
    assert_eq!(facts["numbering"], numbering);
    assert_eq!((&facts["sha256_ok"], number("sum_of_links_mbps")), (&true.into(), 30.0));
    assert!(number("seconds") > 0.8 && number("best_single_mbps") > 1.0, "{facts}");
    let rate = 3_000_000.0 * 8.0 / 1e6 / number("seconds");
    assert!((number("goodput_mbps") - rate).abs() < 0.01, "{facts}");
    assert!(number("failover_gap_ms") > 0.0, "{facts}");
    let paths = facts["paths"].as_array().unwrap();
    assert_eq!(paths.len(), 2);
    for (index, path) in paths.iter().enumerate() {
        assert_eq!((&path["path"], &path["error"]), (&index.into(), &serde_json::Value::Null), "{facts}");
        assert!(
            path["bytes"].as_u64().unwrap() > 100_000 && path["rtt_ms"].as_f64().unwrap() > 10.0,
            "{facts}"
        );
    }
}

#[test]
fn files_can_be_moved() {
    let here = tempfile::tempdir().unwrap();
    std::fs::write(here.path().join("file"), super::pattern(500_000)).unwrap();
    let args = ["demo", "--file", "file", "--paths", "50mbit/2ms", "--json", "facts"];
    let output = anabranch(here.path(), &args);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let facts = std::fs::read_to_string(here.path().join("facts")).unwrap();
    let facts: serde_json::Value = serde_json::from_str(&facts).unwrap();
    let expected = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &super::pattern(500_000));
    let hex: String = expected.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!((&facts["bytes"], &facts["sha256"]), (&500_000.into(), &hex.into()));
    assert_eq!(facts["failover_gap_ms"], serde_json::Value::Null);
}

#[test]
fn what_cannot_be_is_told_before_anything_begins() {
    let here = tempfile::tempdir().unwrap();
    for (args, said) in [
        (&["--paths", "fast"][..], "RATE/RTT[/LOSS]"),
        (&["--paths", "unlimited/1ms"], "have a rate"),
        (&["--fail", "1"], "PATH@TIME"),
        (&["--fail", "2@1s"], "there is no path 2"),
        (&["--scheduler", "best"], "round-robin"),
        (&["--congestion", "vegas"], "cubic"),
        (&["--congestion", "bbr1"], "published study"),
        (&["--scheduler", "least-recent"], "published study"),
        (&["--numbering", "both"], "multiple"),
        (&["--file", "missing"], "missing"),
        (&["--file", "."], "not a file"),
        (&["--file", "x", "--size", "1"], "cannot be used with"),
        (&["--report", "no/such/place.html"], "cannot be written"),
        (&["--json", "."], "cannot be written"),
        (&["--size", "1000000000001"], "1000000000001"),
    ] {
        let output = anabranch(here.path(), &[&["demo"], args].concat());
        assert_eq!(status(&output), 2, "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(said), "{args:?}: {}", stderr(&output));
        assert!(output.stdout.is_empty() && names(here.path()).is_empty(), "{args:?}");
    }
}

#[test]
fn a_signal_ends_it() {
    let here = tempfile::tempdir().unwrap();
    let demo = Command::new(env!("CARGO_BIN_EXE_anabranch"))
        .args(["demo", "--paths", "1mbit/20ms", "--report", "story.html"])
        .current_dir(here.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(700));
    let kill = Command::new("kill").args(["-INT", &demo.id().to_string()]).status().unwrap();
    assert!(kill.success());
    let output = demo.wait_with_output().unwrap();
    assert_eq!((status(&output), output.stdout.len()), (10, 0), "{}", stderr(&output));
    assert_eq!(names(here.path()), [""; 0]);
}
