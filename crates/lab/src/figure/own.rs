//! Figures of experiments without a paper. For each metric with values in the rows, a figure shows the
//! distribution over all runs, with a curve for each variant.

use super::Style;
use super::chart::{Axis, Chart, Mark, distribution, quartiles, widened};
use crate::record::Row;
use crate::stack;

/// Maximum number of curves in a figure, limited by the distinct combinations of color and dashes.
const MAX_CURVES: usize = super::svg::PALETTE.len() * super::svg::DASHES.len();
/// Ratio of the largest to the smallest value above which the axis is logarithmic.
const WIDE: f64 = 50.0;

/// Metric, of which a row may have any number of values.
struct Metric {
    /// Name of the metric in file names, after the experiment's name.
    id: &'static str,
    title: &'static str,
    axis: &'static str,
    values: fn(&Row) -> Vec<f64>,
}

const METRICS: &[Metric] = &[
    Metric {
        id: "time",
        title: "transfer time",
        axis: "transfer time (s)",
        values: |row| row.transfer_time_s.into_iter().collect(),
    },
    Metric {
        id: "bound",
        title: "transfer time over the fluid bound",
        axis: "transfer time / fluid bound of all paths",
        values: over_bound,
    },
    Metric {
        id: "delays",
        title: "delay of answers",
        axis: "delay of an answer (ms)",
        values: |row| row.request_delays_s.iter().map(|delay| delay * 1e3).collect(),
    },
    Metric {
        id: "goodput",
        title: "goodput of the connection with several paths",
        axis: "goodput (Mbit/s)",
        values: |row| row.flow_goodput_bps.iter().take(1).map(|rate| rate / 1e6).collect(),
    },
    Metric {
        id: "repeated",
        title: "data sent again",
        axis: "bytes repeated by the sender (% of the transfer)",
        values: |row| row.retransmitted_percent.into_iter().collect(),
    },
    Metric {
        id: "blocked",
        title: "head-of-line blocking",
        axis: "time in which the next byte was missing (s)",
        values: |row| row.blocked_s.into_iter().collect(),
    },
    Metric {
        id: "benefit",
        title: "experimental aggregation benefit",
        axis: "experimental aggregation benefit",
        values: |row| row.eben.into_iter().collect(),
    },
];

/// Metric of the figure that shows [`stack`]s instead of variants.
const BOUND: Metric = Metric {
    id: "stacks",
    title: "transfer time over the fluid bound",
    axis: "transfer time / fluid bound of all paths",
    values: over_bound,
};

fn over_bound(row: &Row) -> Vec<f64> {
    row.transfer_time_s.zip(row.bound_s).map(|(time, bound)| time / bound).into_iter().collect()
}

/// Returns the chart of stacks, which shows the fastest runs of each. Returns `None` unless `rows` have 2 to
/// [`MAX_CURVES`] stacks, all rows have fluid bounds, and some variant uses one path alone.
fn stacks(experiment: &str, rows: &[Row]) -> Option<(String, Chart)> {
    let mut curves: Vec<(String, Vec<f64>)> = Vec::new();
    for ((name, _, _), row) in stack::best(rows) {
        match curves.last_mut() {
            Some((last, values)) if *last == name => values.extend(over_bound(row)),
            _ => curves.push((name, over_bound(row))),
        }
    }
    let several = curves.len() > 1 && curves.iter().all(|(_, values)| !values.is_empty());
    let alone = rows.iter().any(|row| stack::of(&row.variant).1);
    let fits = curves.len() <= MAX_CURVES;
    (several && alone && fits)
        .then(|| (format!("{experiment}-{}", BOUND.id), chart(experiment, &BOUND, &curves)))
}

/// Returns the charts of `rows`, each with the name of its files. Failed runs are ignored.
pub fn charts(experiment: &str, rows: &[Row]) -> Vec<(String, Chart)> {
    let mut variants: Vec<&str> = Vec::new();
    for row in rows {
        if !variants.contains(&row.variant.as_str()) {
            variants.push(&row.variant);
        }
    }
    let mut charts: Vec<_> = stacks(experiment, rows).into_iter().collect();
    for metric in METRICS {
        let values = |variant: &&str| -> (String, Vec<f64>) {
            let of = rows.iter().filter(|row| row.variant == **variant && row.failure.is_empty());
            ((*variant).to_owned(), of.flat_map(metric.values).collect())
        };
        let all: Vec<(String, Vec<f64>)> =
            variants.iter().map(values).filter(|(_, values)| !values.is_empty()).collect();
        // A metric that is always zero needs no figure.
        if all.iter().flat_map(|(_, values)| values).all(|value| *value == 0.0) {
            continue;
        }
        for (page, some) in (1..).zip(all.chunks(MAX_CURVES)) {
            let further = if page > 1 { format!("-{page}") } else { String::new() };
            let id = format!("{experiment}-{}{further}", metric.id);
            charts.push((id, chart(experiment, metric, some)));
        }
    }
    charts
}

fn chart(experiment: &str, metric: &Metric, curves: &[(String, Vec<f64>)]) -> Chart {
    let all = || curves.iter().flat_map(|(_, values)| values.iter().copied());
    let ends = all()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
    let log = ends.0 > 0.0 && ends.1 / ends.0 > WIDE;
    let range = widened(ends, log);
    let title = format!("{experiment}: {}", metric.title);
    // If no curve has more than one value, each value is drawn as a line instead of a distribution.
    let single = curves.iter().all(|(_, values)| values.len() < 2);
    let mark = |(place, (label, values)): (usize, &(String, Vec<f64>))| {
        let (n, shape) = if single { quartiles(values) } else { distribution(values, log) };
        Mark { label: label.clone(), n, style: Style::nth(place), shape }
    };
    let marks: Vec<Mark> = curves.iter().enumerate().map(mark).collect();
    let measured = Axis { label: metric.axis.to_owned(), log, range };
    let (x, y) = if single {
        (Axis { label: String::new(), log: false, range: (0.0, marks.len() as f64) }, measured)
    } else {
        let of = if metric.id == "delays" { "share of the answers" } else { "share of the runs" };
        (measured, Axis { label: of.to_owned(), log: false, range: (0.0, 1.0) })
    };
    Chart { title, x, y, marks }
}
