//! All experiments that compare stacks, joined: a table and a figure of times over the fluid bound.

use std::path::Path;

use anabranch_lab::experiment::COMPARE;
use anabranch_lab::figure::stacks;
use anabranch_lab::record::Row;
use anabranch_lab::report;
use anabranch_lab::stack::{self, Standing};
use anabranch_lab::store::{self, StoreError};

use crate::exit::{Result, say};

/// Name of the figure's files, without their endings.
const FIGURE: &str = "compare";

/// Draws the figure of all experiments into `folder` and, unless the output is for programs, prints table and figure.
pub(super) fn finish(rows: &[Row], folder: &Path, for_programs: bool) -> Result {
    let standings = stack::standings(rows);
    let file = folder.join(format!("{FIGURE}.svg"));
    let picture = stacks::draw(&standings)
        .map_err(|fault| StoreError { file: file.clone(), what: fault.to_string() })?;
    let Some(picture) = picture else { return Ok(()) };
    report::write_picture(folder, FIGURE, &picture)?;
    if for_programs {
        return Ok(());
    }
    say(format_args!("time over the fluid bound, median and worst point:\n{}", table(&standings)))?;
    say(format_args!("figure: {}", file.display()))
}

/// Returns the rows of all experiments that compare stacks and have results in a directory of this folder.
pub(super) fn read(folder: &Path) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for dir in COMPARE.iter().map(|name| folder.join(name)).filter(|dir| dir.join(store::PARQUET).is_file()) {
        rows.extend(store::read(&dir)?);
    }
    Ok(rows)
}

/// Returns a table with a line for each stack and two columns for each experiment.
fn table(standings: &[Standing]) -> String {
    let there = |name: &&&str| standings.iter().any(|one| one.experiment == **name);
    let experiments: Vec<&str> = COMPARE.iter().filter(there).copied().collect();
    let mut names: Vec<&str> = standings.iter().map(|one| one.stack.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let shown = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"));
    let cells = |of: Option<&Standing>| match of {
        None => ["-", "-"].map(str::to_owned),
        Some(one) if one.failed > 0 => [shown(one.median()), format!("{} failed", one.failed)],
        Some(one) => [one.median(), one.worst().map(|(_, ratio)| ratio)].map(shown),
    };
    let line = |name: &&str| {
        let of = |experiment: &&str| {
            standings.iter().find(|one| one.experiment == *experiment && one.stack == **name)
        };
        let numbers = experiments.iter().flat_map(|experiment| cells(of(experiment)));
        std::iter::once((*name).to_owned()).chain(numbers).collect()
    };
    let heads: Vec<String> = experiments
        .iter()
        .flat_map(|name| [name.strip_prefix("compare-").unwrap_or(name).to_owned(), "worst".to_owned()])
        .collect();
    let header: Vec<&str> = std::iter::once("stack").chain(heads.iter().map(String::as_str)).collect();
    crate::table::table(&header, &[0], names.iter().map(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stack_has_a_line_and_each_experiment_two_columns() {
        let standing = |experiment: &str, stack: &str, ratios: &[f64]| Standing {
            experiment: experiment.to_owned(),
            stack: stack.to_owned(),
            ratios: (0..).zip(ratios.iter().copied()).collect(),
            failed: 0,
        };
        let standings = [
            standing("compare-2path-2mb", "noq", &[1.5, 2.5, 4.0]),
            standing("compare-2path-50mb", "anabranch-multiple", &[1.0]),
            standing("compare-2path-50mb", "noq", &[1.25, 1.75]),
            Standing { failed: 4, ..standing("compare-2path-2mb", "quiche-best-path", &[]) },
        ];
        let table = table(&standings);
        let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[0], ["stack", "2path-50mb", "worst", "2path-2mb", "worst"]);
        assert_eq!(lines[1], ["anabranch-multiple", "1.000", "1.000", "-", "-"]);
        assert_eq!(lines[2], ["noq", "1.500", "1.750", "2.500", "4.000"]);
        assert_eq!(lines[3], ["quiche-best-path", "-", "-", "-", "4", "failed"]);
    }
}
