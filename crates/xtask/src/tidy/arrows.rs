//! Dependencies between crates: a crate uses only the crates that the table of `ARCHITECTURE.md` lists, all
//! of them on lower floors.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::{Fault, Source};

/// File that contains the table.
const FILE: &str = "ARCHITECTURE.md";
/// First cells of the table's header.
const HEAD: [&str; 2] = ["Floor", "Crate (`crates/…`)"];
/// Crate for seeded TLS sessions and certificates. They give no protection, so the library and the command
/// must not use them.
const SEEDED: &str = "seeded";
/// Crates that may use the seeded crate.
const SEEDED_USERS: [&str; 4] = ["lab", "linux", "workloads", KIT];
/// Crate with test helpers. It has no floor, so only tests can use it.
const KIT: &str = "testkit";
/// Crates that the tests of any crate may use besides those of the table.
const FOR_TESTS: [&str; 4] = ["lab", SEEDED, KIT, "meter"];

/// Row of the table.
#[derive(Debug)]
struct Row {
    /// Floor of the crate; `None` if no other crate may use it.
    floor: Option<u8>,
    uses: BTreeSet<String>,
}

/// Returns cargo's description of the workspace's manifests.
pub(super) fn metadata(root: &Path) -> Result<Value, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root)
        .output()
        .map_err(|error| format!("cargo metadata: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata: {error}"))
}

/// Reports crates and dependencies that are missing from the table. Also reports rows and dependencies of the
/// table that do not exist, and dependencies on a crate that is not on a lower floor.
pub(super) fn check(sources: &[Source], metadata: &Value) -> Vec<Fault> {
    let Some(source) = sources.iter().find(|source| source.path == FILE) else { return Vec::new() };
    let table = table(&source.text);
    let fault = |place: String, what: &str| Fault { place, what: what.to_owned() };
    let mut faults = Vec::new();
    let mut found = BTreeSet::new();
    for package in array(&metadata["packages"]) {
        let name = short(text(&package["name"]));
        found.insert(name.to_owned());
        match table.get(name) {
            Some(row) => faults.extend(of(name, row, &table, array(&package["dependencies"]))),
            None => {
                faults.push(fault(format!("crate {name}"), "is not in ARCHITECTURE.md's table of floors"));
            }
        }
    }
    let gone = table.keys().filter(|name| !found.contains(*name));
    faults.extend(gone.map(|name| fault(format!("{FILE}: crate {name}"), "does not exist")));
    faults
}

/// Returns the faults of one crate's dependencies.
fn of(name: &str, row: &Row, table: &BTreeMap<String, Row>, dependencies: &[Value]) -> Vec<Fault> {
    let ours = dependencies.iter().filter(|dependency| dependency["path"].is_string());
    let (tests, others): (Vec<_>, Vec<_>) = ours.partition(|dependency| dependency["kind"] == "dev");
    let names = |some: Vec<&Value>| -> BTreeSet<String> {
        some.into_iter().map(|dependency| short(text(&dependency["name"])).to_owned()).collect()
    };
    let (tests, used) = (names(tests), names(others));
    let is_lower = |used: &str| {
        let floor = table.get(used).and_then(|row| row.floor);
        floor.is_some_and(|floor| row.floor.is_none_or(|own| floor < own))
    };
    let mut said = Vec::new();
    said.extend(used.difference(&row.uses).map(|used| format!("uses {used}, which {FILE} does not say")));
    said.extend(row.uses.difference(&used).map(|used| format!("does not use {used}, though {FILE} says so")));
    said.extend(
        used.iter().filter(|used| !is_lower(used)).map(|used| format!("uses {used}, not on a lower floor")),
    );
    if used.contains(SEEDED) && !SEEDED_USERS.contains(&name) {
        said.push(format!("uses {SEEDED}, which only {} may", SEEDED_USERS.join(", ")));
    }
    // A crate that depends on itself enables one of its own features for its tests.
    let allowed = |used: &str| used == name || FOR_TESTS.contains(&used);
    let strange = |used: &&String| !row.uses.contains(*used) && !allowed(used);
    said.extend(
        tests.iter().filter(strange).map(|used| format!("uses {used} in its tests, not on a lower floor")),
    );
    said.into_iter().map(|what| Fault { place: format!("crate {name}"), what }).collect()
}

/// Parses the table of floors.
fn table(text: &str) -> BTreeMap<String, Row> {
    let cells = |line: &str| -> Vec<String> {
        line.trim().trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    let lines = text.lines().skip_while(|line| !cells(line).starts_with(&HEAD.map(str::to_owned))).skip(2);
    lines
        .take_while(|line| line.starts_with('|'))
        .filter_map(|line| {
            let cells = cells(line);
            let uses = cells.get(3)?.split(", ").filter(|used| *used != "–").map(str::to_owned).collect();
            Some((cells.get(1)?.trim_matches('`').to_owned(), Row { floor: cells[0].parse().ok(), uses }))
        })
        .collect()
}

/// Returns a package's name as in the table.
fn short(package: &str) -> &str {
    package.strip_prefix("anabranch-").unwrap_or(package)
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests;
