//! Table of variants by point. A difference at a single point would be lost in a mean over all points.

use anabranch_lab::record::Row;
use anabranch_lab::stats::Sample;

/// Maximum number of points in a table; each has a column.
const MAX_POINTS: usize = 8;

/// Returns a table of `rows` with a line for each variant and a column for each point. It shows the median
/// transfer time, or the median and the 95th percentile of response delays. `None` if there are too many points.
pub(super) fn table(rows: &[Row]) -> Option<String> {
    let (variants, points) = (distinct(rows, |row| row.variant.clone()), distinct(rows, |row| row.point));
    if points.len() > MAX_POINTS {
        return None;
    }
    let asks = rows.iter().any(|row| !row.request_delays_s.is_empty());
    let unit = if asks { "ms, median/p95" } else { "s, median" };
    let heads: Vec<String> = points.iter().map(|point| format!("point {point}")).collect();
    let header: Vec<&str> = std::iter::once("variant").chain(heads.iter().map(String::as_str)).collect();
    let lines = variants.iter().map(|variant| {
        let of = |point: &u64| {
            cell(rows.iter().filter(|row| row.variant == *variant && row.point == *point), asks)
        };
        std::iter::once(variant.clone()).chain(points.iter().map(of)).collect::<Vec<_>>()
    });
    Some(format!("{unit}:\n{}", crate::table::table(&header, &[0], lines)))
}

fn cell<'a>(rows: impl Iterator<Item = &'a Row> + Clone, asks: bool) -> String {
    let ended = rows.filter(|row| row.failure.is_empty());
    let shown = |value: Option<f64>, digits: usize| {
        value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
    };
    if !asks {
        let times: Sample = ended.filter_map(|row| row.transfer_time_s).collect();
        return format!("{} (n {})", shown(times.median(), 3), times.n());
    }
    let delays: Sample = ended.flat_map(|row| &row.request_delays_s).map(|delay| delay * 1e3).collect();
    format!("{}/{} (n {})", shown(delays.median(), 1), shown(delays.percentile(0.95), 1), delays.n())
}

/// Returns the distinct values of `of`, in the order in which they first occur.
fn distinct<T: PartialEq>(rows: &[Row], of: impl Fn(&Row) -> T) -> Vec<T> {
    let mut found = Vec::new();
    for value in rows.iter().map(of) {
        if !found.contains(&value) {
            found.push(value);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_point_is_told_by_itself() {
        let row = |variant: &str, point, time: f64, delays: Vec<f64>| Row {
            variant: variant.to_owned(),
            point,
            transfer_time_s: Some(time),
            request_delays_s: delays,
            ..Row::default()
        };
        let rows = [row("a", 2, 1.5, vec![]), row("a", 10, 3.0, vec![]), row("b", 2, 1.25, vec![])];
        let shown = table(&rows).unwrap();
        let lines: Vec<Vec<&str>> = shown.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[2], ["a", "1.500", "(n", "1)", "3.000", "(n", "1)"]);
        assert_eq!(lines[3], ["b", "1.250", "(n", "1)", "-", "(n", "0)"]);
        let asked = table(&[row("a", 2, 1.5, vec![0.010; 40])]).unwrap();
        assert!(asked.contains("10.0/10.0 (n 40)"), "{asked}");
        let many: Vec<Row> = (0..9).map(|point| row("a", point, 1.0, vec![])).collect();
        assert_eq!(table(&many), None);
    }
}
