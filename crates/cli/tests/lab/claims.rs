//! `lab claims`: the certainty of a verdict, and the settings on which it depends.

use anabranch_lab::claim;
use serde_json::{Value, json};

use super::{PLAN, TestDir};

/// Judges one claim by the runs in `results`, each once.
fn judged(place: &TestDir, id: &str, args: &[&str]) -> Value {
    let fixed = ["claims", id, "--repetitions", "1", "--out", "results", "--json", "-"];
    let claims: Vec<Value> = serde_json::from_str(&place.says(&[&fixed, args].concat())).unwrap();
    let [claim] = &claims[..] else { panic!("{claims:?}") };
    assert_eq!(claim["id"], id);
    claim.clone()
}

/// Twenty points are enough for an interval, and downloads of 256 KB take little time.
#[test]
fn a_verdict_says_how_certain_it_is() {
    let place = TestDir::new(PLAN);
    let points = (0..20).map(|point| point.to_string()).collect::<Vec<_>>().join(",");
    let claim = judged(&place, "Q6", &["--points", &points]);
    assert_eq!(place.journal("results/conext17-low-bdp-no-loss-256kb").len(), 3 * 20);
    let figure = claim["figure"].as_str().unwrap();
    let intervals = claim["interval"].as_array().unwrap();
    assert_eq!(intervals.len(), 4, "one for each number in: {figure}");
    for interval in intervals {
        let [low, high] = [0, 1].map(|end| interval[end].as_f64().unwrap());
        assert!(low <= high, "{interval}");
    }
    assert!(intervals.iter().any(|interval| interval[0] != interval[1]), "{intervals:?}");
    let agreement = claim["agreement"].as_f64().unwrap();
    assert!((0.0..=1.0).contains(&agreement), "{agreement}");
    let verdict = match claim["holds"].as_bool().unwrap() {
        _ if agreement < 0.975 => "cannot be told",
        true => "holds",
        false => "does not hold",
    };
    assert_eq!(claim["verdict"], verdict, "{claim}");
    assert_eq!([&claim["hangs_on"], &claim["tried"]], [&json!([]); 2], "nothing was changed");

    // Two points of two draws are too few. The second draw has points of its own.
    let place = TestDir::new(PLAN);
    let claim = judged(&place, "Q6", &["--points", "0,1", "--draws", "2"]);
    assert_eq!([&claim["interval"], &claim["agreement"]], [&json!([]), &Value::Null], "{claim}");
    let drawn = place.journal("results/conext17-low-bdp-no-loss-256kb-draw-1");
    assert_eq!(drawn.len(), 3 * 2);
    let rows = std::fs::read_to_string(place.path("results/conext17-low-bdp-no-loss-256kb-draw-1/runs.csv"));
    let rows = rows.unwrap();
    let point = |line: &str| line.split(',').nth(2).unwrap().parse::<u64>().unwrap();
    assert!(rows.lines().skip(1).all(|line| point(line) >= 1_000), "{rows}");
}

#[test]
fn settings_are_changed_one_at_a_time() {
    let place = TestDir::new(PLAN);
    let claim = judged(&place, "Q7", &["--points", "100", "--ablate"]);
    let verdict = claim["holds"].as_bool().unwrap();
    // Each ablation that changes a variant of the claim has runs in a directory of its own.
    let paper = claim::paper("conext17").unwrap();
    let concerned = paper.ablations.iter().filter(|ablation| "mpquic-no-signal".contains(ablation.of));
    let tried = claim["tried"].as_array().unwrap();
    assert!(tried.len() > 3, "{tried:?}");
    assert_eq!(tried.len(), concerned.clone().count());
    for ablation in concerned {
        let of_it = |one: &&Value| one["setting"] == ablation.set && one["variants"] == ablation.of;
        let one = tried.iter().find(of_it).unwrap_or_else(|| panic!("{} in {tried:?}", ablation.name));
        assert!(one["figure"].as_str().unwrap().contains("late in a run"), "{one}");
        assert!(["holds", "does not hold"].contains(&one["verdict"].as_str().unwrap()), "{one}");
        assert_eq!(place.journal(&format!("results/conext17-handover+{}", ablation.name)).len(), 2);
    }
    // `hangs_on` lists the settings whose change reverses the verdict.
    let turned = if verdict { "does not hold" } else { "holds" };
    let turning: Vec<&Value> = tried.iter().filter(|one| one["verdict"] == turned).collect();
    assert_eq!(claim["hangs_on"].as_array().unwrap().iter().collect::<Vec<_>>(), turning);
    let text = place.says(&["claims", "Q7", "--no-run", "--ablate", "--out", "results"]);
    assert_eq!(text.matches("    hangs on ").count(), turning.len(), "{text}");
    assert_eq!(text.matches("    not on ").count(), 1, "{text}");
}
