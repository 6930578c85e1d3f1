//! Choice of interfaces, and the message if there is only one path.

use super::{Site, command, get, good, names, stderr};
use serde_json::Value;
use std::process::Command;

fn paths(args: &[&str]) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_anabranch")).arg("paths").args(args).output().unwrap()
}

#[test]
fn an_interface_that_does_not_exist_is_an_error_before_the_first_packet() {
    let (site, here) = (Site::start(), tempfile::tempdir().unwrap());
    for wrong in ["no-such-if0", "203.0.113.77", "no-such*"] {
        // The wrong rule is reported, even if another rule is valid.
        let output = get(&site, here.path(), &[&site.url("/small"), "--path", wrong, "--path", "lo"]);
        assert_eq!(output.status.code(), Some(13), "{}", stderr(&output));
        let expected = format!("this host has no interface or address {wrong}");
        assert!(stderr(&output).contains(&expected), "{}", stderr(&output));
    }
    assert_eq!(site.connections(), [false; 0], "the server has heard nothing");
    assert_eq!(names(here.path()), [""; 0]);
}

#[test]
fn one_path_says_why_it_is_the_only_one() {
    let (site, here) = (Site::start(), tempfile::tempdir().unwrap());
    let output = get(&site, here.path(), &[&site.url("/small"), "--path", "lo"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let said = "one path only: the server does not use several paths at once";
    assert!(stderr(&output).contains(said), "{}", stderr(&output));
    let args = [&site.url("/small"), "--path", "lo", "--json", "-"];
    let facts: Value = serde_json::from_str(&good(&site, here.path(), &args)).unwrap();
    assert_eq!(facts["one_path_because"], "the server does not use several paths at once");
    let path = &facts["paths"][0];
    assert_eq!((&path["rtt_via"], &path["closed"]), (&0.into(), &Value::Null));
    assert!(path["rtt_ms"].as_f64().unwrap() > 0.0);
    let quiet = command(&site, here.path(), &["-q", "--path", "lo", &site.url("/small")]).output().unwrap();
    assert_eq!(stderr(&quiet), "");
}

#[test]
fn the_rule_for_interfaces_is_shown() {
    let output = paths(&["--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    let loopback =
        |all: &Value| all.as_array().unwrap().iter().find(|one| one["interface"] == "lo").unwrap().clone();
    assert_eq!((&loopback(&all)["counts"], &loopback(&all)["why_not"]), (&false.into(), &"loopback".into()));
    let named: Value = serde_json::from_slice(&paths(&["--json", "--path", "lo"]).stdout).unwrap();
    assert_eq!(loopback(&named)["counts"], true);
    assert_eq!(paths(&["--path", "no-such-if0"]).status.code(), Some(13));
    assert!(String::from_utf8(paths(&[]).stdout).unwrap().contains("no: loopback"));
}
