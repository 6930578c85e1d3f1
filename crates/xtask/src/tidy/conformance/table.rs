//! Tables of requirements, row by row.

use super::super::{Fault, Source};

/// Start of the paths of the pages with the tables.
const PAGES: &str = "docs/conformance-";
/// Content of the last cell of a row without a test. The head of the page lists these rows.
const NO_TEST: &str = "no test";

/// Row of a table. Names have the form `file#item`, with the file relative to `crates/`.
pub(super) struct Row<'a> {
    /// Index of the line in the page, counted from 0.
    pub(super) line: usize,
    /// Number of the requirement; `None` for advice, which is marked `S`.
    pub(super) number: Option<usize>,
    pub(super) code: Vec<&'a str>,
    pub(super) tests: Vec<&'a str>,
    /// Set if the row says that it has no test.
    pub(super) is_hole: bool,
}

/// Returns the pages with tables.
pub(super) fn pages(sources: &[Source]) -> impl Iterator<Item = &Source> {
    sources.iter().filter(|source| source.path.starts_with(PAGES) && source.path.ends_with(".md"))
}

/// Returns the rows of a page, without the header, and the lines that are no rows as faults.
pub(super) fn rows(page: &Source) -> (Vec<Row<'_>>, Vec<Fault>) {
    let (mut rows, mut faults) = (Vec::new(), Vec::new());
    for (line, text) in page.text.lines().enumerate().filter(|(_, text)| text.starts_with("| ")) {
        let cells: Vec<&str> = text.trim_matches('|').split(" | ").map(str::trim).collect();
        let [first, _, _, code, tests] = cells[..] else {
            faults.push(page.fault(line, "a row has five cells"));
            continue;
        };
        let number = first.parse().ok();
        match (first, number) {
            ("#", _) => {}
            ("S", _) | (_, Some(_)) => {
                let is_hole = tests == NO_TEST;
                rows.push(Row { line, number, code: names(code), tests: names(tests), is_hole });
            }
            _ => faults.push(page.fault(line, "a row begins with its number, or with S")),
        }
    }
    (rows, faults)
}

/// Returns the text before the first row in one line.
pub(super) fn head(page: &Source) -> String {
    let lines = page.text.lines().take_while(|line| !line.starts_with('|'));
    lines.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ")
}

fn names(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}
