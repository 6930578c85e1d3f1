//! Output of `cargo test`: the tests that passed, by the binary that ran them.

use std::collections::BTreeMap;

/// Root file of a target, relative to its package, and the name of its binary: packages may have targets of
/// the same name.
pub(super) type Binary = (String, String);

/// Returns how often each test passed. Tests that failed, were ignored or were filtered are left out.
pub(super) fn passed(log: &str) -> BTreeMap<(Binary, String), usize> {
    let mut passed = BTreeMap::new();
    let mut binary = None;
    for line in log.lines() {
        let line = plain(line);
        let line = line.trim_end();
        let begun = line.trim_start();
        if let Some(rest) = begun.strip_prefix("Running ") {
            binary = running(rest);
        } else if begun.starts_with("Doc-tests ") {
            binary = None;
        } else if let Some(binary) = &binary
            && let Some(test) = line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... ok"))
        {
            // Of a test that has to panic, libtest says so behind the name.
            let name = test.strip_suffix(" - should panic").unwrap_or(test);
            *passed.entry((binary.clone(), name.to_owned())).or_insert(0) += 1;
        }
    }
    passed
}

/// Reads `unittests src/lib.rs (target/debug/deps/name-0123456789abcdef)`.
fn running(rest: &str) -> Option<Binary> {
    let (file, executable) = rest.strip_suffix(')')?.split_once(" (")?;
    let (name, _) = executable.rsplit(['/', '\\']).next()?.rsplit_once('-')?;
    Some((file.trim_start_matches("unittests ").replace('\\', "/"), name.to_owned()))
}

/// Returns the line without escape sequences for colours.
fn plain(line: &str) -> String {
    let mut parts = line.split("\u{1b}[");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.push_str(part.split_once('m').map_or(part, |(_, rest)| rest));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_count_for_the_binary_that_ran_them() {
        let log = "\u{1b}[1m\u{1b}[32m     Running\u{1b}[0m unittests src/lib.rs (target/debug/deps/a_b-0f)\n\
            test x::one ... ok\n\
            test x::two ... ignored\n\
            test x::three ... FAILED\n\
            test x::four - should panic ... ok\n\
            test x::five ... ignored, it is slow\n\
            \x20    Running tests/c.rs (/t/debug/deps/c-0f)\n\
            test x::one ... \u{1b}[32mok\u{1b}[m\n\
            \x20  Doc-tests a_b\n\
            test x::six ... ok\n";
        let (unit, integration) = (("src/lib.rs", "a_b"), ("tests/c.rs", "c"));
        let expected = [(unit, "x::four"), (unit, "x::one"), (integration, "x::one")];
        let found = passed(log);
        let found: Vec<_> = found
            .iter()
            .map(|(((file, name), test), count)| (((file.as_str(), name.as_str()), test.as_str()), *count))
            .collect();
        assert_eq!(found, expected.map(|test| (test, 1)));
    }
}
