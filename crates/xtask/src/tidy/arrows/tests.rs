use serde_json::json;

use super::super::source;
use super::*;

const TABLE: &str = "# Map\n\n| Floor | Crate (`crates/…`) | What | Uses |\n|---|---|---|---|\n\
    | 1 | `wire` | bytes | – |\n| 2 | `seeded` | seeds | wire |\n| 3 | `transport` | core | wire |\n\
    | 4 | `lab` | network | transport, seeded |\n| – | `xtask` | tasks | lab |\n\n| 9 | `other` | table | – |\n";

/// Returns the faults of crates. Each is listed with its dependencies and those of its tests.
fn faults(crates: &[(&str, &[&str], &[&str])]) -> Vec<String> {
    let packages: Vec<Value> = crates
        .iter()
        .map(|(name, uses, tests)| {
            let one = |kind: &'static str| {
                move |used: &&str| {
                    json!({ "name": format!("anabranch-{used}"), "path": "somewhere", "kind": kind })
                }
            };
            let all: Vec<Value> =
                uses.iter().map(one("normal")).chain(tests.iter().map(one("dev"))).collect();
            json!({ "name": format!("anabranch-{name}"), "dependencies": all })
        })
        .collect();
    let found = check(&[source(FILE, TABLE)], &json!({ "packages": packages }));
    found.into_iter().map(|fault| format!("{}: {}", fault.place, fault.what)).collect()
}

const HOUSE: [(&str, &[&str], &[&str]); 5] = [
    ("wire", &[], &["seeded"]),
    ("seeded", &["wire"], &[]),
    ("transport", &["wire"], &["lab"]),
    ("lab", &["transport", "seeded"], &[]),
    ("xtask", &["lab"], &[]),
];

#[test]
fn the_table_is_the_house() {
    assert_eq!(faults(&HOUSE), [""; 0]);
}

#[test]
fn arrows_are_those_of_the_table() {
    let with = |at: usize, uses: &'static [&'static str], tests: &'static [&'static str]| {
        let mut house = HOUSE;
        house[at] = (house[at].0, uses, tests);
        faults(&house)
    };
    assert_eq!(with(0, &["lab"], &[]).len(), 2, "upwards, and not in the table");
    assert_eq!(with(2, &[], &[]), ["crate transport: does not use wire, though ARCHITECTURE.md says so"]);
    assert_eq!(with(2, &["wire"], &["xtask"]).len(), 1);
    assert_eq!(with(2, &["wire"], &["testkit"]), [""; 0]);
    assert_eq!(with(2, &["wire", "testkit"], &[]).len(), 2, "helpers of tests are for tests");
    assert!(
        with(2, &["wire", "seeded"], &[]).contains(
            &"crate transport: uses seeded, which only lab, linux, workloads, testkit may".to_owned()
        )
    );
}

#[test]
fn the_table_and_the_workspace_have_the_same_crates() {
    assert_eq!(faults(&HOUSE[..4]), ["ARCHITECTURE.md: crate xtask: does not exist"]);
    let attic: [(&str, &[&str], &[&str]); 1] = [("attic", &[], &[])];
    let more = faults(&[&HOUSE[..], &attic[..]].concat());
    assert_eq!(more, ["crate attic: is not in ARCHITECTURE.md's table of floors"]);
}
