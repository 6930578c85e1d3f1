//! Contents of a chart: its axes and the points of curves and boxes, computed from rows.

use super::{Figure, Form, Style};
use crate::claim::{Metric, Results};
use crate::record::Row;
use crate::stats::Sample;

/// Chart that is ready to be drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// Title above the chart.
    pub title: String,
    /// Horizontal axis; boxes have none.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// Curves, dots and boxes of the chart.
    pub marks: Vec<Mark>,
}

/// Axis of a chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// Label of the axis, including the unit.
    pub label: String,
    /// `true` if the axis is logarithmic.
    pub log: bool,
    /// Values at both ends of the axis.
    pub range: (f64, f64),
}

/// Curve, dots or box in a chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// Label in the legend.
    pub label: String,
    /// Number of values that the mark shows.
    pub n: usize,
    /// Color and dashes.
    pub style: Style,
    /// Shape and position of the mark.
    pub shape: Shape,
}

/// Shape of a [`Mark`].
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// Line through points.
    Line(Vec<(f64, f64)>),
    /// One dot for each value, connected by a line.
    Dots(Vec<(f64, f64)>),
    /// Box of the tenth percentile, first quartile, median, third quartile and ninetieth percentile. A value
    /// is `None` if the sample is too small for it.
    Box([Option<f64>; 5]),
}

/// Margin at either end of an axis, as a share of the length of its values.
const MARGIN: f64 = 0.04;

impl Chart {
    /// Creates the chart of `figure` from the variants that have runs; `None` if no variant has any.
    pub fn of(figure: &Figure, results: &Results) -> Option<Self> {
        let experiment = figure.experiment;
        let marks = match figure.form {
            Form::Distribution(metric, series) => {
                let curve = |series: &super::Series| {
                    let values = results.values(experiment, series.variant, metric);
                    mark(series.label, series.style, distribution(&values, figure.log))
                };
                series.iter().filter_map(curve).collect()
            }
            Form::Ratio(metric, series) => {
                let curve = |series: &super::RatioSeries| {
                    let ratios: Vec<f64> =
                        results.ratios(experiment, series.over, metric).into_values().collect();
                    mark(series.label, series.style, distribution(&ratios, figure.log))
                };
                series.iter().filter_map(curve).collect()
            }
            Form::Boxes(metric, series) => {
                series.iter().flat_map(|series| boxes(results, experiment, series, metric)).collect()
            }
            Form::Requests(point, series) => {
                let dots = |series: &super::Series| {
                    let row = results.rows(experiment, series.variant).find(|row| row.point == point)?;
                    let dots = requests(row);
                    mark(series.label, series.style, (dots.len(), Shape::Dots(dots)))
                };
                series.iter().filter_map(dots).collect()
            }
        };
        Self::around(figure, marks)
    }

    fn around(figure: &Figure, marks: Vec<Mark>) -> Option<Self> {
        let points: Vec<(f64, f64)> = marks.iter().flat_map(Mark::points).collect();
        if points.is_empty() {
            return None;
        }
        let axis = |label: &str, log, values: &mut dyn Iterator<Item = f64>| {
            let ends = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
                (low.min(value), high.max(value))
            });
            Axis { label: label.to_owned(), log, range: widened(ends, log) }
        };
        let (xs, ys) = (&mut points.iter().map(|point| point.0), &mut points.iter().map(|point| point.1));
        let (x, y) = match figure.form {
            Form::Boxes(..) => (
                Axis { label: String::new(), log: false, range: (0.0, marks.len() as f64) },
                axis(figure.axis, figure.log, ys),
            ),
            Form::Requests(..) => (
                axis(figure.axis, false, xs),
                Axis { label: "delay of the answer (ms)".to_owned(), ..axis("", false, ys) },
            ),
            Form::Distribution(..) | Form::Ratio(..) => (
                axis(figure.axis, figure.log, xs),
                Axis { label: "share of the points".to_owned(), log: false, range: (0.0, 1.0) },
            ),
        };
        Some(Self { title: figure.title.to_owned(), x, y, marks })
    }
}

impl Mark {
    /// Returns the points that must lie within the axes.
    fn points(&self) -> Vec<(f64, f64)> {
        match &self.shape {
            Shape::Line(points) | Shape::Dots(points) => points.clone(),
            Shape::Box(values) => values.iter().flatten().map(|value| (0.0, *value)).collect(),
        }
    }
}

fn mark(label: &str, style: Style, (n, shape): (usize, Shape)) -> Option<Mark> {
    (n > 0).then(|| Mark { label: label.to_owned(), n, style, shape })
}

/// Returns the number of values, and their empirical distribution function as a line with steps from 0 to 1.
pub(super) fn distribution(values: &[f64], log: bool) -> (usize, Shape) {
    let shown = |value: &f64| value.is_finite() && (!log || *value > 0.0);
    let sample: Sample = values.iter().copied().filter(shown).collect();
    let share = |count: usize| count as f64 / sample.n() as f64;
    let steps = sample
        .sorted()
        .iter()
        .enumerate()
        .flat_map(|(index, value)| [(*value, share(index)), (*value, share(index + 1))]);
    (sample.n(), Shape::Line(steps.collect()))
}

/// Returns the boxes of two groups of points: those where the first path alone is faster than the second, and
/// the others.
fn boxes(results: &Results, experiment: &str, series: &super::Series, metric: Metric) -> Vec<Mark> {
    let time = |variant| results.by_point(experiment, variant, |row: &Row| row.transfer_time_s);
    let [first, second] = [time("quic-path-0"), time("quic-path-1")];
    let (mut best, mut worst) = (Vec::new(), Vec::new());
    for (point, value) in results.by_point(experiment, series.variant, metric) {
        if let (Some(first), Some(second)) = (first.get(&point), second.get(&point)) {
            if first <= second { &mut best } else { &mut worst }.push(value);
        }
    }
    let of = |which: &str, color, values: &[f64]| {
        let style = Style { color, ..series.style };
        mark(&format!("{}, {which} path first", series.label), style, quartiles(values))
    };
    let color = series.style.color;
    [of("better", color, &best), of("worse", color + 1, &worst)].into_iter().flatten().collect()
}

pub(super) fn quartiles(values: &[f64]) -> (usize, Shape) {
    let sample: Sample = values.iter().copied().collect();
    (sample.n(), Shape::Box([0.1, 0.25, 0.5, 0.75, 0.9].map(|share| sample.percentile(share))))
}

/// Returns the time of each request, in seconds, and the delay of its response, in milliseconds.
fn requests(row: &Row) -> Vec<(f64, f64)> {
    let made = row.request_times_s.iter().copied();
    made.zip(row.request_delays_s.iter().map(|delay| delay * 1e3)).collect()
}

pub(super) fn widened((low, high): (f64, f64), log: bool) -> (f64, f64) {
    if log {
        let (low, high) = (low.ln(), high.ln());
        let margin = ((high - low) * MARGIN).max(0.05);
        ((low - margin).exp(), (high + margin).exp())
    } else {
        let margin = ((high - low) * MARGIN).max(high.abs() * 1e-3).max(1e-6);
        // The axis of non-negative values starts at zero if their minimum is close to zero.
        let start = if low >= 0.0 && low - margin < (high - low) * 0.2 { 0.0 } else { low - margin };
        (start, high + margin)
    }
}
