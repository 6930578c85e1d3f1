use std::collections::BTreeSet;

use super::chart::Shape;
use super::{Chart, FIGURES, Figure, Style, of, own, parse, pdf, png, svg};
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
        Shape::Box(values) => values[2].unwrap(),
        _ => f64::NAN,
    });
    assert_eq!(medians.collect::<Vec<_>>(), [0.5, -0.1]);
    assert_eq!(chart.marks.iter().map(|mark| mark.n).collect::<Vec<_>>(), [2, 1]);
    // With so few values there are no quartiles and no whiskers.
    assert!(
        chart.marks.iter().all(|mark| matches!(mark.shape, Shape::Box([None, None, Some(_), None, None])))
    );
}

/// Charts of every form and with both kinds of axes are drawn as SVG with title and legend, and rendered as
/// pixels.
#[test]
fn charts_become_pictures() {
    let mut rows = times("ccr22-homogeneous-2path", "single-cubic-original", &[5.0, 4.0, 7.5]);
    for row in &mut rows {
        row.mean_ranges = row.transfer_time_s.map(|time| time * 30.0);
    }
    rows.extend(times("conext17-low-bdp-no-loss", "quic-path-0", &[1.0, 3.0]));
    rows.extend(times("conext17-low-bdp-no-loss", "quic-path-1", &[2.0, 2.0]));
    rows.extend(times("conext17-low-bdp-no-loss", "linux-tcp-cubic-path-0-tls12", &[1.1, 3.5]));
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
        let first = &chart.marks[0];
        let legend = format!("{} (n = {})", first.label, first.n);
        assert!(picture.contains("</svg>") && picture.contains(&legend), "{id}");
        let tree = parse(&picture).unwrap();
        let pixels = png::render(&tree).unwrap();
        assert!(pixels.starts_with(b"\x89PNG") && pixels.len() > 10_000, "{id}");
        let paper = pdf::render(&tree).unwrap();
        assert!(paper.starts_with(b"%PDF-") && paper.len() > 5_000, "{id}");
        assert!(paper == pdf::render(&parse(&picture).unwrap()).unwrap(), "the same each time");
    }
    assert!(parse("no picture").is_err());
}

/// Figures of a plan's rows have a distinct style for each variant, and distributions begin at 0.
#[test]
fn experiments_of_our_own_have_figures() {
    let rows: Vec<Row> = (0..25)
        .flat_map(|variant| times("mine", &format!("v{variant}"), &[5.0, 4.0, 7.5]))
        .map(|row| Row { retransmitted_percent: Some(0.0), ..row })
        .collect();
    let charts = own::charts("mine", &rows);
    // No data was retransmitted, so that metric has no figure.
    assert_eq!(charts.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>(), ["mine-time"]);
    let chart = &charts[0].1;
    let styles: BTreeSet<_> = chart.marks.iter().map(|mark| (mark.style.color, mark.style.dashes)).collect();
    assert_eq!((chart.marks.len(), styles.len()), (25, 25));
    for mark in &chart.marks {
        let Shape::Line(points) = &mark.shape else { panic!("no line") };
        assert_eq!((mark.n, points[0], points[5]), (3, (4.0, 0.0), (7.5, 1.0)));
    }
    let picture = svg::draw(chart).unwrap();
    assert!(picture.contains("v24 (n = 3)"));
    assert_eq!(Style::nth(8), Style { color: 0, dashes: 1 });

    // Curves beyond the number of distinct styles are drawn in further figures. Failed runs are ignored.
    let many = (0..40).flat_map(|variant| times("mine", &format!("v{variant}"), &[1.0, 2.0]));
    let many: Vec<Row> =
        many.map(|row| if row.variant == "v3" { Row { failure: "x".into(), ..row } } else { row }).collect();
    let charts = own::charts("mine", &many);
    let found: Vec<_> = charts.iter().map(|(id, chart)| (id.as_str(), chart.marks.len())).collect();
    assert_eq!(found, [("mine-time", 32), ("mine-time-2", 7)]);
}

/// A single run of each variant has no distribution. It is drawn as a line at its value.
#[test]
fn single_runs_stand_side_by_side() {
    let mut rows = times("mine", "a", &[5.0]);
    rows.extend(times("mine", "b", &[400.0]));
    rows[1].request_delays_s = vec![0.01, 0.02];
    let charts = own::charts("mine", &rows);
    assert_eq!(charts.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>(), ["mine-time", "mine-delays"]);
    let chart = &charts[0].1;
    assert!(
        chart.marks.iter().all(|mark| matches!(mark.shape, Shape::Box([None, None, Some(_), None, None])))
    );
    assert!(chart.y.log && chart.x.label.is_empty());
    assert!(svg::draw(chart).unwrap().contains("transfer time (s)"));
    let delays = &charts[1].1;
    assert_eq!((delays.marks.len(), delays.y.label.as_str()), (1, "share of the answers"));
}
