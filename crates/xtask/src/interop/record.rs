//! Earlier results, read back from `docs/interop.md`: a run of some peers or cases replaces only its own cells.

use super::case::Case;
use super::judge::Outcome;
use super::report::{Column, Record};

/// Result of a case that nobody has run between these two.
const NOT_RUN: &str = "not run yet";

impl Record {
    /// Reads the matrix of all `cases`, its holes and the versions of the peers from the document.
    pub(super) fn read(document: &str, cases: &[Case]) -> Result<Self, String> {
        let (head, rest) = document.split_once("\n## Holes\n").ok_or("there are no holes")?;
        let (holes, _) = rest.split_once("\n## Cases\n").ok_or("there are no cases")?;
        let rows: Vec<Vec<&str>> = head.lines().filter(|line| line.starts_with("| ")).map(cells).collect();
        let (titles, rows) = rows.split_first().ok_or("there is no matrix")?;
        let column = |(index, title): (usize, &&str)| {
            let (client, server) = title.split_once(" → ").ok_or_else(|| format!("{title} is no pair"))?;
            let outcome = |case: &Case| {
                let row = rows.iter().find(|row| row.first() == Some(&case.name));
                let Some(mark) = row.and_then(|row| row.get(index)) else {
                    return Ok(Outcome::Skipped(NOT_RUN.to_owned()));
                };
                let hole = format!("- {title}, {}: {mark}: ", case.name);
                let note = holes.lines().find_map(|line| line.strip_prefix(&hole)).unwrap_or_default();
                Outcome::marked(mark, note).ok_or_else(|| format!("{mark} is no result"))
            };
            let outcomes = cases.iter().map(outcome).collect::<Result<_, String>>()?;
            Ok(Column { client: client.to_owned(), server: server.to_owned(), outcomes })
        };
        let columns = titles.iter().enumerate().skip(1).map(column).collect::<Result<_, String>>()?;
        let versions = listed(head, "Peers: ").filter_map(|peer| peer.rsplit_once(' '));
        let versions = versions.map(|(name, version)| (name.to_owned(), version.to_owned())).collect();
        let later = listed(head, Self::LATER).map(str::to_owned).collect();
        Ok(Self { columns, versions, later })
    }

    /// Takes over `results`, whose rows are `run`, while those of this record are `all`. What was skipped says nothing.
    pub(super) fn take(&mut self, all: &[Case], run: &[Case], results: &Self) {
        for column in &results.columns {
            let same = |known: &&mut Column| known.client == column.client && known.server == column.server;
            let known = match self.columns.iter_mut().find(same) {
                Some(known) => known,
                None => {
                    let outcomes = vec![Outcome::Skipped(NOT_RUN.to_owned()); all.len()];
                    self.columns.push(Column { outcomes, ..column.clone() });
                    let Some(new) = self.columns.last_mut() else { continue };
                    new
                }
            };
            for (case, outcome) in run.iter().zip(&column.outcomes) {
                let row = all.iter().position(|known| known.name == case.name);
                if let (Some(row), false) = (row, matches!(outcome, Outcome::Skipped(_))) {
                    known.outcomes[row] = outcome.clone();
                }
            }
            let pair = format!("{} → {}", column.client, column.server);
            if !self.later.contains(&pair) {
                self.later.push(pair);
            }
        }
        for (name, version) in &results.versions {
            match self.versions.iter_mut().find(|(known, _)| known == name) {
                Some(known) => known.1.clone_from(version),
                None => self.versions.push((name.clone(), version.clone())),
            }
        }
    }
}

/// Returns the cells of a table's row.
fn cells(line: &str) -> Vec<&str> {
    line.trim_matches('|').split('|').map(str::trim).collect()
}

/// Returns the items of the list that follows `start`, up to the end of the line.
fn listed<'a>(text: &'a str, start: &str) -> impl Iterator<Item = &'a str> {
    let line = text.split_once(start).and_then(|(_, rest)| rest.lines().next()).unwrap_or_default();
    line.trim_end_matches('.').split(", ").filter(|item| !item.is_empty())
}

#[cfg(test)]
mod tests {
    use super::super::case::all;
    use super::super::report;
    use super::*;

    fn column(client: &str, server: &str, outcomes: &[Outcome]) -> Column {
        Column { client: client.to_owned(), server: server.to_owned(), outcomes: outcomes.to_vec() }
    }

    fn pass() -> Outcome {
        Outcome::Pass(String::new())
    }

    fn record() -> Record {
        let outcomes = [
            pass(),
            Outcome::Foreign("client: closed: it cannot, says RFC 9000".to_owned()),
            Outcome::Unsupported("server: no such suite".to_owned()),
        ];
        let columns = vec![
            column("anabranch", "quinn", &outcomes),
            column("quinn", "anabranch", &[pass(), pass(), pass()]),
        ];
        Record { columns, versions: vec![("quinn".to_owned(), "0.11.12+b".to_owned())], later: Vec::new() }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let cases = &all()[..3];
        let text = report::matrix_part(cases, &record());
        assert_eq!(report::matrix_part(cases, &Record::read(&text, cases).unwrap()), text);
        assert_eq!(Record::read(&text, cases).unwrap().columns[0].outcomes, record().columns[0].outcomes);
    }

    #[test]
    fn only_cells_that_were_run_are_replaced() {
        let cases = &all()[..3];
        let mut record = record();
        let skipped = Outcome::Skipped("no toolchain".to_owned());
        let failed = Outcome::Failed("no answer".to_owned());
        let columns = vec![
            column("anabranch", "quinn", &[pass(), skipped]),
            column("qh3", "anabranch", &[failed.clone(), pass()]),
        ];
        let versions =
            vec![("qh3".to_owned(), "2.1.0".to_owned()), ("quinn".to_owned(), "0.12.0".to_owned())];
        record.take(cases, &cases[1..], &Record { columns, versions, later: Vec::new() });
        let suite = Outcome::Unsupported("server: no such suite".to_owned());
        assert_eq!(record.columns[0].outcomes, [pass(), pass(), suite]);
        assert_eq!(record.columns[1].outcomes, [pass(), pass(), pass()]);
        assert_eq!(record.columns[2].outcomes, [Outcome::Skipped(NOT_RUN.to_owned()), failed, pass()]);
        let text = report::matrix_part(cases, &record);
        assert!(text.contains("Peers: quinn 0.12.0, qh3 2.1.0.\n"), "{text}");
        assert!(text.contains(&format!("{}anabranch → quinn, qh3 → anabranch.\n", Record::LATER)), "{text}");
        let again = Record::read(&text, cases).unwrap();
        assert_eq!((again.later.len(), again.versions.len(), again.columns.len()), (2, 2, 3));
    }
}
