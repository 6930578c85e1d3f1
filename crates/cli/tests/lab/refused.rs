//! Commands that are refused before any run.

use super::{PLAN, TestDir, names};

#[test]
fn a_wrong_plan_is_one_line_with_file_line_and_what_may_stand_there() {
    for (right, wrong, said) in [
        (
            "[\"default\", \"path-0\"]",
            "[\"path-9\"]",
            "line 23: unknown profile `path-9`: use one of default, picoquic, ",
        ),
        ("bytes = 20_000", "bytes = 0", "line 7: 0 in `bytes` is not a whole number from 1 to 100000000000"),
        ("queue_packets = 40", "size = 40", "line 11: unknown field `size`, expected one of `rate_mbps`, "),
        (
            "repetitions = 2",
            "repetitions = 10001",
            "line 3: 10001 in `repetitions` is not a whole number from 1 to",
        ),
        ("owd_ms = 15, ", "", "line 15: missing field `owd_ms`"),
        ("run = 8", "run = 3", "line 14: there is another point 3"),
        (
            "[workload.download]",
            "[workload.transfer]",
            "line 6: unknown field `transfer`, expected one of `download`",
        ),
    ] {
        assert!(PLAN.contains(right), "{right}");
        let place = TestDir::new(&PLAN.replace(right, wrong));
        let line = place.fails(2, &["run", "plan.toml", "--out", "results"]);
        assert!(line.starts_with("anabranch: plan.toml, line ") && line.contains(said), "{line}");
        assert_eq!(names(place.0.path()), ["plan.toml"], "nothing has begun");
    }
    let place = TestDir::new(PLAN);
    for (args, said) in [
        (&["run", "none.toml"][..], "none.toml: "),
        (&["run", "ccr23"], "unknown experiment `ccr23`: use one of ccr22-"),
        (
            &["run", "plan.toml", "--variants", "both,all"],
            "unknown variant `all`: use some of both, quic-path-0",
        ),
        (&["run", "plan.toml", "--points", "4"], "unknown point 4: this design has 3, 8"),
        (&["run", "mobility", "--design", "plan.toml"], "plan.toml: "),
        (&["run", "conext17-handover", "--bytes", "5"], "conext17-handover has no download for --bytes"),
    ] {
        let line = place.fails(2, &[args, &["--out", "results"]].concat());
        assert!(line.contains(said), "{line}");
        assert_eq!(names(place.0.path()), ["plan.toml"], "nothing has begun");
    }
}

#[test]
fn a_directory_keeps_the_results_of_one_thing() {
    let place = TestDir::new(PLAN);
    let run = ["run", "plan.toml", "--points", "3", "--variants", "both", "--out", "results"];
    let with = |more: &[&'static str]| [&run[..], more].concat();
    place.says(&run);
    let before = place.results("results");
    let remedy = "; name another directory with --out, or remove this one";

    let line = place.fails(2, &with(&["--bytes", "30000"]));
    let said = "results: has runs of something else: workload download of 20000 bytes instead of download of 30000 bytes";
    assert_eq!(line.trim_end(), format!("anabranch: {said}{remedy}"));
    // Another wire image changes the variants, so the sweep cannot be continued with it.
    let line = place.fails(2, &with(&["--wire", "reverso"]));
    assert!(line.contains("runs of something else: variants with fingerprint "), "{line}");
    // The journal is from another build of the program.
    let journal = place.path("results/journal.jsonl");
    let text = std::fs::read_to_string(&journal).unwrap();
    let (head, commit) = text.split_once("\"commit\":\"").unwrap();
    let (commit, rest) = commit.split_once('"').unwrap();
    std::fs::write(&journal, format!("{head}\"commit\":\"0123456789ab\"{rest}")).unwrap();
    let line = place.fails(2, &run);
    let mix = "; name another directory with --out, remove this one, or mix both with --force";
    assert!(line.contains(&format!("commit 0123456789ab instead of {commit}{mix}")), "{line}");
    // The journal is from the same commit with uncommitted changes.
    let (head, sources) = text.split_once("\"sources\":\"").unwrap();
    let (sources, rest) = sources.split_once('"').unwrap();
    assert_eq!(sources.len(), 16, "{sources}");
    std::fs::write(&journal, format!("{head}\"sources\":\"0123456789abcdef\"{rest}")).unwrap();
    let line = place.fails(2, &run);
    assert!(
        line.contains(&format!("sources with hash 0123456789abcdef instead of {sources}{mix}")),
        "{line}"
    );
    place.says(&with(&["--force"]));
    assert_eq!(place.results("results"), before, "the runs are there already");
    std::fs::write(&journal, text).unwrap();

    // More repetitions extend the same sweep.
    place.says(&with(&["--repetitions", "3"]));
    assert_eq!(place.journal("results").len(), 3);
    place.says(&run);
    assert_eq!(place.journal("results").len(), 3);
}

#[test]
fn results_of_another_version_are_kept_and_added_to_by_force_alone() {
    let place = TestDir::new(PLAN);
    place.says(&["run", "plan.toml", "--points", "3", "--out", "results"]);
    let journal = place.path("results/journal.jsonl");
    let text = std::fs::read_to_string(&journal).unwrap();
    let commit = text.split("\"commit\":\"").nth(1).unwrap().split('"').next().unwrap();
    let [ours, theirs] = [commit, "0123456789ab"].map(|commit| format!("\"commit\":\"{commit}\""));
    let old = text.replace(&ours, &theirs);
    std::fs::write(&journal, &old).unwrap();

    let run = ["run", "plan.toml", "--out", "results"];
    let before = place.results("results");
    let line = place.fails(2, &run);
    let said = format!("results: has runs of something else: commit 0123456789ab instead of {commit}; ");
    assert!(line.starts_with(&format!("anabranch: {said}")), "{line}");
    assert_eq!((std::fs::read_to_string(&journal).unwrap(), place.results("results")), (old.clone(), before));

    let force = [&run[..], &["--force"]].concat();
    place.says(&force);
    let after = std::fs::read_to_string(&journal).unwrap();
    assert!(after.starts_with(&old), "nothing is lost");
    let rows = std::fs::read_to_string(place.path("results/runs.csv")).unwrap();
    let column = |line: &str, index| line.split(',').nth(index).unwrap().to_owned();
    let found: Vec<_> = rows.lines().skip(1).map(|line| (column(line, 2), column(line, 5))).collect();
    let of = |point: &str, commit: &str| [(); 2].map(|()| (point.to_owned(), commit.to_owned()));
    let variant = [of("3", "0123456789ab"), of("8", commit)].concat();
    assert_eq!(found, [variant.clone(), variant].concat());
    // The directory still has runs of both versions, and no run is repeated.
    assert!(place.fails(2, &run).contains("commit 0123456789ab"));
    place.says(&force);
    assert_eq!(std::fs::read_to_string(&journal).unwrap(), after);
}
