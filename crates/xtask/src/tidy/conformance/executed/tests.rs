use serde_json::json;

use super::*;
use crate::tidy::{places, source};

const LOG: &str = "Running unittests src/lib.rs (target/debug/deps/x_a-1)\n\
    test one ... ok\n\
    test m::tests::two ... ok\n\
    test m::other::three ... ok\n\
    Running unittests src/p/main.rs (target/debug/deps/x_p-1)\n\
    test q::four ... ok\n\
    Running tests/t.rs (target/debug/deps/t-1)\n\
    test five ... ok\n\
    Running tests/u/main.rs (target/debug/deps/u-1)\n\
    test v::six ... ok\n\
    Running tests/t.rs (target/debug/deps/t-2)\n\
    test five ... ok\n";

/// Returns the faults of a table that names one test.
fn faults(name: &str, log: &str) -> usize {
    let test = |name: &str| format!("#[test]\nfn {name}() {{}}\n");
    let sources = [
        source("docs/conformance-rfc1.md", &format!("| 1 | a | 1 | `a/src/m.rs#c` | `{name}` |\n")),
        source("crates/a/src/lib.rs", &test("one")),
        source("crates/a/src/m.rs", &format!("mod tests {{\n{}\n}}", test("two"))),
        source("crates/a/src/m/other.rs", &test("three")),
        source("crates/a/src/p/q.rs", &test("four")),
        source("crates/a/tests/t.rs", &test("five")),
        source("crates/b/tests/t.rs", &test("five")),
        source("crates/a/tests/u/v.rs", &test("six")),
    ];
    let target = |package: &str, name: &str, kind: &str, path: &str| json!({"name": name, "kind": [kind], "src_path": format!("/w/crates/{package}/{path}")});
    let metadata = json!({"packages": [
        {"manifest_path": "/w/crates/a/Cargo.toml", "targets": [
            target("a", "x_a", "lib", "src/lib.rs"),
            target("a", "x-p", "bin", "src/p/main.rs"),
            target("a", "t", "test", "tests/t.rs"),
            target("a", "u", "test", "tests/u/main.rs"),
        ]},
        {"manifest_path": "/w/crates/b/Cargo.toml", "targets": [target("b", "t", "test", "tests/t.rs")]},
    ]});
    let faults = check(&sources, &metadata, log);
    assert!(places(&faults).iter().all(|place| *place == "docs/conformance-rfc1.md:1"));
    faults.len()
}

#[test]
fn a_named_test_must_have_passed() {
    for name in [
        "a/src/lib.rs#one",
        "a/src/m.rs#two",
        "a/src/m/other.rs#three",
        "a/src/p/q.rs#four",
        "a/tests/t.rs#five",
        "a/tests/u/v.rs#six",
    ] {
        assert_eq!(faults(name, LOG), 0, "{name}");
        let test = name.split_once('#').map_or("", |(_, test)| test);
        assert_eq!(faults(name, &LOG.replace(&format!("{test} ... ok"), "")), 1, "{name} was filtered");
        let ignored = LOG.replace(&format!("{test} ... ok"), &format!("{test} ... ignored"));
        assert_eq!(faults(name, &ignored), 1, "{name} was ignored");
    }
}

#[test]
fn a_test_of_the_same_name_elsewhere_does_not_count() {
    // In a module's own file.
    assert_eq!(faults("a/src/m.rs#three", LOG), 1);
    // In another target.
    assert_eq!(faults("a/src/lib.rs#four", LOG), 1);
    // In another package: the outputs are alike, and both must be there.
    assert_eq!(faults("a/tests/t.rs#five", &LOG.replacen("test five ... ok\n", "", 1)), 1);
    assert_eq!(faults("c/src/lib.rs#one", LOG), 1);
}
