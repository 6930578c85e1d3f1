//! File layout: a module with children is `x/mod.rs`, and long unit tests are in `x/tests.rs`.

use std::collections::BTreeSet;

use super::rust::code_lines;
use super::{Fault, Source};

/// Maximum number of lines of an inline test module.
const MAX_INLINE: usize = 60;

/// Reports modules named `x.rs` that have children other than their tests, wrongly named test files, and long
/// inline tests.
pub(super) fn check(sources: &[Source]) -> Vec<Fault> {
    let code = || sources.iter().filter(|source| source.is_rust() && source.path.starts_with("crates/"));
    let parents: BTreeSet<&str> =
        code().filter(|source| !source.is_test()).filter_map(|source| parent(&source.path)).collect();
    let mut faults = Vec::new();
    for source in code().filter(|source| source.path.contains("/src/")) {
        if source.path.strip_suffix(".rs").is_some_and(|module| parents.contains(module)) {
            faults.push(source.fault(0, "has children, so it is to be mod.rs in their folder"));
        }
        if source.path.ends_with("_tests.rs") {
            faults.push(source.fault(0, "is to be tests.rs in the folder of its module"));
        }
        let lines: Vec<&str> = source.text.lines().collect();
        let begin = code_lines(&source.text);
        let inline = lines[begin..].iter().skip_while(|line| !line.ends_with('{')).skip(1);
        let long = inline.take_while(|line| **line != "}").count();
        if long > MAX_INLINE {
            faults.push(
                source
                    .fault(begin, format!("{long} lines of inline tests; more than {MAX_INLINE} are a file")),
            );
        }
    }
    faults
}

/// Returns the path of the folder that contains the file, unless the file is a `mod.rs`.
fn parent(path: &str) -> Option<&str> {
    path.rsplit_once('/').filter(|(_, name)| *name != "mod.rs").map(|(folder, _)| folder)
}

#[cfg(test)]
mod tests {
    use super::super::{places, source};
    use super::*;

    #[test]
    fn each_layout_but_one_is_a_fault() {
        let inline =
            |lines| format!("fn f() {{}}\n\n#[cfg(test)]\nmod tests {{\n{}}}\n", "    // x\n".repeat(lines));
        let sources = [
            source("crates/a/src/split.rs", ""),
            source("crates/a/src/split/child.rs", ""),
            source("crates/a/src/whole/mod.rs", ""),
            source("crates/a/src/whole/child.rs", ""),
            source("crates/a/src/tested.rs", ""),
            source("crates/a/src/tested/tests.rs", ""),
            source("crates/a/src/other_tests.rs", ""),
            source("crates/a/src/short.rs", &inline(MAX_INLINE)),
            source("crates/a/src/long.rs", &inline(MAX_INLINE + 1)),
        ];
        let found = check(&sources);
        let expected = ["crates/a/src/split.rs:1", "crates/a/src/other_tests.rs:1", "crates/a/src/long.rs:3"];
        assert_eq!(places(&found), expected);
    }
}
