//! Table of attacks: the code and the tests that it names must exist, and it must cite each test whose name
//! contains the number of a row.

use super::conformance::exists;
use super::{Fault, Source};

/// Page with the table. Names in it have the form `file#item`, with the file relative to `crates/`.
const TABLE: &str = "docs/threats.md";
/// Column of the tests, counted from the left border.
const TESTS: usize = 5;

/// Reports names in the page that do not exist, and tests of rows that the page does not cite.
pub(super) fn check(sources: &[Source]) -> Vec<Fault> {
    let Some(table) = sources.iter().find(|source| source.path == TABLE) else { return Vec::new() };
    let mut faults = Vec::new();
    for (index, line) in table.text.lines().enumerate() {
        for (column, cell) in line.split(" | ").enumerate() {
            let is_test = line.starts_with("| ") && column + 1 == TESTS;
            let names = cell.split('`').skip(1).step_by(2);
            let missing = names.filter(|name| name.contains(".rs#") && !exists(sources, name, is_test));
            faults.extend(missing.map(|name| table.fault(index, format!("`{name}` does not exist"))));
        }
    }
    for source in sources.iter().filter(|source| source.crate_folder().is_some_and(|name| name != "xtask")) {
        for (index, line) in source.text.lines().enumerate() {
            let Some(name) = line.trim().strip_prefix("fn ").and_then(|rest| rest.split('(').next()) else {
                continue;
            };
            if name.starts_with("row_") && !table.text.contains(&format!("#{name}`")) {
                faults.push(source.fault(index, format!("{TABLE} does not cite `{name}`")));
            }
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::super::{places, source};
    use super::*;

    #[test]
    fn names_exist_and_tests_of_rows_are_cited() {
        let code = source(
            "crates/a/src/b.rs",
            "const MAX: u8 = 1;\n#[test]\nfn row_1_a() {}\n#[test]\nfn row_2_b() {}\n",
        );
        let row = |bound: &str, test: &str| {
            source(TABLE, &format!("| 1 | a | b | {bound} | `a/src/b.rs#row_1_a` {test} | 8 |\n"))
        };
        let check = |table: Source| check(&[table, code.clone()]);
        assert_eq!(check(row("1: `a/src/b.rs#MAX`", "`a/src/b.rs#row_2_b`")), Vec::new());
        assert_eq!(places(&check(row("", ""))), ["crates/a/src/b.rs:5"]);
        assert_eq!(places(&check(row("`a/src/b.rs#MIN`", "`a/src/b.rs#row_2_b`"))), ["docs/threats.md:1"]);
        assert_eq!(places(&check(row("", "`a/src/b.rs#row_2_b` `a/src/b.rs#MAX`"))), ["docs/threats.md:1"]);
    }
}
