//! Table of the shares that variants take of a bottleneck.

use anabranch_lab::record::Row;
use anabranch_lab::share::{self, Share};

/// Returns the table; `None` if no connections competed.
pub(super) fn table(rows: &[Row]) -> Option<String> {
    let shares = share::of(rows);
    let header = ["variant", "points", "mean", "median", "least", "at point", "most", "at point"];
    (!shares.is_empty()).then(|| {
        format!(
            "share: goodput over the mean of the connections beside it, median of repetitions\n{}",
            crate::table::table(&header, &[0], shares.iter().map(cells))
        )
    })
}

fn cells(share: &Share) -> Vec<String> {
    let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"));
    let sample = share.sample();
    let by_ratio = |one: &&(u64, f64), other: &&(u64, f64)| one.1.total_cmp(&other.1);
    let ends = [share.ratios.iter().min_by(by_ratio), share.ratios.iter().max_by(by_ratio)];
    let [least, most] = ends.map(|end| end.copied().unzip());
    let point = |point: Option<u64>| point.map_or_else(|| "-".to_owned(), |point| point.to_string());
    vec![
        share.variant.clone(),
        sample.n().to_string(),
        number(sample.mean()),
        number(sample.median()),
        number(least.1),
        point(least.0),
        number(most.1),
        point(most.0),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn least_and_most_are_named_with_their_points() {
        let row = |point, own| Row {
            variant: "lia".to_owned(),
            point,
            flow_goodput_bps: vec![own, 4.0],
            ..Row::default()
        };
        let table = table(&[row(7, 2.0), row(3, 6.0)]).unwrap();
        let cells: Vec<_> = table.lines().nth(2).unwrap().split_whitespace().collect();
        assert_eq!(cells, ["lia", "2", "1.00", "1.00", "0.50", "7", "1.50", "3"]);
        assert_eq!(super::table(&[Row::default()]), None);
    }
}
