//! Table of requirements: the code and the tests that it names must exist, and no requirement may be missing.

use super::{Fault, Source};

/// Path of the table. Names in it have the form `file#item`, with the file relative to `crates/`.
const TABLE: &str = "docs/conformance-rfc10069.md";
/// Number of requirements, which are numbered from 1.
const REQUIREMENTS: usize = 37;
/// Keywords that precede an item's name in its definition.
const DEFINITIONS: [&str; 5] = ["fn ", "const ", "struct ", "enum ", "mod "];

/// Checks that every row names existing code and existing tests, and that every requirement has a row.
pub(super) fn check(sources: &[Source]) -> Vec<Fault> {
    let Some(table) = sources.iter().find(|source| source.path == TABLE) else { return Vec::new() };
    let mut faults = Vec::new();
    let mut rows = Vec::new();
    for (index, line) in table.text.lines().enumerate().filter(|(_, line)| line.starts_with("| ")) {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [number, _, _, code, tests] = cells[..] else {
            faults.push(table.fault(index, "a row has five cells"));
            continue;
        };
        rows.extend(number.parse::<usize>());
        let is_row = number.parse::<usize>().is_ok() || number == "S";
        for (cell, tests) in [(code, false), (tests, true)] {
            let names: Vec<&str> = cell.split('`').skip(1).step_by(2).collect();
            if is_row && names.is_empty() {
                faults.push(table.fault(index, "a row names code and tests"));
            }
            let missing = names.iter().filter(|name| !exists(sources, name, tests));
            faults.extend(missing.map(|name| table.fault(index, format!("`{name}` does not exist"))));
        }
    }
    let lacking = (1..=REQUIREMENTS).filter(|number| !rows.contains(number));
    faults.extend(lacking.map(|number| table.fault(0, format!("requirement {number} has no row"))));
    faults
}

/// Returns whether `file#item` is defined, as a test if `test` is set.
pub(super) fn exists(sources: &[Source], name: &str, test: bool) -> bool {
    let Some((file, item)) = name.split_once('#') else { return false };
    let path = format!("crates/{file}");
    let Some(source) = sources.iter().find(|source| source.path == path) else { return false };
    let lines: Vec<&str> = source.text.lines().collect();
    lines.iter().enumerate().any(|(index, line)| {
        let defined = DEFINITIONS.iter().any(|word| {
            let after = line.split_once(word).and_then(|(_, rest)| rest.strip_prefix(item));
            after.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
        });
        defined && (!test || index > 0 && is_test_attribute(lines[index - 1].trim()))
    })
}

/// Returns whether the line is `#[test]`, or tokio's attribute with or without arguments.
fn is_test_attribute(line: &str) -> bool {
    line == "#[test]" || line.starts_with("#[tokio::test")
}

#[cfg(test)]
mod tests {
    use super::super::source;
    use super::*;

    fn faults(rows: &[String]) -> Vec<String> {
        let code = source(
            "crates/a/src/b.rs",
            "const LIMIT: u8 = 1;\npub(super) fn act(&self) {}\n#[test]\nfn acts() {}\n",
        );
        check(&[source(TABLE, &rows.join("\n")), code]).into_iter().map(|fault| fault.what).collect()
    }

    fn complete() -> Vec<String> {
        (1..=REQUIREMENTS)
            .map(|n| format!("| {n} | a rule | 2 | `a/src/b.rs#act` | `a/src/b.rs#acts` |"))
            .collect()
    }

    #[test]
    fn names_that_exist_are_fine() {
        let mut rows = complete();
        rows.insert(0, "| # | Requirement | § | Code | Tests |".to_owned());
        rows.push("| S | advice | 3 | `a/src/b.rs#LIMIT` | `a/src/b.rs#acts` |".to_owned());
        assert_eq!(faults(&rows), Vec::<String>::new());
    }

    #[test]
    fn names_that_do_not_exist_and_rows_that_are_missing_are_faults() {
        let row = |code: &str, tests: &str| format!("| 5 | a rule | 2 | {code} | {tests} |");
        for (code, tests) in [
            ("`a/src/b.rs#ac`", "`a/src/b.rs#acts`"),
            ("`a/src/c.rs#act`", "`a/src/b.rs#acts`"),
            ("`a/src/b.rs#act`", "`a/src/b.rs#act`"),
            ("", "`a/src/b.rs#acts`"),
        ] {
            let mut rows = complete();
            rows[4] = row(code, tests);
            assert_eq!(faults(&rows).len(), 1, "{code} {tests}");
        }
        assert_eq!(faults(&complete()[1..]), ["requirement 1 has no row"]);
    }
}
