use std::collections::BTreeSet;

use super::chart::Shape;
use super::{Chart, FIGURES, Figure, of, png, svg};
use crate::claim::{self, Results};
use crate::experiment;
use crate::record::Row;

fn figure(id: &str) -> &'static Figure {
    FIGURES.iter().copied().flatten().find(|figure| figure.id == id).unwrap()
}

fn times(experiment: &str, variant: &str, times: &[f64]) -> Vec<Row> {
    let row = |(point, time): (usize, &f64)| Row {
        experiment: experiment.to_owned(),
        variant: variant.to_owned(),
        point: point as u64,
        transfer_time_s: Some(*time),
        ..Row::default()
    };
    times.iter().enumerate().map(row).collect()
}

#[test]
fn figures_have_names_of_their_own() {
    let ids: Vec<_> = FIGURES.iter().copied().flatten().map(|figure| figure.id).collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len());
    assert_eq!(of("ccr22-heterogeneous-3path").count(), 2);
}

#[test]
fn the_usual_variants_are_those_of_the_figures_and_claims() {
    let claims = claim::paper("ccr22").unwrap().claims;
    for name in ["ccr22-homogeneous-2path", "ccr22-heterogeneous-2path", "ccr22-heterogeneous-3path"] {
        let drawn = of(name).flat_map(|figure| figure.form.variants());
        let needs = claims.iter().flat_map(|claim| claim.needs).filter(|need| need.experiment == name);
        let claimed = needs.flat_map(|need| need.variants.iter().copied());
        let experiment = experiment::named(name, None).unwrap();
        let usual = experiment.usual_variants().iter().map(|variant| variant.name.as_str());
        assert_eq!(usual.collect::<BTreeSet<_>>(), drawn.chain(claimed).collect());
    }
}

#[test]
fn a_distribution_has_a_step_for_each_point() {
    let experiment = "ccr22-heterogeneous-3path";
    let results: Results = times(experiment, "single-cubic-fixed", &[5.0, 4.0]).into_iter().collect();
    let chart = Chart::of(figure("ccr22-7a"), &results).unwrap();
    assert_eq!(chart.marks.len(), 1);
    let steps = vec![(4.0, 0.0), (4.0, 0.5), (5.0, 0.5), (5.0, 1.0)];
    assert_eq!(chart.marks[0].shape, Shape::Line(steps));
    assert!(chart.x.range.0 < 4.0 && chart.x.range.1 > 5.0);
    assert_eq!(Chart::of(figure("ccr22-2a"), &results), None);
}

#[test]
fn a_ratio_divides_point_by_point() {
    let experiment = "ccr22-heterogeneous-2path";
    let rows = [
        times(experiment, "single-cubic-original", &[6.0, 8.0]),
        times(experiment, "single-cubic-fixed", &[3.0, 8.0]),
    ];
    let chart = Chart::of(figure("ccr22-5"), &rows.concat().into_iter().collect()).unwrap();
    let Shape::Line(points) = &chart.marks[0].shape else { panic!("no line") };
    assert_eq!(points.iter().map(|point| point.0).collect::<Vec<_>>(), [1.0, 1.0, 2.0, 2.0]);
}

#[test]
fn boxes_are_told_apart_by_the_first_path() {
    let experiment = "conext17-low-bdp-no-loss";
    let mut rows = times(experiment, "quic-path-0", &[1.0, 3.0, 1.0]);
    rows.extend(times(experiment, "quic-path-1", &[2.0, 2.0, 2.0]));
    rows.extend(times(experiment, "mpquic", &[1.0; 3]));
    for (row, eben) in rows[6..].iter_mut().zip([0.4, -0.1, 0.6]) {
        row.eben = Some(eben);
    }
    let chart = Chart::of(figure("conext17-4"), &rows.into_iter().collect()).unwrap();
    let medians = chart.marks.iter().map(|mark| match mark.shape {
        Shape::Box(values) => values[2],
        _ => f64::NAN,
    });
    assert_eq!(medians.collect::<Vec<_>>(), [0.5, -0.1]);
}

/// Every form and both kinds of axes become a picture with its title and its legend, and that becomes pixels.
#[test]
fn charts_become_pictures() {
    let mut rows = times("ccr22-homogeneous-2path", "single-cubic-original", &[5.0, 4.0, 7.5]);
    for row in &mut rows {
        row.mean_ranges = row.transfer_time_s.map(|time| time * 30.0);
    }
    rows.extend(times("conext17-low-bdp-no-loss", "quic-path-0", &[1.0, 3.0]));
    rows.extend(times("conext17-low-bdp-no-loss", "quic-path-1", &[2.0, 2.0]));
    let both = times("conext17-low-bdp-no-loss", "mpquic", &[1.0, 1.0]);
    rows.extend(both.into_iter().map(|row| Row { eben: Some(0.5), ..row }));
    let mut handover = times("conext17-handover", "mpquic", &[1.0]).remove(0);
    (handover.point, handover.request_times_s) = (100, vec![0.1, 0.5, 0.9]);
    handover.request_delays_s = vec![0.015, 0.1, 0.025];
    rows.push(handover);
    let results: Results = rows.into_iter().collect();
    for id in ["ccr22-2a", "ccr22-2b", "conext17-3", "conext17-4", "conext17-11"] {
        let chart = Chart::of(figure(id), &results).unwrap();
        let picture = svg::draw(&chart).unwrap();
        assert!(picture.contains("</svg>") && picture.contains(&chart.marks[0].label), "{id}");
        let pixels = png::render(&picture).unwrap();
        assert!(pixels.starts_with(b"\x89PNG") && pixels.len() > 10_000, "{id}");
    }
    assert!(png::render("no picture").is_err());
}
