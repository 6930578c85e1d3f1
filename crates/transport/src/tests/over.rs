//! Second run of this folder's tests over VReverso, in a separate process.

use std::env;
use std::process::Command;

/// Environment variable that makes every pair use VReverso.
pub(super) const WIRE: &str = "ANABRANCH_TEST_REVERSO";

/// Modules that need no second run: each of their tests chooses its wire formats itself, or, in `coupled`, takes minutes and depends on
/// acknowledgments alone.
const LEFT_OUT: [&str; 8] = ["coupled", "guess", "named", "order", "over", "place", "place_faults", "train"];

/// Tests that do not apply to VReverso.
const SKIPPED: [&str; 2] = [
    // A client of VReverso sends early data only if its version cannot change.
    "a_change_of_version_refuses_early_data",
    "there_is_no_early_data_before_a_change_that_renumbers_streams",
];

/// Returns the filters for the modules of this folder, without those that are left out.
fn modules() -> impl Iterator<Item = String> {
    let names = include_str!("mod.rs").lines();
    let names = names.filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'));
    names.filter(|name| !LEFT_OUT.contains(name)).map(|name| format!("tests::{name}::"))
}

#[test]
fn the_same_holds_over_reverso() {
    let skipped = SKIPPED.iter().flat_map(|name| ["--skip", name]);
    let run = Command::new(env::current_exe().unwrap()).args(modules()).args(skipped).env(WIRE, "1").output();
    let run = run.unwrap();
    let output = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{output}");
    let passed =
        output.lines().filter(|line| line.starts_with("test tests::") && line.ends_with("ok")).count();
    assert!(passed > 340, "{passed} tests ran");
}
