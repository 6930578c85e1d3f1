use std::collections::BTreeSet;

use super::{Claim, PAPERS, Results, Ruling, paper};
use crate::record::Row;

fn claim(id: &str) -> &'static Claim {
    PAPERS.iter().flat_map(|paper| paper.claims).find(|claim| claim.id == id).unwrap()
}

fn row(experiment: &str, variant: &str, point: u64) -> Row {
    Row { experiment: experiment.to_owned(), variant: variant.to_owned(), point, ..Row::default() }
}

/// Returns rows of a variant, one for each value, which `set` writes into the row.
fn rows<T>(experiment: &str, variant: &str, values: Vec<T>, set: impl Fn(&mut Row, T)) -> Vec<Row> {
    let row = |(point, value)| {
        let mut row = row(experiment, variant, point as u64);
        set(&mut row, value);
        row
    };
    values.into_iter().enumerate().map(row).collect()
}

fn holds(id: &str, rows: Vec<Vec<Row>>) -> Option<bool> {
    let verdict = claim(id).verdict(&rows.into_iter().flatten().collect());
    assert!(verdict.holds.is_none() || !verdict.figure.is_empty());
    verdict.holds
}

#[test]
fn claims_have_names_of_their_own_and_say_what_they_want() {
    let all: Vec<_> = PAPERS.iter().flat_map(|paper| paper.claims).collect();
    assert_eq!(all.iter().map(|claim| claim.id).collect::<BTreeSet<_>>().len(), all.len());
    for claim in all {
        for text in [claim.text, claim.threshold, claim.reason, claim.shown] {
            assert!(!text.is_empty() && !text.contains('\n'), "{}", claim.id);
        }
    }
    assert_eq!(paper("ccr22").unwrap().claims.len(), 15);
    assert_eq!(paper("conext17").unwrap().claims.len(), 7);
    assert_eq!(paper("reverso").unwrap().claims.len(), 5);
    assert!(paper("ccr23").is_none());
}

#[test]
fn what_cannot_be_decided_says_why() {
    let nothing = Results::default();
    let verdict = claim("Q1").verdict(&nothing);
    assert_eq!(
        (verdict.holds, verdict.why.unwrap().as_str()),
        (None, "no runs of mpquic in conext17-low-bdp-no-loss")
    );
    let verdict = claim("D3").verdict(&nothing);
    assert_eq!(verdict.why.unwrap(), "no runs of single-cubic-ar5-original in ccr22-homogeneous-2path");
    let mut failed = row("ccr22-homogeneous-2path", "single-cubic-ar5-original", 0);
    failed.failure = "deadline".to_owned();
    let verdict = claim("D3").verdict(&[failed].into_iter().collect());
    assert_eq!((verdict.holds, verdict.why.unwrap().as_str()), (None, "too few runs ended as they should"));
}

#[test]
fn a_median_over_repetitions_stands_for_a_point() {
    let rows = [1.0, 9.0, 2.0, 5.0].map(|time| Row { transfer_time_s: Some(time), ..row("e", "v", 3) });
    let results: Results = rows.into_iter().collect();
    assert_eq!(results.values("e", "v", |row| row.transfer_time_s), [3.5]);
    assert_eq!(results.failures("e", "v"), (0, 4));
}

#[test]
fn ranges_near_the_limit_make_the_third_claim() {
    let experiment = "ccr22-homogeneous-2path";
    let means = |values| {
        let set = |row: &mut Row, mean| row.mean_ranges = Some(mean);
        holds("D3", vec![rows(experiment, "single-cubic-ar5-original", values, set)])
    };
    assert_eq!(means(vec![4.5, 4.9, 4.0]), Some(true));
    assert_eq!(means(vec![4.5, 5.0, 4.0]), Some(false));
    assert_eq!(means(vec![3.5, 3.9, 4.5]), Some(false));
}

#[test]
fn equal_numberings_make_the_first_claim() {
    let experiment = "ccr22-homogeneous-2path";
    let times = |single_bbr: f64| {
        let set = |row: &mut Row, time| row.transfer_time_s = Some(time);
        let variants = [
            ("single-cubic", 1.0),
            ("multiple-cubic", 1.0),
            ("single-bbr1", single_bbr),
            ("multiple-bbr1", 1.0),
        ];
        let rows = variants.map(|(name, factor)| {
            rows(
                experiment,
                &format!("{name}-original"),
                vec![10.0 * factor, 20.0 * factor, 7.0 * factor],
                set,
            )
        });
        holds("D1", rows.into())
    };
    assert_eq!(times(1.04), Some(true));
    assert_eq!(times(1.06), Some(false));
    assert_eq!(times(0.9), Some(false));
}

#[test]
fn pairs_at_far_apart_delays_are_compared_with_the_other_pairs() {
    let experiment = "ccr22-heterogeneous-2path";
    let judged = |single_far: f64, single_near: f64| {
        let set = |row: &mut Row, (owd, time): (f64, f64)| {
            row.path_owd_ms = vec![owd, 10.0];
            row.transfer_time_s = Some(time);
        };
        let single = rows(
            experiment,
            "single-cubic-original",
            vec![(40.0, single_far), (39.0, single_near), (20.0, 5.0)],
            set,
        );
        let multiple =
            rows(experiment, "multiple-cubic-original", vec![(40.0, 9.0), (39.0, 5.0), (20.0, 5.0)], set);
        holds("D15", vec![single, multiple])
    };
    assert_eq!(judged(9.9, 5.0), Some(true));
    assert_eq!(judged(9.1, 5.0), Some(false));
    assert_eq!(judged(9.9, 6.0), Some(false), "the other pairs are as slow");
}

/// Returns rows of both variants that claim D14 compares. The variant with a single number space is slower at
/// `slower` of 40 points.
fn pairs(slower: usize) -> Results {
    let experiment = "ccr22-heterogeneous-3path";
    let set = |row: &mut Row, time| row.transfer_time_s = Some(time);
    let single = (0..40).map(|point| if point < slower { 1.10 } else { 1.0 }).collect();
    let all = [
        rows(experiment, "single-cubic-ar64-fixed", single, set),
        rows(experiment, "multiple-cubic-fixed", vec![1.0; 40], set),
    ];
    all.into_iter().flatten().collect()
}

#[test]
fn a_verdict_that_other_points_could_turn_is_none() {
    let ruling = |slower| claim("D14").verdict(&pairs(slower)).ruling();
    assert_eq!(
        [ruling(4), ruling(19), ruling(36)],
        [Ruling::Holds, Ruling::CannotBeTold, Ruling::DoesNotHold]
    );
    let verdict = claim("D14").verdict(&pairs(19));
    let [low, high] = verdict.intervals[0];
    assert!(low < 1.01 && high > 1.09 && verdict.agreement.unwrap() < 0.9, "{verdict:?}");
    assert_eq!(claim("D14").verdict(&pairs(19)), verdict, "resampling is seeded");
}

#[test]
fn the_benefit_is_told_by_which_path_comes_first() {
    let experiment = "conext17-low-bdp-no-loss";
    let judged = |worst_first: f64| {
        let set = |row: &mut Row, time| row.transfer_time_s = Some(time);
        let first = rows(experiment, "quic-path-0", vec![5.0, 9.0, 5.0, 9.0], set);
        let second = rows(experiment, "quic-path-1", vec![9.0, 5.0, 9.0, 5.0], set);
        let sum = 1.0 / 5.0 + 1.0 / 9.0;
        // Returns the transfer time that has the benefit `eben`.
        let time = |eben: f64| if eben < 0.0 { 5.0 / (1.0 + eben) } else { 1.0 / (0.2 + eben * (sum - 0.2)) };
        let times = [0.8, worst_first, 0.9, worst_first].map(time).to_vec();
        let several = rows(experiment, "mpquic", times, set);
        holds("Q2", vec![first, second, several])
    };
    assert_eq!(judged(0.75), Some(true));
    assert_eq!(judged(0.5), Some(false));
    assert_eq!(judged(-0.1), Some(false));
}

#[test]
fn linux_decides_the_halves_about_tcp() {
    let experiment = "conext17-low-bdp-losses";
    let set = |row: &mut Row, time| row.transfer_time_s = Some(time);
    // QUIC is faster on path 0 than on path 1 at every second point.
    let quic = |several: f64| {
        let second = (0..40).map(|point| if point % 2 == 0 { 6.0 } else { 4.9 }).collect();
        let times = [("mpquic", vec![several; 40]), ("quic-path-0", vec![5.0; 40]), ("quic-path-1", second)];
        times.map(|(variant, times)| rows(experiment, variant, times, set))
    };
    let tcp = |single: [f64; 40]| {
        let alone = [0, 1].map(|path| format!("linux-tcp-cubic-path-{path}-tls12"));
        let alone = alone.map(|variant| rows(experiment, &variant, single.to_vec(), set));
        [alone.concat(), rows(experiment, "linux-mptcp-tls12", vec![4.5; 40], set)]
    };
    let judged = |several, single| holds("Q3", [quic(several).concat(), tcp(single).concat()].into());
    // On a single path, TCP is faster than QUIC at `n` of 40 points.
    let faster_at = |n| core::array::from_fn(|point| if point < n { 4.9 } else { 5.5 });
    assert_eq!(judged(4.0, faster_at(4)), Some(true));
    assert_eq!(judged(4.0, faster_at(12)), Some(false), "QUIC is faster at 28 of 40 points alone");
    assert_eq!(judged(4.6, faster_at(0)), Some(false), "Multipath TCP is faster");
    // Without runs of Linux, only the part of Q2 about QUIC is judged, and the verdict names the other part.
    let claim = paper("conext17").unwrap().claims[1];
    let without: Results =
        quic(4.0).concat().into_iter().map(|row| Row { experiment: LOW.into(), ..row }).collect();
    let verdict = claim.verdict(&without);
    assert!(verdict.holds.is_some() && verdict.why.unwrap().contains("lab linux build"));
}

const LOW: &str = "conext17-low-bdp-no-loss";

#[test]
fn one_late_answer_makes_the_handover() {
    let judged = |told: &[f64], untold: &[f64]| {
        let of = |variant, delays: &[f64]| Row {
            request_delays_s: delays.to_vec(),
            ..row("conext17-handover", variant, 100)
        };
        holds("Q7", vec![vec![of("mpquic", told), of("mpquic-no-signal", untold)]])
    };
    assert_eq!(judged(&[0.015, 0.1, 0.025], &[0.015, 0.3]), Some(true));
    assert_eq!(judged(&[0.015, 0.1, 0.09], &[0.015, 0.3]), Some(false));
    assert_eq!(judged(&[0.015, 0.1, 0.025], &[0.015, 0.1]), Some(false));
}

#[test]
fn every_number_of_a_figure_has_its_interval() {
    let experiment = "ccr22-heterogeneous-2path";
    let variants =
        ["single-cubic", "single-cubic-ar5", "single-cubic-ah128", "multiple-cubic", "multiple-cubic-ar5"];
    let set = |row: &mut Row, time| row.transfer_time_s = Some(time);
    let all = variants.into_iter().chain(["multiple-cubic-ah128"]);
    let all = all.flat_map(|name| rows(experiment, &format!("{name}-original"), vec![1.0; 40], set));
    let verdict = claim("D6").verdict(&all.collect());
    assert_eq!(verdict.figure.matches('×').count(), verdict.intervals.len(), "{verdict:?}");
}
