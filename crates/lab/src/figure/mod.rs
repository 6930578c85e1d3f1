//! The published figures, drawn from our rows in the papers' form.
//!
//! A figure is a description: which metric, in which form, of which variants. [`chart`] turns it into points,
//! [`svg`], [`png`] and [`pdf`] into pictures. Experiments that no paper has drawn get charts of their
//! [`own`]. Adding the figures of another paper is one file and one line in `registry!`.

pub mod chart;
pub mod own;
pub mod pdf;
pub mod png;
mod scale;
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

/// A figure of a paper.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// Unique name, which files are called by: paper and number.
    pub id: &'static str,
    /// The experiment that it shows.
    pub experiment: &'static str,
    /// Title of the figure, in one line.
    pub title: &'static str,
    /// Label of the horizontal axis; for boxes, of the vertical one.
    pub axis: &'static str,
    /// `true` if that axis is logarithmic.
    pub log: bool,
    /// Form in which the figure is drawn.
    pub form: Form,
}

/// Form in which a figure is drawn.
#[derive(Clone, Copy, Debug)]
pub enum Form {
    /// The distribution of a metric over the points, a curve for each variant.
    Distribution(Metric, &'static [Series]),
    /// The distribution of a metric's ratio of two variants over the points.
    Ratio(Metric, &'static [RatioSeries]),
    /// The metric as boxes (quartiles, whiskers to the tenth and ninetieth percentile), one for the points
    /// whose first path is the better one, one for the others.
    Boxes(Metric, &'static [Series]),
    /// The delay of each request over time, at one point.
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

/// A curve.
#[derive(Clone, Copy, Debug)]
pub struct Series {
    /// Label in the legend.
    pub label: &'static str,
    /// The variant.
    pub variant: &'static str,
    /// Style of the curve.
    pub style: Style,
}

/// A curve of ratios.
#[derive(Clone, Copy, Debug)]
pub struct RatioSeries {
    /// Label in the legend.
    pub label: &'static str,
    /// The variants: the first one's value is divided by the second one's.
    pub over: [&'static str; 2],
    /// Style of the curve.
    pub style: Style,
}

/// Color (an index into the palette) and dashes of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Index into [`svg::PALETTE`].
    pub color: usize,
    /// Index into [`svg::DASHES`].
    pub dashes: usize,
}

impl Style {
    /// Returns the style of the curve at this place among many: all colors with a solid line, then all of
    /// them with a broken one, and so on.
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
