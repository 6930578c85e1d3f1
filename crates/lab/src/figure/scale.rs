//! Mapping of an axis's values to pixels, and choice of the tick values.

use core::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};

use super::chart::Axis;

/// Maximum number of ticks of an axis.
const MAX_TICKS: usize = 10;
/// Minimum number of ticks of a logarithmic axis. If it has fewer, evenly spaced ticks are used instead.
const MIN_TICKS: usize = 4;
/// Maximum gap between ticks of a logarithmic axis, as a share of its length. If a gap is larger, evenly
/// spaced ticks are used instead.
const MAX_BLANK: f64 = 0.4;

/// Linear or logarithmic axis.
#[derive(Clone, Debug)]
pub(super) struct Scale {
    range: Range<f64>,
    log: bool,
}

impl From<&Axis> for Scale {
    fn from(axis: &Axis) -> Self {
        Self { range: axis.range.0..axis.range.1, log: axis.log }
    }
}

impl Scale {
    /// Returns the position of `value` along the axis: 0 at its start, 1 at its end.
    fn share(&self, value: f64) -> f64 {
        let Range { start, end } = self.range;
        if self.log { (value / start).ln() / (end / start).ln() } else { (value - start) / (end - start) }
    }

    /// Returns the longest part of the axis without one of `values`, which must ascend. The ends of the axis
    /// count as values.
    fn longest_blank(&self, values: &[f64]) -> f64 {
        let stops = values.iter().map(|value| self.share(*value)).chain([1.0]);
        let (longest, _) =
            stops.fold((0.0, 0.0), |(longest, last), stop| (f64::max(longest, stop - last), stop));
        longest
    }

    /// Returns the tick values. On a logarithmic axis they are powers of ten, multiplied by all digits, by 1,
    /// 2 and 5, or only by 1. The first of these sets is used that has neither too few nor too many ticks and
    /// no large gap. If there is no such set, the ticks are evenly spaced.
    pub(super) fn ticks(&self, most: usize) -> Vec<f64> {
        let within = |value: &f64| (self.range.start..=self.range.end).contains(value);
        if self.log {
            let decades = self.range.start.log10().floor() as i32..=self.range.end.log10().ceil() as i32;
            for between in [&[1, 2, 3, 4, 5, 6, 7, 8, 9][..], &[1, 2, 5], &[1]] {
                let values = decades.clone().flat_map(|decade| {
                    between.iter().map(move |digit| f64::from(*digit) * 10_f64.powi(decade))
                });
                let values: Vec<f64> = values.filter(within).collect();
                if (MIN_TICKS..=most).contains(&values.len()) && self.longest_blank(&values) <= MAX_BLANK {
                    return values;
                }
            }
        }
        let step = nice_step((self.range.end - self.range.start) / most as f64);
        let first = (self.range.start / step).ceil();
        (0..=most).map(|index| (first + index as f64) * step).filter(within).collect()
    }
}

/// Returns the smallest of 1, 2, 5, 10, 20, … times a power of ten that is at least `least`.
fn nice_step(least: f64) -> f64 {
    let decade = 10_f64.powf(least.log10().floor());
    let digit = [1.0, 2.0, 5.0].into_iter().find(|digit| digit * decade >= least);
    digit.unwrap_or(10.0) * decade
}

impl Ranged for Scale {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        from + (self.share(*value) * f64::from(to - from)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        self.ticks(hint.max_num_points().clamp(2, MAX_TICKS))
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

impl ValueFormatter<f64> for Scale {
    /// Formats the value with as many digits as necessary.
    fn format(value: &f64) -> String {
        match value.abs() {
            size if size >= 1e6 => format!("{}M", trimmed(value / 1e6)),
            size if size >= 1e4 => format!("{}k", trimmed(value / 1e3)),
            _ => trimmed(*value),
        }
    }
}

fn trimmed(value: f64) -> String {
    let text = format!("{value:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scale(start: f64, end: f64, log: bool) -> Scale {
        Scale { range: start..end, log }
    }

    fn named(scale: &Scale) -> String {
        scale.ticks(MAX_TICKS).iter().map(Scale::format).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn every_axis_names_enough_values() {
        assert_eq!(named(&scale(0.0, 1.0, false)), "0 0.1 0.2 0.3 0.4 0.5 0.6 0.7 0.8 0.9 1");
        assert_eq!(named(&scale(4.5, 6.3, false)), "4.6 4.8 5 5.2 5.4 5.6 5.8 6 6.2");
        assert_eq!(named(&scale(0.7, 1.1, true)), "0.7 0.8 0.9 1");
        assert_eq!(named(&scale(0.66, 1.41, true)), "0.7 0.8 0.9 1 1.1 1.2 1.3 1.4");
        assert_eq!(named(&scale(0.975, 1.065, true)), "0.98 0.99 1 1.01 1.02 1.03 1.04 1.05 1.06");
        assert_eq!(named(&scale(0.9, 40.0, true)), "1 2 5 10 20");
        assert_eq!(named(&scale(9e3, 3e8, true)), "10k 100k 1M 10M 100M");
    }

    #[test]
    fn factors_have_equal_lengths_on_a_logarithmic_axis() {
        let scale = scale(1.0, 100.0, true);
        assert_eq!([1.0, 10.0, 100.0].map(|value| scale.map(&value, (0, 200))), [0, 100, 200]);
        assert_eq!(self::scale(0.0, 4.0, false).map(&1.0, (100, 0)), 75);
    }
}
