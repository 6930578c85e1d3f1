//! Page docs/bounds.md, which the command writes from a run.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;

use super::Tried;
use super::list::{Bound, List, rows};

/// File of the page.
const PAGE: &str = "docs/bounds.md";

/// Writes the page.
pub(super) fn write(root: &Path, list: &List, results: &[Tried]) -> Result<(), String> {
    let threats = fs::read_to_string(root.join("docs/threats.md")).map_err(|error| error.to_string())?;
    let page = page(list, results, &threats, &commit(root)?).map_err(|error| error.to_string())?;
    fs::write(root.join(PAGE), page).map_err(|error| format!("{PAGE}: {error}"))
}

fn page(list: &List, results: &[Tried], threats: &str, commit: &str) -> Result<String, std::fmt::Error> {
    let runs: usize = results.iter().map(|result| result.outcomes.len()).sum();
    let survivors: usize = results.iter().map(Tried::survivors).sum();
    let mut out = String::new();
    writeln!(out, "{}", HEAD.trim_start())?;
    writeln!(
        out,
        "Commit {commit}: {} bounds were taken out, one at a time, in {runs} runs of tests. {survivors} of these runs passed.\n",
        results.len(),
    )?;
    writeln!(
        out,
        "| # | Bound | Without it | Place | Tests that then fail, and how |\n|---|---|---|---|---|"
    )?;
    for result in results {
        line(&mut out, result)?;
    }
    let missing: Vec<&Bound> = list
        .bounds
        .iter()
        .filter(|bound| !results.iter().any(|result| result.bound.switch() == bound.switch()))
        .collect();
    if !missing.is_empty() {
        writeln!(out, "\n## Not run\n\nThe list has these bounds too, but the run left them out.\n")?;
        writeln!(out, "| # | Bound | Without it |\n|---|---|---|")?;
        for bound in missing {
            writeln!(out, "| {} | {} | {} |", bound.row, shown(&bound.name), bound.without)?;
        }
    }
    writeln!(out, "\n## Not taken out\n\n| # | Bound | Why |\n|---|---|---|")?;
    for kept in &list.kept {
        writeln!(out, "| {} | {} | {} |", kept.row, shown(&kept.name), kept.why)?;
    }
    let silent = silent(&list.bounds, threats);
    writeln!(out, "\n## Tests without a bound\n")?;
    writeln!(out, "{}", SILENT.trim())?;
    for (row, tests) in silent {
        let names: Vec<String> = tests.iter().map(|test| format!("`{test}`")).collect();
        writeln!(out, "\n- {row}: {}", names.join(" "))?;
    }
    Ok(out)
}

const HEAD: &str = "
# Bounds taken out

A test of a bound is worth something only if it fails without the bound. `cargo xtask bounds` shows this for the bounds of
[threats.md](threats.md): it takes each of them out of a copy of the workspace and runs the tests that demonstrate it, which must
then fail, run out of memory, or not end. `cargo xtask bounds --write` wrote this page; the list is in `crates/xtask/src/bounds/`.
`cargo xtask tidy` checks that the list fits the code, and that no bound of threats.md is missing from it.

The rows `driver` are no bounds on a peer's input, and threats.md has no row for them. They are lines of the library on which several
tasks depend: a lock, a waker, the order of two steps. Their tests run the tasks in many orders (\"Check orders of tasks\" in
[CONTRIBUTING.md](../CONTRIBUTING.md)); without the line one of the orders must fail, or end in a deadlock. The last column does not say
how rare this order is.
";

const SILENT: &str = "
threats.md cites these tests too, but no bound in the list needs them: they show that ordinary use stays possible, that the peer gets
the right error code, or a behaviour that cannot be taken out by changing one condition.
";

/// Writes the line of a bound.
fn line(out: &mut String, result: &Tried) -> std::fmt::Result {
    let Bound { row, name, without, edits, tests } = &result.bound;
    let places: BTreeSet<&str> = edits.iter().map(|edit| edit.file.as_str()).collect();
    let places: Vec<String> = places.iter().map(|place| format!("`{place}`")).collect();
    let tests = tests.iter().zip(&result.outcomes).map(|(test, outcome)| {
        let name = test.split('#').next_back().unwrap_or_default();
        format!("`{name}`: {}", outcome.word())
    });
    let tests: Vec<String> = tests.collect();
    writeln!(out, "| {row} | {} | {without} | {} | {} |", shown(name), places.join(" "), tests.join("; "))
}

/// Returns a constant as code, and words as they are.
fn shown(name: &str) -> String {
    if name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_') {
        format!("`{name}`")
    } else {
        name.to_owned()
    }
}

/// Returns the tests of threats.md that no bound in the list names, for each row.
fn silent(bounds: &[Bound], threats: &str) -> Vec<(String, Vec<String>)> {
    let named: BTreeSet<&String> = bounds.iter().flat_map(|bound| &bound.tests).collect();
    let rows = rows(threats).into_iter().map(|row| {
        let rest = row.tests.into_iter().filter(|test| !named.contains(test)).collect::<Vec<String>>();
        (row.number, rest)
    });
    rows.filter(|(_, tests)| !tests.is_empty()).collect()
}

/// Returns the commit, and whether files differ from it.
fn commit(root: &Path) -> Result<String, String> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).current_dir(root).output();
        let output = output.map_err(|error| format!("git: {error}"))?;
        Ok::<_, String>(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let hash = git(&["rev-parse", "--short", "HEAD"])?;
    let is_clean = git(&["status", "--porcelain", "--", "crates"])?.is_empty();
    Ok(if is_clean { hash } else { format!("{hash} with changes") })
}
