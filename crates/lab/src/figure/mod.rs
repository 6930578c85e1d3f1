//! Published figures, drawn from our rows in the style of the papers.
//!
//! A figure is a description: a metric, a form and some variants. [`chart`] turns it into points; [`svg`],
//! [`png`] and [`pdf`] turn these into pictures. Experiments without a paper get charts of their [`own`]. To
//! add the figures of another paper, add a file and a line in `registry!`.

pub mod chart;
pub mod difference;
pub mod own;
pub mod pdf;
pub mod png;
pub mod regret;
mod scale;
pub mod stacks;
pub mod svg;
mod tree;

use crate::claim::Metric;
use crate::registry::registry;

pub use chart::Chart;
pub use tree::parse;

registry! {
    /// All figures, by paper.
    pub const FIGURES: &[&[Figure]] = FIGURES in
    ccr22,
    conext17,
}

/// Figure of a paper.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// Unique name: the paper and the number. Files are named after it.
    pub id: &'static str,
    /// Name of the experiment that the figure shows.
    pub experiment: &'static str,
    /// Title of the figure, in one line.
    pub title: &'static str,
    /// Label of the horizontal axis; for boxes, of the vertical one.
    pub axis: &'static str,
    /// `true` if the axis of `axis` is logarithmic.
    pub log: bool,
    /// Form in which the figure is drawn.
    pub form: Form,
}

/// Form in which a figure is drawn.
#[derive(Clone, Copy, Debug)]
pub enum Form {
    /// Distribution of a metric over the points, with a curve for each variant.
    Distribution(Metric, &'static [Series]),
    /// Distribution, over the points, of the ratio of two variants' metric.
    Ratio(Metric, &'static [RatioSeries]),
    /// Boxes of a metric (quartiles, with whiskers to the tenth and ninetieth percentile). One box shows the
    /// points whose first path is the better one, the other box the remaining points.
    Boxes(Metric, &'static [Series]),
    /// Delay of each request over time, at one point.
    Requests(u64, &'static [Series]),
}

impl Form {
    /// Returns the variants that the figure shows or compares.
    pub fn variants(&self) -> Vec<&'static str> {
        match self {
            Self::Distribution(_, series) | Self::Boxes(_, series) | Self::Requests(_, series) => {
                series.iter().map(|series| series.variant).collect()
            }
            Self::Ratio(_, series) => series.iter().flat_map(|series| series.over).collect(),
        }
    }
}

/// Curve of a variant.
#[derive(Clone, Copy, Debug)]
pub struct Series {
    /// Label in the legend.
    pub label: &'static str,
    /// Name of the variant.
    pub variant: &'static str,
    /// Style of the curve.
    pub style: Style,
}

/// Curve of ratios of two variants.
#[derive(Clone, Copy, Debug)]
pub struct RatioSeries {
    /// Label in the legend.
    pub label: &'static str,
    /// Names of the variants. The first one's value is divided by the second one's.
    pub over: [&'static str; 2],
    /// Style of the curve.
    pub style: Style,
}

/// Color and dashes of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Index into [`svg::PALETTE`].
    pub color: usize,
    /// Index into [`svg::DASHES`].
    pub dashes: usize,
}

impl Style {
    /// Returns the style of curve number `place`. The first curves use all colors with a solid line, the next
    /// ones all colors with dashes, and so on.
    pub const fn nth(place: usize) -> Self {
        Self { color: place % svg::PALETTE.len(), dashes: place / svg::PALETTE.len() % svg::DASHES.len() }
    }
}

const fn solid(color: usize) -> Style {
    Style { color, dashes: 0 }
}

const fn dashed(color: usize) -> Style {
    Style { color, dashes: 1 }
}

/// Returns the figures of an experiment.
pub fn of(experiment: &str) -> impl Iterator<Item = &'static Figure> {
    FIGURES.iter().copied().flatten().filter(move |figure| figure.experiment == experiment)
}

#[cfg(test)]
mod tests;
