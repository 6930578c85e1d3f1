//! Summary of a sweep's results, by variant.

use anabranch_lab::record::Row;
use anabranch_lab::stats::Sample;
use serde_json::{Value, json};

/// Summary of one variant over all points.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Summary {
    variant: String,
    runs: usize,
    failures: usize,
    /// Transfer times of the runs that did not fail.
    times: Sample,
    retransmitted_percent: Option<f64>,
    mean_ranges: Option<f64>,
    limit_share: Option<f64>,
    /// Share of the stream bytes that were decrypted into the receive buffer.
    placed_share: Option<f64>,
    /// Bytes saved and restored around decryption, per stream byte.
    restored_share: Option<f64>,
    /// Share of the packets that arrived in order.
    ordered_ratio: Option<f64>,
}

/// Returns the summaries, in order of the variants' first occurrence.
pub(super) fn of(rows: &[Row]) -> Vec<Summary> {
    let mut names: Vec<&str> = Vec::new();
    for row in rows {
        if !names.contains(&row.variant.as_str()) {
            names.push(&row.variant);
        }
    }
    names.iter().map(|name| Summary::of(name, rows)).collect()
}

/// Returns a table for people. `n` is the number of values behind the median and the percentile. A percentile
/// is omitted if too few values support it.
pub(super) fn table(summaries: &[Summary]) -> String {
    let header = [
        "variant", "runs", "failed", "n", "median s", "p95 s", "worst s", "resent %", "ranges", "at limit",
        "placed", "restored", "ordered",
    ];
    crate::table::table(&header, &[0], summaries.iter().map(|summary| summary.cells().to_vec()))
}

/// Returns `bytes` per stream byte that the client received; `None` if it received none.
fn share(row: &Row, bytes: Option<u64>) -> Option<f64> {
    let received = row.placed_bytes? + row.copied_bytes?;
    (received > 0).then_some(bytes? as f64 / received as f64)
}

impl Summary {
    fn of(name: &str, rows: &[Row]) -> Self {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.variant == name).collect();
        let mean = |value: fn(&Row) -> Option<f64>| {
            rows.iter().filter_map(|row| value(row)).collect::<Sample>().mean()
        };
        let ended = rows.iter().filter(|row| row.failure.is_empty());
        Self {
            variant: name.to_owned(),
            runs: rows.len(),
            failures: rows.iter().filter(|row| !row.failure.is_empty()).count(),
            times: ended.filter_map(|row| row.transfer_time_s).collect(),
            retransmitted_percent: mean(|row| row.retransmitted_percent),
            mean_ranges: mean(|row| row.mean_ranges),
            limit_share: mean(|row| row.limit_share),
            placed_share: mean(|row| share(row, row.placed_bytes)),
            restored_share: mean(|row| share(row, row.restored_bytes)),
            ordered_ratio: mean(|row| row.ordered_ratio),
        }
    }

    fn cells(&self) -> [String; 13] {
        let number =
            |value: Option<f64>, digits: usize| value.map_or("-".into(), |value| format!("{value:.digits$}"));
        let percent = |share: Option<f64>, digits: usize| {
            share.map_or("-".into(), |share| format!("{:.digits$}%", share * 100.0))
        };
        [
            self.variant.clone(),
            self.runs.to_string(),
            self.failures.to_string(),
            self.times.n().to_string(),
            number(self.times.median(), 2),
            number(self.times.percentile(0.95), 2),
            number(self.times.percentile(1.0), 2),
            number(self.retransmitted_percent, 2),
            number(self.mean_ranges, 2),
            percent(self.limit_share, 1),
            percent(self.placed_share, 1),
            percent(self.restored_share, 2),
            percent(self.ordered_ratio, 2),
        ]
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "variant": self.variant,
            "runs": self.runs,
            "failures": self.failures,
            "transfer_time_s": {
                "n": self.times.n(),
                "median": self.times.median(),
                "p95": self.times.percentile(0.95),
                "worst": self.times.percentile(1.0),
            },
            "retransmitted_percent": self.retransmitted_percent,
            "mean_ranges": self.mean_ranges,
            "limit_share": self.limit_share,
            "placed_share": self.placed_share,
            "restored_share": self.restored_share,
            "ordered_ratio": self.ordered_ratio,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(variant: &str, time: Option<f64>, failure: &str) -> Row {
        let (variant, failure) = (variant.to_owned(), failure.to_owned());
        Row { variant, failure, transfer_time_s: time, mean_ranges: time, ..Row::default() }
    }

    #[test]
    fn variants_are_summed_up_in_their_order() {
        let mut rows: Vec<_> = (1..=20).map(|time| row("b", Some(f64::from(time)), "")).collect();
        rows.push(row("b", None, "stalled"));
        rows.push(row("a", None, ""));
        let summaries = of(&rows);
        let [b, a] = &summaries[..] else { panic!("two variants") };
        assert_eq!((b.runs, b.failures), (21, 1));
        assert_eq!(
            [0.5, 0.95, 1.0].map(|share| b.times.percentile(share)),
            [Some(10.5), Some(19.05), Some(20.0)]
        );
        assert_eq!((a.runs, a.times.median(), a.mean_ranges), (1, None, None));
        let table = table(&summaries);
        let lines: Vec<_> = table.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(
            lines[0].starts_with("variant  runs  failed   n  median s")
                && lines[1].starts_with("b          21"),
            "{table}"
        );
        assert!(lines[1].ends_with('-') && lines.iter().all(|line| line.len() == lines[0].len()), "{table}");
        assert_eq!(b.json()["transfer_time_s"]["p95"], 19.05);
        assert_eq!(b.json()["transfer_time_s"]["n"], 20);
    }

    /// Four runs have a median, 8.413 as pandas computes it, but no 95th percentile.
    #[test]
    fn a_few_runs_have_the_median_that_others_compute_and_no_percentile() {
        let mut rows: Vec<_> = [8.606, 8.22, 9.1, 8.0].map(|time| row("v", Some(time), "")).into();
        rows.push(row("v", Some(99.0), "a path was not opened"));
        let [few] = &of(&rows)[..] else { panic!("one variant") };
        let times = &few.json()["transfer_time_s"];
        assert_eq!((&times["n"], &times["p95"], &times["worst"]), (&4.into(), &Value::Null, &9.1.into()));
        assert!((times["median"].as_f64().unwrap() - 8.413).abs() < 1e-9, "{times}");
        assert_eq!(few.cells()[3..7], ["4", "8.41", "-", "9.10"]);
    }
}
