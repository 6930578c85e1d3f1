//! Chart of the differences between two sets of results: the distribution of the ratios of paired transfer
//! times, with a curve for each variant.

use super::Style;
use super::chart::{Axis, Chart, Mark, distribution, widened};
use crate::difference::Difference;

/// Returns the chart of the variants that have pairs; `None` if none has.
pub fn chart(differences: &[Difference]) -> Option<Chart> {
    let curves = differences.iter().filter(|one| !one.ratios.is_empty());
    let mark = |(place, one): (usize, &Difference)| {
        let ratios: Vec<f64> = one.ratios.iter().map(|(_, ratio)| *ratio).collect();
        let (n, shape) = distribution(&ratios, false);
        Mark { label: one.variant.clone(), n, style: Style::nth(place), shape }
    };
    let marks: Vec<Mark> = curves.enumerate().map(mark).collect();
    let ratios = || differences.iter().flat_map(|one| one.ratios.iter().map(|(_, ratio)| *ratio));
    let ends = ratios().fold((1.0, 1.0), |(low, high): (f64, f64), ratio| (low.min(ratio), high.max(ratio)));
    let x = Axis { label: "time, second over first".to_owned(), log: false, range: widened(ends, false) };
    let y = Axis { label: "share of the pairs".to_owned(), log: false, range: (0.0, 1.0) };
    (!marks.is_empty()).then(|| Chart { title: "transfer times, pair by pair".to_owned(), x, y, marks })
}
