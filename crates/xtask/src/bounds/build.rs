//! Test programs of the copy, and the program of each test.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::driver;
use super::trial::Trial;
use super::workspace::Copy;

/// Test program.
#[derive(Debug)]
pub(super) struct Program {
    /// Folder of its crate below `crates`.
    folder: String,
    /// `true` for the program with the tests of [`driver`].
    is_model: bool,
    /// Root of its sources, relative to the crate's folder: `src/lib.rs`, `tests/x.rs`, …
    source: String,
    path: PathBuf,
    /// Folder in which it runs.
    current: PathBuf,
    /// Names of its tests.
    tests: Vec<String>,
}

/// Builds the test programs that contain the tests, crate by crate: which features its dependencies have does not
/// depend on the other crates of a run, so that they are built once. The tests of [`driver`] have a program of their own.
pub(super) fn build(copy: &Copy, tests: &BTreeSet<&str>) -> Result<Vec<Program>, String> {
    let mut groups: BTreeMap<(&str, bool), BTreeSet<&str>> = BTreeMap::new();
    for test in tests {
        let folder = test.split('/').next().unwrap_or_default();
        groups.entry((folder, driver::has(test))).or_default().insert(test);
    }
    let mut programs = Vec::new();
    for ((folder, is_model), tests) in groups {
        programs.extend(build_crate(copy, folder, is_model, &tests)?);
    }
    Ok(programs)
}

fn build_crate(
    copy: &Copy,
    folder: &str,
    is_model: bool,
    tests: &BTreeSet<&str>,
) -> Result<Vec<Program>, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let current = copy.root.join("crates").join(folder);
    let mut command = Command::new(cargo);
    command.args(["test", "--no-run", "--message-format=json"]).args(targets(folder, tests));
    if is_model {
        command.args(["--no-default-features", "--features", driver::FEATURES]);
    } else if folder == "anabranch" {
        // The command has the library's tunnels, which the library's default features leave out.
        command.arg("--features=proxy");
    }
    command.current_dir(&current).env("CARGO_TARGET_DIR", &copy.target);
    // `cargo run` sets variables for its own package.
    command.env_remove("CARGO_MANIFEST_DIR").stderr(Stdio::inherit());
    let output = command.output().map_err(|error| format!("cargo test: {error}"))?;
    let messages = String::from_utf8_lossy(&output.stdout);
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut programs = Vec::new();
    for message in messages {
        if message["message"]["level"] == "error" {
            print!("{}", message["message"]["rendered"].as_str().unwrap_or_default());
        }
        let is_test = message["profile"]["test"] == true;
        if let Some(path) = message["executable"].as_str().filter(|_| is_test) {
            let source = Path::new(message["target"]["src_path"].as_str().unwrap_or_default());
            programs.extend(program(copy, source, Path::new(path), is_model)?);
        }
    }
    if output.status.success() { Ok(programs) } else { Err(format!("the copy of {folder} cannot be built")) }
}

/// Returns cargo's options for the targets of a crate that contain the tests.
fn targets(folder: &str, tests: &BTreeSet<&str>) -> BTreeSet<String> {
    let inner = tests.iter().filter_map(|test| test.strip_prefix(folder)?.strip_prefix('/'));
    let options = inner.map(|test| match test.split(['/', '#']).collect::<Vec<_>>()[..] {
        ["tests", name, ..] => format!("--test={}", name.trim_end_matches(".rs")),
        // The command has no library.
        _ if folder == "cli" => "--bins".to_owned(),
        _ => "--lib".to_owned(),
    });
    options.collect()
}

/// Asks a program for its tests. `None` for programs of other folders.
fn program(copy: &Copy, source: &Path, path: &Path, is_model: bool) -> Result<Option<Program>, String> {
    let Ok(relative) = source.strip_prefix(copy.root.join("crates")) else { return Ok(None) };
    let relative = relative.to_string_lossy().replace('\\', "/");
    let Some((folder, source)) = relative.split_once('/') else { return Ok(None) };
    let current = copy.root.join("crates").join(folder);
    let output = Command::new(path).args(["--list", "--format=terse"]).current_dir(&current).output();
    let output = output.map_err(|error| format!("{}: {error}", path.display()))?;
    let names = String::from_utf8_lossy(&output.stdout);
    let tests = names.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect();
    Ok(Some(Program {
        folder: folder.to_owned(),
        is_model,
        source: source.to_owned(),
        path: path.to_owned(),
        current,
        tests,
    }))
}

/// Finds the program and the full name of `file#test`.
pub(super) fn find(programs: &[Program], test: &str) -> Result<Trial, String> {
    let wrong = || format!("`{test}` is not found exactly once");
    let (file, name) = test.split_once('#').ok_or_else(wrong)?;
    let (folder, inner) = file.split_once('/').ok_or_else(wrong)?;
    let mut found = Vec::new();
    let is_candidate = |program: &&Program| program.folder == folder && program.is_model == driver::has(test);
    for program in programs.iter().filter(is_candidate) {
        let base = program.source.rsplit_once('/').map_or("", |(base, _)| base);
        let is_root = program.source == inner;
        let is_below = inner.strip_prefix(base).is_some_and(|rest| rest.starts_with('/'))
            && (base != "tests" || is_root);
        if !is_below {
            continue;
        }
        // Path of the module, which the names of its tests begin with.
        let inner = if is_root { "" } else { inner.get(base.len() + 1..).unwrap_or_default() };
        let module = inner.trim_end_matches(".rs").trim_end_matches("/mod").replace('/', "::");
        let is_it = |full: &&String| {
            full.starts_with(&module) && (**full == name || full.ends_with(&format!("::{name}")))
        };
        found.extend(program.tests.iter().filter(is_it).map(|full| (program, full)));
    }
    match found[..] {
        [(program, full)] => {
            Ok(Trial::new(test.to_owned(), full.clone(), program.path.clone(), program.current.clone()))
        }
        _ => Err(wrong()),
    }
}
