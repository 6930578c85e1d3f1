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
