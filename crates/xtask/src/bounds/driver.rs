//! Tests of the library's tasks in many orders, which run under the model checker.

use std::fs;
use std::path::Path;

/// Row of the lines without which these tests must fail. docs/threats.md has no such row: no peer attacks these lines.
pub(super) const ROW: &str = "driver";
/// Features of the program with these tests.
pub(super) const FEATURES: &str = "model,proxy,self-signed";
/// Variable with the number of orders that each test runs. Other tests do not read it.
pub(super) const VARIABLE: &str = "ANABRANCH_INTERLEAVINGS";
/// Number of orders unless the variable is set: the rarest faults of the list need some hundreds.
pub(super) const INTERLEAVINGS: &str = "1000";
/// Folder of the crate below `crates`.
const FOLDER: &str = "anabranch";

/// Returns whether `file#test`, or a file, is in a module `model` of the library.
pub(super) fn has(test: &str) -> bool {
    let file = test.split('#').next().unwrap_or_default();
    let mut parts = file.split('/');
    parts.next() == Some(FOLDER) && parts.any(|part| part == "model" || part == "model.rs")
}

/// Returns all of these tests as `file#test`.
pub(super) fn tests(root: &Path) -> Result<Vec<String>, String> {
    let mut tests = Vec::new();
    let mut paths = vec![format!("{FOLDER}/src")];
    while let Some(path) = paths.pop() {
        let full = root.join("crates").join(&path);
        if full.is_dir() {
            let entries = fs::read_dir(&full).map_err(|error| format!("{path}: {error}"))?;
            let names = entries.flatten().map(|entry| entry.file_name());
            paths.extend(names.map(|name| format!("{path}/{}", name.to_string_lossy())));
        } else if has(&path) {
            let text = fs::read_to_string(&full).map_err(|error| format!("{path}: {error}"))?;
            tests.extend(named(&text).map(|name| format!("{path}#{name}")));
        }
    }
    tests.sort();
    Ok(tests)
}

/// Returns the names of the tests in the text of a file.
fn named(text: &str) -> impl Iterator<Item = &str> {
    let after = text.split("#[test]\nfn ").skip(1);
    after.filter_map(|after| after.split('(').next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_of_the_library_below_model() {
        assert!(has("anabranch/src/model/tests/paths.rs#a"));
        assert!(has("anabranch/src/proxy/server/udp/tests/model.rs#a"));
        assert!(!has("anabranch/src/proxy/server/udp/tests/mod.rs#model"));
        assert!(!has("lab/tests/model.rs#a"));
        assert_eq!(
            named("fn a() {}\n#[test]\nfn b() {}\n\n#[test]\nfn c() {}\n").collect::<Vec<_>>(),
            ["b", "c"]
        );
    }
}
