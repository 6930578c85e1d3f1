//! `lab run compare`: six experiments, joined in a table and a figure.

use super::{TestDir, names, stderr};

const RUN: [&str; 10] =
    ["run", "compare", "--points", "0", "--variants", "quic-path-0", "--bytes", "20000", "--out", "results"];
const REFUSED: &str = "compare-3path-50mb";

#[test]
fn an_experiment_that_fails_is_named_and_the_others_go_on() {
    let place = TestDir::new("");
    let out = format!("results/{REFUSED}");
    let one: Vec<&str> = RUN.iter().map(|word| if *word == "compare" { REFUSED } else { *word }).collect();
    place.says(&[&one[..9], &[&out]].concat());
    let journal = place.path(&out).join("journal.jsonl");
    let (text, commit) = (std::fs::read_to_string(&journal).unwrap(), "\"commit\":\"");
    let other = text.replacen(commit, &format!("{commit}0123456789ab+"), 1);
    std::fs::write(&journal, &other).unwrap();

    let output = place.lab(&RUN);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    let lines: Vec<&str> = said.lines().filter(|line| line.starts_with("anabranch: ")).collect();
    let [why, end] = lines[..] else { panic!("{said}") };
    assert!(why.contains(REFUSED) && why.contains("commit 0123456789ab+"), "{why}");
    assert_eq!(end, format!("anabranch: 1 of 6 experiments have failed: {REFUSED}"));
    assert_eq!(std::fs::read_to_string(&journal).unwrap(), other, "it is as it was");
    let text = String::from_utf8(output.stdout).unwrap();
    for paths in ["2path", "3path"] {
        for size in ["50mb", "2mb", "256kb"].map(|size| format!("compare-{paths}-{size}")) {
            assert_eq!(place.journal(&format!("results/{size}")).len(), 1, "{size}");
            assert_eq!(text.contains(&format!("results: results/{size}")), size != REFUSED, "{text}");
        }
    }
    let end: Vec<&str> = text.lines().rev().take(3).collect();
    assert_eq!(end[0], "figure: results/compare.svg");
    assert_eq!(end[1].split_whitespace().count(), 11, "a stack, and two values for each of five experiments");
    assert!(
        names(&place.path("results"))
            .ends_with(&["compare.pdf", "compare.png", "compare.svg"].map(str::to_owned))
    );

    // The `figures` command draws the figure again, from all results.
    let picture = || std::fs::read_to_string(place.path("results/compare.svg")).unwrap();
    let before = picture();
    let text = place.says(&["figures", "results"]);
    assert!(text.starts_with("time over the fluid bound") && text.contains("3path-50mb"), "{text}");
    assert_ne!(picture(), before);
}
