//! `cargo xtask executed LOG`: each test that a table names passed in a run of `cargo test`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::{Fault, Source};
use super::log::{self, Binary};
use super::{exists, table};

/// Target of a package that has tests.
struct Target {
    /// Folder of the package below `crates/`.
    package: String,
    binary: Binary,
}

/// Reports the tests that the tables name and that did not pass in the run whose output is `log`.
/// `metadata` is cargo's description of the workspace.
pub(in super::super) fn check(sources: &[Source], metadata: &Value, log: &str) -> Vec<Fault> {
    let targets = targets(metadata);
    let passed = log::passed(log);
    let mut faults = Vec::new();
    for page in table::pages(sources) {
        for row in table::rows(page).0 {
            for name in row.tests {
                let Some((target, inner, test)) = locate(&targets, name) else {
                    faults.push(page.fault(row.line, format!("`{name}` is in no target of the workspace")));
                    continue;
                };
                let inline = inline_modules(sources, name);
                let found: usize = passed
                    .iter()
                    .filter(|((binary, path), _)| {
                        *binary == target.binary && is_path(path, &inner, &inline, test)
                    })
                    .map(|(_, count)| count)
                    .sum();
                if found < namesakes(sources, &targets, target, name) {
                    faults.push(page.fault(row.line, format!("`{name}` did not pass in this run")));
                }
            }
        }
    }
    faults
}

/// Returns the number of tests that the tables name.
pub(in super::super) fn count(sources: &[Source]) -> usize {
    let rows = table::pages(sources).flat_map(|page| table::rows(page).0);
    rows.flat_map(|row| row.tests).collect::<BTreeSet<_>>().len()
}

/// Returns the libraries, programs and integration tests of the workspace.
fn targets(metadata: &Value) -> Vec<Target> {
    let array = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut targets = Vec::new();
    for package in array(&metadata["packages"]) {
        let manifest = package["manifest_path"].as_str().unwrap_or_default().replace('\\', "/");
        let Some(folder) = manifest.strip_suffix("/Cargo.toml") else { continue };
        for target in array(&package["targets"]) {
            let is_tested = array(&target["kind"])
                .iter()
                .any(|kind| ["lib", "bin", "test"].contains(&kind.as_str().unwrap_or_default()));
            let path = target["src_path"].as_str().unwrap_or_default().replace('\\', "/");
            let root = path.strip_prefix(&format!("{folder}/"));
            if let (true, Some(root), Some(name)) = (is_tested, root, target["name"].as_str()) {
                let package = folder.rsplit('/').next().unwrap_or_default().to_owned();
                targets.push(Target { package, binary: (root.to_owned(), name.replace('-', "_")) });
            }
        }
    }
    targets
}

/// Returns the target that contains the file of `file#test`, the modules of the file, and the test's name.
fn locate<'a, 'n>(targets: &'a [Target], name: &'n str) -> Option<(&'a Target, Vec<&'n str>, &'n str)> {
    let (path, test) = name.split_once('#')?;
    let (package, file) = path.split_once('/')?;
    let modules = |target: &Target| -> Option<Vec<&'n str>> {
        let root = target.binary.0.as_str();
        if file == root {
            return Some(Vec::new());
        }
        let (folder, last) = root.rsplit_once('/')?;
        // `tests/a.rs` is alone; `src/lib.rs` and `tests/a/main.rs` have the files beside and below them.
        if !["lib.rs", "main.rs"].contains(&last) {
            return None;
        }
        let below = file.strip_prefix(folder)?.strip_prefix('/')?.strip_suffix(".rs")?;
        Some(below.strip_suffix("/mod").unwrap_or(below).split('/').collect())
    };
    // The target with the longest root folder: programs may lie below a library. A library comes first.
    let own = targets.iter().filter(|target| target.package == package);
    own.filter_map(|target| Some((target, modules(target)?)))
        .min_by_key(|(target, modules)| (modules.len(), target.binary.0.ends_with("main.rs")))
        .map(|(target, modules)| (target, modules, test))
}

/// Returns the names of the modules that are written in the file itself.
fn inline_modules<'a>(sources: &'a [Source], name: &str) -> BTreeSet<&'a str> {
    let path = name.split_once('#').map(|(file, _)| format!("crates/{file}"));
    let source = sources.iter().find(|source| Some(&source.path) == path.as_ref());
    let lines = source.map_or("", |source| source.text.as_str()).lines();
    lines
        .filter_map(|line| line.trim().strip_suffix(" {")?.rsplit_once("mod ").map(|(_, name)| name))
        .collect()
}

/// Returns whether `path` leads through the modules of the file and then only through modules within it.
fn is_path(path: &str, outer: &[&str], inline: &BTreeSet<&str>, test: &str) -> bool {
    let parts: Vec<&str> = path.split("::").collect();
    let Some((last, modules)) = parts.split_last() else { return false };
    let within = modules.strip_prefix(outer);
    *last == test && within.is_some_and(|within| within.iter().all(|name| inline.contains(name)))
}

/// Returns how many packages have this test in the same file of a target of the same name: the output does
/// not tell them apart, so that each must have passed.
fn namesakes(sources: &[Source], targets: &[Target], target: &Target, name: &str) -> usize {
    let below = name.strip_prefix(&target.package).unwrap_or_default();
    let same = targets.iter().filter(|other| other.binary == target.binary);
    same.filter(|other| exists(sources, &format!("{}{below}", other.package), true)).count().max(1)
}

#[cfg(test)]
mod tests;
