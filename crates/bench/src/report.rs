//! Results, as a table for people and as a JSON object for scripts.

use comfy_table::{Table, presets};
use serde_json::Value;

use crate::Error;

/// Last cell of a row whose limit was not kept.
pub(crate) const BROKEN: &str = "BROKEN";

/// Result of a benchmark in both forms.
pub(crate) struct Report {
    pub(crate) title: String,
    pub(crate) columns: Vec<&'static str>,
    pub(crate) rows: Vec<Vec<String>>,
    pub(crate) json: Value,
}

/// Writes the JSON to `target` (`-`: standard output). Prints the table unless the JSON is on standard
/// output.
///
/// # Errors
/// Fails if the file cannot be written, and if a row's limit was not kept.
pub(crate) fn publish(report: &Report, target: Option<&str>) -> Result<(), Error> {
    match target {
        Some("-") => println!("{}", report.json),
        Some(path) => {
            std::fs::write(path, format!("{}\n", report.json))?;
            print!("{}", table(report));
        }
        None => print!("{}", table(report)),
    }
    let is_broken = report.rows.iter().any(|row| row.last().is_some_and(|verdict| verdict == BROKEN));
    if is_broken { Err("a limit is not kept".into()) } else { Ok(()) }
}

/// Formats a Markdown table with aligned columns, as in docs/performance.md.
pub(crate) fn table(report: &Report) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN).set_header(&report.columns).add_rows(&report.rows);
    format!("{}\n\n{table}\n", report.title)
}

/// Returns the median as the lab computes it; NaN without values.
pub(crate) fn median(values: &[f64]) -> f64 {
    anabranch_lab::stats::median(values).unwrap_or(f64::NAN)
}

/// Returns the smallest value; NaN without values.
pub(crate) fn minimum(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NAN, f64::min)
}

/// Rounds `value` to four significant digits, for JSON that people read too.
pub(crate) fn rounded(value: f64) -> f64 {
    let scale = 10_f64.powi(4 - value.abs().max(1e-9).log10().ceil() as i32);
    (value * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_limit_is_an_error_with_all_results_written() {
        let file = std::env::temp_dir().join(format!("anabranch-bench-report-{}", std::process::id()));
        let mut report = Report {
            title: String::new(),
            columns: vec!["what", "verdict"],
            rows: vec![vec!["memory".to_owned(), BROKEN.to_owned()]],
            json: serde_json::json!({"samples": [1, 2]}),
        };
        assert!(publish(&report, file.to_str()).is_err());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "{\"samples\":[1,2]}\n");
        report.rows[0][1] = "kept".to_owned();
        assert!(publish(&report, file.to_str()).is_ok());
        std::fs::remove_file(&file).unwrap();
    }

    #[test]
    fn the_median_ignores_the_order_and_one_outlier() {
        assert_eq!(median(&[3.0, 1000.0, 1.0]), 3.0);
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), 2.5);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn the_minimum_is_one_of_the_values() {
        assert_eq!(minimum(&[3.0, 1.0, 2.0]), 1.0);
        assert!(minimum(&[]).is_nan());
    }

    #[test]
    fn rounding_keeps_what_matters() {
        assert_eq!(rounded(1234.56), 1235.0);
        assert_eq!(rounded(0.123_456), 0.1235);
        assert_eq!(rounded(12.3456), 12.35);
    }

    #[test]
    fn a_table_lines_up() {
        let report = Report {
            title: "T".into(),
            columns: vec!["a", "long"],
            rows: vec![vec!["wide cell".into(), "1".into()]],
            json: Value::Null,
        };
        assert_eq!(table(&report), "T\n\n| a         | long |\n|-----------|------|\n| wide cell | 1    |\n");
    }
}
