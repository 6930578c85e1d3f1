//! Tables of requirements: the code and the tests that they name must exist, no requirement may be missing, and
//! requirements without a test must be listed.

pub(super) mod executed;
mod log;
mod table;

use super::{Fault, Source};

/// Keywords that precede an item's name in its definition.
const DEFINITIONS: [&str; 5] = ["fn ", "const ", "struct ", "enum ", "mod "];

/// Checks every table: names exist, numbers go from 1 to what the head says, and the head lists the rows
/// without a test.
pub(super) fn check(sources: &[Source]) -> Vec<Fault> {
    table::pages(sources).flat_map(|page| of(sources, page)).collect()
}

/// Returns the faults of one page.
fn of(sources: &[Source], page: &Source) -> Vec<Fault> {
    let (rows, mut faults) = table::rows(page);
    for row in &rows {
        if row.code.is_empty() || row.tests.is_empty() != row.is_hole {
            faults.push(page.fault(row.line, "a row names code and tests, or says `no test`"));
        }
        for (names, test) in [(&row.code, false), (&row.tests, true)] {
            let missing = names.iter().filter(|name| !exists(sources, name, test));
            faults.extend(missing.map(|name| page.fault(row.line, format!("`{name}` does not exist"))));
        }
    }
    let numbers: Vec<usize> = rows.iter().filter_map(|row| row.number).collect();
    let last = numbers.iter().copied().max().unwrap_or(0);
    let lacking = (1..=last).filter(|number| !numbers.contains(number));
    faults.extend(lacking.map(|number| page.fault(0, format!("requirement {number} has no row"))));
    if numbers.len() > last || numbers.contains(&0) {
        faults.push(page.fault(0, "the rows are numbered from 1, each once"));
    }
    let head = table::head(page);
    if !["requirements", "rows"].iter().any(|noun| says(&head, &format!("{last} {noun}"))) {
        faults.push(page.fault(0, format!("the head does not say that there are {last} rows")));
    }
    let holes: Vec<usize> = rows.iter().filter(|row| row.is_hole).filter_map(|row| row.number).collect();
    if !holes.is_empty() && !says(&head, &format!("no test: {}.", list(&holes))) {
        faults.push(page.fault(0, format!("the head does not say \"no test: {}.\"", list(&holes))));
    }
    faults
}

/// Returns whether the text contains the words, beginning at the start of a word.
fn says(text: &str, words: &str) -> bool {
    text.match_indices(words).any(|(at, _)| at == 0 || text[..at].ends_with([' ', '(']))
}

/// Returns the numbers as prose: `1, 2 and 3`.
fn list(numbers: &[usize]) -> String {
    let words: Vec<String> = numbers.iter().map(usize::to_string).collect();
    match words.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, before)) => format!("{} and {last}", before.join(", ")),
        None => String::new(),
    }
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

    fn faults(head: &str, rows: &[String]) -> Vec<String> {
        let code = source(
            "crates/a/src/b.rs",
            "const LIMIT: u8 = 1;\npub(super) fn act(&self) {}\n#[test]\nfn acts() {}\n",
        );
        let page = source("docs/conformance-rfc1.md", &format!("{head}\n\n{}", rows.join("\n")));
        check(&[page, code]).into_iter().map(|fault| fault.what).collect()
    }

    fn complete() -> Vec<String> {
        (1..=12).map(|n| format!("| {n} | a rule | 2 | `a/src/b.rs#act` | `a/src/b.rs#acts` |")).collect()
    }

    #[test]
    fn names_that_exist_are_fine() {
        let mut rows = complete();
        rows.insert(0, "| # | Requirement | § | Code | Tests |".to_owned());
        rows.push("| S | advice | 3 | `a/src/b.rs#LIMIT` | `a/src/b.rs#acts` |".to_owned());
        assert_eq!(faults("The 12 requirements of RFC 1", &rows), Vec::<String>::new());
    }

    #[test]
    fn names_that_do_not_exist_and_rows_that_are_missing_are_faults() {
        let row = |code: &str, tests: &str| format!("| 5 | a rule | 2 | {code} | {tests} |");
        for (code, tests) in [
            ("`a/src/b.rs#ac`", "`a/src/b.rs#acts`"),
            ("`a/src/c.rs#act`", "`a/src/b.rs#acts`"),
            ("`a/src/b.rs#act`", "`a/src/b.rs#act`"),
            ("", "`a/src/b.rs#acts`"),
            ("`a/src/b.rs#act`", ""),
        ] {
            let mut rows = complete();
            rows[4] = row(code, tests);
            assert_eq!(faults("12 rows", &rows).len(), 1, "{code} {tests}");
        }
        assert_eq!(faults("12 rows", &complete()[1..]), ["requirement 1 has no row"]);
        let short = ["the head does not say that there are 11 rows"];
        assert_eq!(faults("12 rows", &complete()[..11]), short);
        assert_eq!(faults("111 rows", &complete()[..11]), short);
        let twice = [complete(), complete()].concat();
        assert_eq!(faults("12 rows", &twice), ["the rows are numbered from 1, each once"]);
    }

    #[test]
    fn rows_without_a_test_are_listed_in_the_head() {
        let mut rows = complete();
        for at in [2, 4, 11] {
            rows[at] = format!("| {} | a rule | 2 | `a/src/b.rs#act` | no test |", at + 1);
        }
        assert_eq!(faults("12 rows. 3 rows have\nno test: 3, 5 and 12.", &rows), Vec::<String>::new());
        for head in ["12 rows.", "12 rows, no test: 3 and 5.", "12 rows, no test: 3, 5 and 120."] {
            assert_eq!(faults(head, &rows), ["the head does not say \"no test: 3, 5 and 12.\""], "{head}");
        }
    }
}
