//! Regret of schedulers: a table with the library's default in its first line.

use std::path::Path;

use anabranch_lab::figure::{self, svg};
use anabranch_lab::record::Row;
use anabranch_lab::regret::{self, Regret};
use serde_json::{Value, json};

use crate::exit::{Exit, Failure, Result};

/// Returns the table; `None` if fewer than two schedulers ran at any point.
pub(super) fn table(rows: &[Row]) -> Option<String> {
    let regrets = regret::of(rows);
    if regrets.is_empty() {
        return None;
    }
    let header = ["scheduler", "cases", "median", "p95", "worst", "where", "best there"];
    Some(format!(
        "regret: time beyond that of the best scheduler at each point\n{}",
        crate::table::table(&header, &[0, 5, 6], regrets.iter().map(cells))
    ))
}

/// Returns the regret of each scheduler as JSON.
pub(super) fn as_json(rows: &[Row]) -> Vec<Value> {
    let one = |regret: &Regret| {
        let sample = regret.sample();
        let worst = regret.worst().map(|case| {
            json!({
                "experiment": case.experiment,
                "group": case.group,
                "point": case.point,
                "regret": case.regret,
                "best": case.best,
            })
        });
        json!({
            "scheduler": regret.scheduler,
            "cases": regret.cases.len(),
            "median": sample.median(),
            "p95": sample.percentile(0.95),
            "worst": worst,
        })
    };
    regret::of(rows).iter().map(one).collect()
}

/// Draws the distributions of the schedulers' regret to `file` as SVG. Returns false, and writes no file, if
/// there are none.
pub(super) fn draw(rows: &[Row], file: &Path) -> Result<bool> {
    let Some(chart) = figure::regret::chart(&regret::of(rows)) else { return Ok(false) };
    let io = |error: &dyn std::fmt::Display| Failure::new(Exit::Io, format!("{}: {error}", file.display()));
    let picture = svg::draw(&chart).map_err(|fault| io(&fault))?;
    std::fs::write(file, picture).map_err(|error| io(&error))?;
    Ok(true)
}

fn cells(regret: &Regret) -> Vec<String> {
    let percent =
        |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{:.1}%", value * 100.0));
    let sample = regret.sample();
    let worst = regret.worst();
    let place = worst.map(|case| {
        let group = if case.group.is_empty() { String::new() } else { format!(", {}", case.group) };
        format!("{}{group}, point {}", case.experiment, case.point)
    });
    vec![
        regret.scheduler.to_owned(),
        regret.cases.len().to_string(),
        percent(sample.median()),
        percent(sample.percentile(0.95)),
        percent(worst.map(|case| case.regret)),
        place.unwrap_or_default(),
        worst.map(|case| case.best).unwrap_or_default().to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_comes_first_and_its_worst_point_is_named() {
        let row = |variant: &str, point, time| Row {
            experiment: "limited".to_owned(),
            variant: variant.to_owned(),
            point,
            transfer_time_s: Some(time),
            ..Row::default()
        };
        let rows = [
            row("open-min-rtt", 1, 1.0),
            row("open-confluence", 1, 1.5),
            row("open-min-rtt", 2, 2.0),
            row("open-confluence", 2, 1.0),
        ];
        let table = table(&rows).unwrap();
        let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(
            lines[2],
            ["confluence", "2", "25.0%", "-", "50.0%", "limited,", "open,", "point", "1", "min-rtt"]
        );
        assert_eq!(as_json(&rows)[0]["worst"]["best"], "min-rtt");
        assert_eq!(super::table(&rows[..1]), None);
    }
}
