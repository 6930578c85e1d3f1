//! `compare` over results that `anabranch lab run` has written. The command reads these results, and adds the
//! missing runs as the same version.
#![expect(clippy::unwrap_used, reason = "a test fails where it fails")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anabranch_lab::experiment;
use anabranch_lab::run::RunOptions;
use anabranch_lab::sweep::{SweepOptions, sweep};
use serde_json::Value;

const EXPERIMENT: &str = "compare-2path-256kb";

/// Runs the experiment at these points as `anabranch lab run` does.
fn lab_run(results: &Path, commit: &str, points: &[u64]) {
    let run = RunOptions {
        commit: commit.to_owned(),
        sources: env!("ANABRANCH_SOURCES").to_owned(),
        ..RunOptions::default()
    };
    let options = SweepOptions {
        dir: results.join(EXPERIMENT),
        run,
        variants: Some(vec!["anabranch-multiple".to_owned(), "quic-path-1".to_owned()]),
        points: Some(points.to_vec()),
        ..SweepOptions::default()
    };
    sweep(&experiment::named(EXPERIMENT, None).unwrap(), &options, &()).unwrap();
}

fn compare(results: &Path, more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch-bench"));
    command.args(["compare", "--json", "-", "--designs", "2path-256kb", "--results"]).arg(results);
    command.args(["--variants", "anabranch-multiple,quic-path-1"]).args(more).output().unwrap()
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn journal(results: &Path) -> PathBuf {
    results.join(EXPERIMENT).join("journal.jsonl")
}

/// Returns the lines of a journal that name versions: the first one, and those of further versions.
fn versions(results: &Path) -> Vec<String> {
    let text = fs::read_to_string(journal(results)).unwrap();
    let lines = text.lines().enumerate();
    lines
        .filter(|(at, line)| *at == 0 || line.starts_with("{\"version\":"))
        .map(|(_, line)| line.to_owned())
        .collect()
}

#[test]
fn results_of_the_command_keep_their_version() {
    let results = tempfile::tempdir().unwrap();
    let results = results.path();
    lab_run(results, env!("ANABRANCH_COMMIT"), &[0]);
    let before = fs::read(journal(results)).unwrap();

    let shown = json(&compare(results, &["--points", "0"]));
    assert_eq!(fs::read(journal(results)).unwrap(), before, "there is nothing to add");
    let rows = shown["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    for row in rows {
        assert!(row["time_over_bound"].as_f64().unwrap() > 0.5, "{row}");
        assert!(row["transfer_time_s"].as_f64().unwrap() > 0.0 && row["lost_packets"].is_u64(), "{row}");
        assert!(row["cpu_s"].as_f64().unwrap() > 0.0, "{row}");
    }
    assert_eq!(
        (&rows[0]["stack"], &rows[1]["stack"]),
        (&"anabranch-best-path".into(), &"anabranch-multiple".into())
    );
    assert!(shown["summary"][0]["median_cpu_s"].as_f64().unwrap() > 0.0, "{shown}");

    let shown = json(&compare(results, &["--points", "0,1", "--cpu", "0"]));
    assert_eq!(shown["rows"].as_array().unwrap().len(), 4);
    assert!(shown["rows"][0]["cpu_s"].is_null());
    let versions = versions(results);
    assert_eq!(versions.len(), 1, "{versions:?}");
    assert!(before.starts_with(versions[0].as_bytes()));
    // `anabranch lab run` continues these results.
    lab_run(results, env!("ANABRANCH_COMMIT"), &[0, 1, 2]);
}

#[test]
fn results_of_another_version_are_shown_and_stay_as_they_are() {
    let results = tempfile::tempdir().unwrap();
    let results = results.path();
    lab_run(results, "0123456789ab", &[0]);
    let before = fs::read(journal(results)).unwrap();
    assert_eq!(
        json(&compare(results, &["--points", "0", "--cpu", "0"]))["rows"].as_array().unwrap().len(),
        2
    );

    let output = compare(results, &["--points", "0,1"]);
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    assert!(!output.status.success() && said.lines().count() == 1, "{said}");
    assert!(said.contains("commit 0123456789ab instead of") && said.contains("--no-run shows"), "{said}");

    let output = compare(results, &["--points", "0,1", "--cpu", "0", "--no-run"]);
    assert_eq!(json(&output)["rows"].as_array().unwrap().len(), 2);
    assert_eq!(String::from_utf8(output.stderr).unwrap(), format!("{EXPERIMENT}: 2 runs are not there\n"));
    assert_eq!(fs::read(journal(results)).unwrap(), before);
}
