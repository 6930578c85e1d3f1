//! File sizes: a file that is too long to read in one go must be split.

use super::rust::code_lines;
use super::{Fault, Source};

/// Maximum number of lines of a Rust file, without its tests.
const MAX_LINES: usize = 600;

/// Reports files that are too long.
pub(super) fn check(sources: &[Source]) -> Vec<Fault> {
    code(sources)
        .filter(|(_, lines)| *lines > MAX_LINES)
        .map(|(source, lines)| {
            source.fault(MAX_LINES, format!("{lines} lines before its tests; at most {MAX_LINES}"))
        })
        .collect()
}

/// Describes the median and the maximum of the file sizes.
pub(super) fn summary(sources: &[Source]) -> String {
    let mut sizes: Vec<usize> = code(sources).map(|(_, lines)| lines).collect();
    sizes.sort_unstable();
    let (median, longest) = (sizes.get(sizes.len() / 2), sizes.last());
    format!(
        "median of {} lines in {} Rust files (longest {})",
        median.unwrap_or(&0),
        sizes.len(),
        longest.unwrap_or(&0)
    )
}

fn code(sources: &[Source]) -> impl Iterator<Item = (&Source, usize)> {
    let code = sources.iter().filter(|source| source.is_rust() && !source.is_test());
    code.map(|source| (source, code_lines(&source.text)))
}

#[cfg(test)]
mod tests {
    use super::super::{places, source};
    use super::*;

    #[test]
    fn long_code_is_a_fault_and_long_tests_are_not() {
        let long = "//\n".repeat(MAX_LINES + 1);
        let inline = format!("{}#[cfg(test)]\nmod tests {{\n{long}}}\n", "//\n".repeat(MAX_LINES));
        let sources = [
            source("crates/a/src/long.rs", &long),
            source("crates/a/src/inline.rs", &inline),
            source("crates/a/src/long/tests.rs", &long),
            source("crates/a/tests/long.rs", &long),
            source("crates/a/README.md", &long),
        ];
        assert_eq!(places(&check(&sources)), ["crates/a/src/long.rs:601"]);
        assert_eq!(summary(&sources), "median of 601 lines in 2 Rust files (longest 601)");
    }
}
