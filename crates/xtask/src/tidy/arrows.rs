//! Arrows between crates: a crate uses the crates that the table of `ARCHITECTURE.md` says, all of them on
//! lower floors.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::{Fault, Source};

/// The file with the table.
const FILE: &str = "ARCHITECTURE.md";
/// The first cells of the table's head.
const HEAD: [&str; 2] = ["Floor", "Crate (`crates/…`)"];
/// TLS sessions and certificates from a seed, worthless as protection: the library and the command must not
/// be built on them.
const SEEDED: &str = "seeded";
/// The crates that may.
const SEEDED_USERS: [&str; 3] = ["lab", "bench", KIT];
/// Helpers of tests. It has no floor, so that nothing but tests can use it.
const KIT: &str = "testkit";
/// The crates that tests of any crate may use beside those of the table.
const FOR_TESTS: [&str; 3] = ["lab", SEEDED, KIT];

/// A row of the table.
#[derive(Debug)]
struct Row {
    /// `None` for a crate that no other one may use.
    floor: Option<u8>,
    uses: BTreeSet<String>,
}

/// Gives cargo's description of the workspace's manifests.
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

/// Reports crates and arrows that the table does not have, rows and arrows of the table that do not exist,
/// and arrows that do not point downwards.
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

/// Reports the faults of one crate's arrows.
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
    // A crate that names itself turns a feature of its own on for its tests.
    let allowed = |used: &str| used == name || FOR_TESTS.contains(&used);
    let strange = |used: &&String| !row.uses.contains(*used) && !allowed(used);
    said.extend(
        tests.iter().filter(strange).map(|used| format!("uses {used} in its tests, not on a lower floor")),
    );
    said.into_iter().map(|what| Fault { place: format!("crate {name}"), what }).collect()
}

/// Reads the table of floors.
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

/// Gives a package's name as the table has it.
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
