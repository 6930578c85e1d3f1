//! Function sizes: long functions are listed, not forbidden.

use super::rust::functions;
use super::{Fault, Source};

/// Maximum number of lines of a function that is not listed.
const MAX_LINES: usize = 70;

/// Lists long functions outside of test files.
pub(super) fn check(sources: &[Source]) -> Vec<Fault> {
    let code = sources.iter().filter(|source| source.is_rust() && !source.is_test());
    code.flat_map(|source| {
        let long = functions(&source.text).into_iter().filter(|function| function.lines > MAX_LINES);
        long.map(|f| {
            source.fault(f.start, format!("`{}` has {} lines; {MAX_LINES} is a lot", f.name, f.lines))
        })
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::super::{places, source};
    use super::*;

    #[test]
    fn long_functions_are_listed() {
        let function = |lines| format!("fn f() {{\n{}}}\n", "    a();\n".repeat(lines - 2));
        let sources = [
            source("crates/a/src/short.rs", &function(MAX_LINES)),
            source("crates/a/src/long.rs", &format!("\n{}", function(MAX_LINES + 1))),
            source("crates/a/tests/long.rs", &function(MAX_LINES + 1)),
        ];
        assert_eq!(places(&check(&sources)), ["crates/a/src/long.rs:2"]);
    }
}
