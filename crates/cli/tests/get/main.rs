//! `anabranch get` over HTTP/3, as scripts see it.
#![allow(unreachable_pub, reason = "modules of a test")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests are tests")]

mod failures;
mod paths;
mod requests;
mod resume;
mod site;
mod terminal;

use std::path::Path;
use std::process::{Command, Output};

use anabranch_testkit::pattern;
use serde_json::Value;

use self::site::{LARGE, Site};

/// Returns a command `get` in `dir` that trusts the site.
fn command(site: &Site, dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
    command.current_dir(dir).arg("get").arg("--ca").arg(site.ca()).args(args);
    command
}

fn get(site: &Site, dir: &Path, args: &[&str]) -> Output {
    command(site, dir, args).output().unwrap()
}

/// Runs `get`, which must succeed. Returns its standard output.
#[track_caller]
fn good(site: &Site, dir: &Path, args: &[&str]) -> String {
    let output = get(site, dir, args);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Returns the names of all files in a directory.
fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn sha256(content: &[u8]) -> String {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, content);
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn files_of_one_server_come_over_one_connection() {
    let (site, here) = (Site::start(), tempfile::tempdir().unwrap());
    std::fs::create_dir(here.path().join("out")).unwrap();
    let urls = [site.url("/small"), site.url("/large"), site.url("/whole")];
    let args = [&urls[0], &urls[1], &urls[2], "-o", "out", "--json", "-"];
    let facts: Value = serde_json::from_str(&good(&site, here.path(), &args)).unwrap();
    assert_eq!(site.connections().len(), 1);
    assert_eq!(names(&here.path().join("out")), ["large", "small", "whole"]);
    assert_eq!(std::fs::read(here.path().join("out/small")).unwrap(), b"small file");
    assert!(std::fs::read(here.path().join("out/large")).unwrap() == pattern(LARGE));
    for (fact, (url, content)) in facts.as_array().unwrap().iter().zip([
        (&urls[0], b"small file".to_vec()),
        (&urls[1], pattern(LARGE)),
        (&urls[2], pattern(LARGE)),
    ]) {
        assert_eq!((&fact["url"], &fact["bytes"]), (&url.as_str().into(), &content.len().into()));
        assert_eq!(fact["sha256"], sha256(&content));
    }

    // The same downloads are made without JSON, into files that are named by the URLs.
    let output = get(&site, here.path(), &[&urls[0], &urls[1]]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(names(here.path()), ["large", "out", "small"]);
    let lines = stderr(&output);
    assert_eq!(lines.lines().count(), 3, "{lines}");
    assert!(lines.contains("2 files: 3000010 bytes in "), "{lines}");
    assert_eq!(stderr(&get(&site, here.path(), &["--quiet", &urls[0]])), "");
}

#[test]
fn one_url_makes_one_object_and_no_file() {
    let (site, here) = (Site::start(), tempfile::tempdir().unwrap());
    let fact = good(&site, here.path(), &[&site.url("/large"), "--json", "-"]);
    let fact: Value = serde_json::from_str(&fact).unwrap();
    assert_eq!(fact["url"], site.url("/large"));
    assert_eq!((&fact["bytes"], &fact["status"]), (&LARGE.into(), &200.into()));
    assert_eq!((&fact["version"], &fact["alpn"]), (&"0x00000001".into(), &"h3".into()));
    assert_eq!(fact["sha256"], sha256(&pattern(LARGE)));
    assert!((0.9..=1.0).contains(&fact["ordered_ratio"].as_f64().unwrap()), "{fact}");
    let reordering = &fact["reordering"];
    let classes = reordering["distances"].as_array().unwrap();
    let sum: u64 = classes.iter().map(|class| class["packets"].as_u64().unwrap()).sum();
    assert_eq!((classes.len(), Some(sum)), (12, reordering["packets"].as_u64()), "{fact}");
    let [placed, copied] = ["placed_bytes", "copied_bytes"].map(|field| fact[field].as_u64().unwrap());
    assert!(placed + copied >= LARGE as u64 && fact["restored_bytes"] == 0, "{fact}");
    assert!(fact["seconds"].as_f64().unwrap() > 0.0 && fact["goodput_mbps"].as_f64().unwrap() > 0.0);
    let path = &fact["paths"][0];
    assert_eq!((&path["id"], &path["state"]), (&0.into(), &"open".into()));
    assert_eq!(path["remote"], site.address.to_string());
    assert!(path["bytes"].as_u64().unwrap() > LARGE as u64 && path["rtt_ms"].as_f64().unwrap() > 0.0);
    assert!(path["lost_packets"].is_u64() && path["local"].as_str().unwrap().contains(':'));
    assert_eq!(names(here.path()), [""; 0]);

    // JSON is written to a file, beside the content.
    assert_eq!(good(&site, here.path(), &[&site.url("/small"), "--json", "facts"]), "");
    assert_eq!(names(here.path()), ["facts", "small"]);
    let both = good(&site, here.path(), &[&site.url("/small"), "--json", "facts", "-o", "-"]);
    assert_eq!(both, "small file");
}

#[test]
fn content_is_decrypted_to_where_it_is_written_from() {
    let (site, here) = (Site::start(), tempfile::tempdir().unwrap());
    let fact = |args: &[&str]| -> Value {
        let url = site.url("/large");
        let args = [&[url.as_str(), "-o", "file", "--json", "-"], args].concat();
        let fact = serde_json::from_str(&good(&site, here.path(), &args)).unwrap();
        assert!(std::fs::read(here.path().join("file")).unwrap() == pattern(LARGE));
        fact
    };
    let reverso = fact(&["--wire", "reverso"]);
    assert_eq!((&reverso["version"], &reverso["alpn"]), (&"0x00791097".into(), &"h3".into()));
    let [placed, copied] = ["placed_bytes", "copied_bytes"].map(|name| reverso[name].as_u64().unwrap());
    assert!(placed >= LARGE as u64 * 9 / 10 && copied <= LARGE as u64 / 10, "{reverso}");
    assert!(reverso["ordered_ratio"].as_f64() > Some(0.5), "{reverso}");
    // The server prefers VReverso for clients that offer it; other clients get their own version.
    assert_eq!(fact(&["--wire", "v1"])["version"], "0x00000001");
    assert_eq!(fact(&["--wire", "v2"])["version"], "0x6b3343cf");
}

#[test]
fn repetitions_resume_with_early_data() {
    let (site, here) = (Site::start(), tempfile::tempdir().unwrap());
    let args = [&site.url("/small"), &site.url("/large"), "--repeat", "3", "--json", "-"];
    let facts: Value = serde_json::from_str(&good(&site, here.path(), &args)).unwrap();
    let early = facts.as_array().unwrap().iter().map(|fact| fact["zero_rtt_accepted"] == true);
    assert_eq!(early.collect::<Vec<_>>(), [false, false, true, true, true, true]);
    // The client's address was validated by a token, too.
    assert_eq!(site.connections(), [false, true, true]);
}

#[test]
fn a_session_file_keeps_tokens_between_runs() {
    let (site, here) = (Site::start(), tempfile::tempdir().unwrap());
    let args = [&site.url("/large"), "-o", "-", "--session-file", "session"];
    for _ in 0..3 {
        assert_eq!(get(&site, here.path(), &args).status.code(), Some(0));
    }
    assert_eq!(site.connections(), [false, true, true]);
    assert_eq!(names(here.path()), ["session"]);
    std::fs::write(here.path().join("session"), "something else").unwrap();
    assert_eq!(get(&site, here.path(), &args).status.code(), Some(2));
    assert_eq!(std::fs::read(here.path().join("session")).unwrap(), b"something else");
}
