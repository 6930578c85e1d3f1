//! Shards of a sweep, and their merged results.

use super::{PLAN, TestDir, stderr};

#[test]
fn shards_come_together_as_if_they_were_one() {
    let place = TestDir::new(PLAN);
    place.says(&["run", "plan.toml", "--out", "whole"]);
    for index in 0..2 {
        let (shard, out) = (format!("{index}/2"), format!("shards/{index}"));
        let text = place.says(&["run", "plan.toml", "--shard", &shard, "--out", &out, "--threads", "1"]);
        assert!(!text.contains("report"), "a part has no figures yet: {text}");
    }
    let text = place.says(&["merge", "shards/1", "shards/0", "--out", "merged"]);
    assert!(text.contains("results: merged"), "{text}");
    assert_eq!(place.results("merged"), place.results("whole"));
}

#[test]
fn missing_runs_are_counted_shard_by_shard() {
    let place = TestDir::new(PLAN);
    // Four of the eight runs are requested, in three shards.
    let shard = |index: usize| {
        let (shard, out) = (format!("{index}/3"), index.to_string());
        place.says(&["run", "plan.toml", "--points", "3", "--shard", &shard, "--out", &out]);
    };
    shard(0);
    let line = place.fails(12, &["merge", "0", "--out", "merged"]);
    assert!(line.contains("2 of 4 runs are missing: 1 of shard 1/3, 1 of shard 2/3; "), "{line}");
    assert!(line.contains("--partial") && !place.path("merged").exists(), "{line}");

    let partial = place.lab(&["merge", "0", "--out", "merged", "--partial"]);
    assert_eq!(partial.status.code(), Some(0), "{}", stderr(&partial));
    assert!(stderr(&partial).starts_with("anabranch: 2 of 4 runs are missing: "), "{}", stderr(&partial));
    // Merged results record which runs were requested.
    shard(2);
    let line = place.fails(12, &["merge", "2", "--out", "merged"]);
    assert!(line.contains("1 of 4 runs are missing: 1 of shard 1/3; "), "{line}");
    shard(1);
    place.says(&["merge", "2", "1", "--out", "merged"]);
    place.says(&["run", "plan.toml", "--points", "3", "--out", "whole"]);
    assert_eq!(place.results("merged"), place.results("whole"));
}

/// Only one of the machines has the guest's program. All machines divide the runs in the same way. The runs
/// that the other machines leave out are missing.
#[test]
fn machines_without_a_program_leave_runs_to_others() {
    let guest = "\n[[variant]]\nname = \"guest\"\nset = { guest = { client = [\"guest-x\"], server = [\"guest-x\"] } }\n";
    let place = TestDir::new(
        &PLAN.replace("[[variant]]\nname = \"both\"", &format!("{guest}\n[[variant]]\nname = \"both\"")),
    );
    let program = place.path("guests/guest-x");
    std::fs::create_dir(place.path("guests")).unwrap();
    std::fs::write(&program, "#!/bin/sh\necho closed today >&2\nexit 1\n").unwrap();
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let run = |args: &[&str], has_guest: bool| {
        let mut command = place.command(&[&["run", "plan.toml"], args].concat());
        command.env("ANABRANCH_GUESTS", place.path(if has_guest { "guests" } else { "none" }));
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let left_out = "skipped: guest: there is no program guest-x (peers/build.sh guests)\n";
        assert_eq!(stderr(&output).contains(left_out), !has_guest, "{}", stderr(&output));
    };
    run(&["--out", "whole"], true);
    for (index, has_guest) in [(0, true), (1, false), (2, false)] {
        run(&["--shard", &format!("{index}/3"), "--out", &index.to_string()], has_guest);
    }
    let line = place.fails(12, &["merge", "0", "1", "2", "--out", "merged"]);
    let said = "2 of 12 runs are missing: 1 of shard 1/3, 1 of shard 2/3; left out for want of their program or kernel: guest; ";
    assert!(line.starts_with(&format!("anabranch: {said}")), "{line}");
    assert_eq!(["0", "1", "2"].map(|dir| place.journal(dir).len()), [4, 3, 3], "no run twice");

    for index in [1, 2] {
        run(&["--shard", &format!("{index}/3"), "--out", &index.to_string()], true);
    }
    place.says(&["merge", "0", "1", "2", "--out", "merged"]);
    assert_eq!(place.results("merged"), place.results("whole"));
    // If no machine has the program, none of its runs counts as missing.
    for index in 0..2 {
        run(&["--shard", &format!("{index}/2"), "--out", &format!("own-{index}")], false);
    }
    place.says(&["merge", "own-0", "own-1", "--out", "own"]);
}
