//! `lab compare`: two results side by side.

use serde_json::Value;

use super::{PLAN, TestDir, stderr};

/// Creates the directory `a` with the results of the plan, and `b` with those of a changed plan of the same name.
fn before_and_after(right: &str, changed: &str) -> TestDir {
    assert!(PLAN.contains(right), "{right}");
    let place = TestDir::new(PLAN);
    std::fs::write(place.path("changed.toml"), PLAN.replace(right, changed)).unwrap();
    place.says(&["run", "plan.toml", "--out", "a"]);
    place.says(&["run", "changed.toml", "--out", "b"]);
    place
}

fn compared(place: &TestDir, dirs: [&str; 2]) -> Vec<Value> {
    let text = place.says(&["compare", dirs[0], dirs[1], "--json", "-"]);
    let all: Value = serde_json::from_str(&text).unwrap();
    all["variants"].as_array().unwrap().clone()
}

/// Compares with a limit, and returns the exit status and the message.
fn limited(place: &TestDir, dirs: [&str; 2], limit: &str) -> (Option<i32>, String) {
    let output = place.lab(&["compare", dirs[0], dirs[1], "--limit", limit]);
    assert!(output.stdout.starts_with(b"variant "), "the table comes first");
    (output.status.code(), stderr(&output))
}

#[test]
fn runs_are_compared_with_those_of_the_same_variant_point_and_repetition() {
    // The first of two points gets half the rate.
    let place = before_and_after("rate_mbps = 20", "rate_mbps = 10");
    let found = compared(&place, ["a", "b"]);
    let names: Vec<_> = found.iter().map(|one| one["variant"].as_str().unwrap()).collect();
    assert_eq!(names, ["both", "quic-path-0"]);
    for one in &found {
        assert_eq!((&one["experiment"], &one["failed"]), (&"tiny".into(), &0.into()), "{one}");
        assert_eq!([&one["pairs"], &one["faster"], &one["slower"]], [4, 0, 2], "{one}");
        let worst = one["worst"]["ratio"].as_f64().unwrap();
        assert_eq!(one["worst"]["point"], 3, "{one}");
        // Half of the pairs are equal.
        let median = one["median"].as_f64().unwrap();
        assert!(worst > 1.01 && median > 1.0 && median <= (1.0 + worst) / 2.0 + 1e-9, "{one}");
        assert!(one["interval"][0] == 1.0 && one["interval"][1].as_f64().unwrap() <= worst, "{one}");
    }
    let text = place.says(&["compare", "a", "b", "--figure", "ratios.svg"]);
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0][..3], ["variant", "pairs", "median"]);
    assert_eq!(
        (lines.len(), &lines[1][..2], &lines[2][..2]),
        (3, &["both", "4"][..], &["quic-path-0", "4"][..])
    );
    assert!(std::fs::read_to_string(place.path("ratios.svg")).unwrap().starts_with("<svg"));

    let moved = "anabranch: both: transfer times have moved; see the table; results that are meant become the new A\n";
    assert_eq!(limited(&place, ["a", "b"], "1"), (Some(12), moved.to_owned()));
    assert_eq!(limited(&place, ["a", "b"], "1000"), (Some(0), String::new()));
    assert_eq!(limited(&place, ["a", "a"], "0"), (Some(0), String::new()));
    // Runs that one of the directories lacks do not count.
    place.says(&["run", "changed.toml", "--points", "8", "--variants", "both", "--out", "part"]);
    let part = compared(&place, ["a", "part"]);
    assert_eq!(part.len(), 1);
    let [one] = &part[..] else { panic!("{part:?}") };
    assert_eq!([&one["pairs"], &one["slower"]], [2, 0], "{one}");
    assert_eq!(one["interval"], serde_json::json!([1.0, 1.0]));
}

#[test]
fn runs_that_fail_are_no_pairs_and_do_not_pass_a_limit() {
    let place = before_and_after("queue_packets = 30", "queue_packets = 30, loss_percent = 100");
    for one in compared(&place, ["a", "b"]) {
        assert_eq!([&one["pairs"], &one["failed"]], [2, 2], "{one}");
        assert_eq!(one["median"], 1.0);
    }
    place.says(&["run", "changed.toml", "--points", "3", "--out", "failed"]);
    for one in compared(&place, ["a", "failed"]) {
        assert_eq!([&one["pairs"], &one["failed"]], [0, 2], "{one}");
        assert!(one["median"].is_null() && one["interval"].is_null() && one["worst"].is_null(), "{one}");
    }
    let (status, line) = limited(&place, ["a", "failed"], "5");
    assert_eq!(status, Some(12), "{line}");
    assert!(
        line.starts_with("anabranch: both: no pair of runs has ended; ") && line.lines().count() == 1,
        "{line}"
    );
}

#[test]
fn what_cannot_be_compared_is_one_line() {
    let place = TestDir::new(PLAN);
    std::fs::write(place.path("other.toml"), PLAN.replace("\"tiny\"", "\"other\"")).unwrap();
    for name in ["plan", "other"] {
        place.says(&["run", &format!("{name}.toml"), "--points", "3", "--repetitions", "1", "--out", name]);
    }
    let line = place.fails(2, &["compare", "plan", "other"]);
    let remedy = "give results of the same experiment, variants and points";
    assert_eq!(line, format!("anabranch: plan and other have no run in common; {remedy}\n"));
    let line = place.fails(8, &["compare", "plan", "nowhere"]);
    assert!(line.contains("nowhere"), "{line}");
    let line = place.fails(8, &["compare", "plan", "plan", "--figure", "no/folder/ratios.svg"]);
    assert!(line.contains("no/folder/ratios.svg"), "{line}");
    for limit in ["-1", "nan", "inf", "some"] {
        let output = place.lab(&["compare", "plan", "plan", &format!("--limit={limit}")]);
        assert_eq!(output.status.code(), Some(2), "{limit}: {}", stderr(&output));
    }
}
