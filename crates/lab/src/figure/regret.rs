//! Chart of the regret of schedulers: its distribution over all cases, with a curve for each scheduler.

use super::Style;
use super::chart::{Axis, Chart, Mark, distribution, widened};
use crate::regret::Regret;

/// Returns the chart; `None` if there is nothing to compare.
pub fn chart(regrets: &[Regret]) -> Option<Chart> {
    let percent = |one: &Regret| one.values().iter().map(|value| value * 100.0).collect::<Vec<_>>();
    let mark = |(place, one): (usize, &Regret)| {
        let (n, shape) = distribution(&percent(one), false);
        Mark { label: one.scheduler.to_owned(), n, style: Style::nth(place), shape }
    };
    let marks: Vec<Mark> = regrets.iter().enumerate().map(mark).collect();
    let most = regrets.iter().flat_map(percent).fold(1.0, f64::max);
    let label = "time beyond the best scheduler's (%)".to_owned();
    let x = Axis { label, log: false, range: widened((0.0, most), false) };
    let y = Axis { label: "share of the cases".to_owned(), log: false, range: (0.0, 1.0) };
    (!marks.is_empty()).then(|| Chart { title: "regret of schedulers".to_owned(), x, y, marks })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Row;

    #[test]
    fn each_scheduler_has_a_curve() {
        let row = |variant: &str, time| Row {
            variant: variant.to_owned(),
            transfer_time_s: Some(time),
            ..Row::default()
        };
        let chart = chart(&crate::regret::of(&[row("ecf", 1.0), row("blest", 3.0)])).unwrap();
        let labels: Vec<_> = chart.marks.iter().map(|mark| (mark.label.as_str(), mark.n)).collect();
        assert_eq!(labels, [("blest", 1), ("ecf", 1)]);
        assert!(chart.x.range.1 >= 200.0, "{:?}", chart.x.range);
        assert!(super::chart(&[]).is_none());
    }
}
