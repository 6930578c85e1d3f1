//! Matrix for the terminal and for `docs/interop.md`.

use std::fmt::Write as _;

use super::case::Case;
use super::judge::Outcome;

/// Column: client, server, and the outcome of each case.
#[derive(Clone, Debug)]
pub(super) struct Column {
    pub(super) client: String,
    pub(super) server: String,
    /// Outcomes of the cases, in the order of the rows.
    pub(super) outcomes: Vec<Outcome>,
}

/// Cases of the public interop runner, and their outcomes.
pub(super) struct Done {
    pub(super) cases: Vec<Case>,
    pub(super) column: Column,
}

/// Contents of the document's first matrix.
#[derive(Clone, Debug)]
pub(super) struct Record {
    pub(super) columns: Vec<Column>,
    /// Names and versions of the peers.
    pub(super) versions: Vec<(String, String)>,
    /// Columns with cells that were run after the others.
    pub(super) later: Vec<String>,
}

impl Record {
    /// Beginning of the line that names the columns of `later`.
    pub(super) const LATER: &str = "Run by themselves (`--merge`) after the last complete run: ";
}

impl Column {
    /// Returns whether a case failed because of this project.
    pub(super) fn has_failed(&self) -> bool {
        self.outcomes.iter().any(|outcome| matches!(outcome, Outcome::Failed(_)))
    }
}

impl Outcome {
    fn mark(&self) -> &'static str {
        match self {
            Self::Pass(_) => "pass",
            Self::Unsupported(_) => "unsupported",
            Self::Skipped(_) => "skipped",
            Self::Foreign(_) => "peer's fault",
            Self::Failed(_) => "FAIL",
        }
    }

    /// Returns the outcome with this mark and note.
    pub(super) fn marked(mark: &str, note: &str) -> Option<Self> {
        let all = [Self::Pass, Self::Unsupported, Self::Skipped, Self::Foreign, Self::Failed];
        all.into_iter().map(|new| new(note.to_owned())).find(|outcome| outcome.mark() == mark)
    }

    fn note(&self) -> &str {
        match self {
            Self::Pass(note) | Self::Unsupported(note) | Self::Skipped(note) => note,
            Self::Foreign(note) | Self::Failed(note) => note,
        }
    }
}

/// Formats a progress line.
pub(super) fn line(client: &str, server: &str, case: &str, outcome: &Outcome) -> String {
    format!("{client} -> {server}  {case}: {} ({})", outcome.mark(), outcome.note())
}

/// Formats the matrix as a Markdown table, which is also readable as plain text.
pub(super) fn matrix(cases: &[&str], columns: &[Column]) -> String {
    let mut rows = vec![Vec::new(); cases.len() + 1];
    rows[0].push("case".to_owned());
    for (row, case) in rows[1..].iter_mut().zip(cases) {
        row.push((*case).to_owned());
    }
    for column in columns {
        rows[0].push(format!("{} → {}", column.client, column.server));
        for (row, outcome) in rows[1..].iter_mut().zip(&column.outcomes) {
            row.push(outcome.mark().to_owned());
        }
    }
    let width = |index: usize| rows.iter().map(|row| row[index].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..=columns.len()).map(width).collect();
    let mut text = String::new();
    for (number, row) in rows.iter().enumerate() {
        for (cell, width) in row.iter().zip(&widths) {
            // Writing to a string cannot fail.
            let _ = write!(text, "| {cell:width$} ");
        }
        text.push_str("|\n");
        if number == 0 {
            widths.iter().for_each(|width| _ = write!(text, "|{}", "-".repeat(width + 2)));
            text.push_str("|\n");
        }
    }
    text
}

/// Lists every case that did not pass, with the reason.
pub(super) fn holes(cases: &[&str], columns: &[Column]) -> String {
    let mut text = String::new();
    for column in columns {
        for (case, outcome) in cases.iter().zip(&column.outcomes) {
            if !matches!(outcome, Outcome::Pass(_)) {
                let (mark, note) = (outcome.mark(), outcome.note());
                let _ = writeln!(text, "- {} → {}, {case}: {mark}: {note}", column.client, column.server);
            }
        }
    }
    if text.is_empty() { "None.\n".to_owned() } else { text }
}

/// Formats the whole document. `contract` contains the results of the public runner's cases, which are written
/// after `chapters`.
pub(super) fn document(cases: &[Case], record: &Record, contract: &Done, chapters: &str) -> String {
    let mut text = matrix_part(cases, record);
    text.push_str(chapters);
    text.push_str(CONTRACT);
    let (column, names) = (std::slice::from_ref(&contract.column), names(&contract.cases));
    let _ = write!(text, "\n{}\nHoles:\n\n{}", matrix(&names, column), holes(&names, column));
    text
}

/// Formats the document up to its chapters.
pub(super) fn matrix_part(cases: &[Case], record: &Record) -> String {
    let names = names(cases);
    let peers: Vec<String> =
        record.versions.iter().map(|(name, version)| format!("{name} {version}")).collect();
    let mut text = format!(
        "# Interop\n\nWritten by `cargo xtask interop`; columns are client → server. Peers: {}.\n\n",
        peers.join(", ")
    );
    if !record.later.is_empty() {
        let _ = writeln!(text, "{}{}.\n", Record::LATER, record.later.join(", "));
    }
    text.push_str(&matrix(&names, &record.columns));
    text.push_str("\n## Holes\n\n");
    text.push_str(&holes(&names, &record.columns));
    text.push_str("\n## Cases\n\n");
    for case in cases {
        let _ = writeln!(text, "- `{}`: {}", case.name, case.about);
    }
    text.push_str(HOW);
    text
}

/// Replaces everything before the chapters of a document.
pub(super) fn with_matrix(document: &str, cases: &[Case], record: &Record) -> String {
    let chapters = document.split_once(HOW_TITLE).and_then(|(_, rest)| Some(&rest[rest.find("\n## ")?..]));
    matrix_part(cases, record) + chapters.unwrap_or_default()
}

/// Replaces the chapter with this title in the document. A new chapter is inserted before the one on the
/// public runner's contract.
pub(super) fn with_chapter(document: &str, title: &str, chapter: &str) -> String {
    let (before, after) = match document.split_once(title) {
        Some((before, old)) => (before, old.find("\n## ").map_or("", |end| &old[end..])),
        None => document.find(CONTRACT).map_or((document, ""), |at| document.split_at(at)),
    };
    format!("{before}{chapter}{after}")
}

/// Returns the names of the cases.
pub(super) fn names(cases: &[Case]) -> Vec<&'static str> {
    cases.iter().map(|case| case.name).collect()
}

/// Chapter on the public runner's contract, which follows those on multipath and on VReverso.
pub(super) const CONTRACT: &str = "
## The public interop runner's contract

`interop/run_endpoint.sh` and `interop/Dockerfile` make an endpoint of quic-interop-runner; behind them is `anabranch interop`.
`cargo xtask interop --netns` drives the same entry point as the public runner does, as root: client, router and server are network
namespaces with the runner's addresses and names, TESTCASE is what the runner says, links are 10 Mbit/s and 30 ms with queues of 25
packets unless the case says otherwise. Links are the relay of `anabranch-lab` in the router's namespace, at the address to which the
server's names lead, since netem is not to be had on every kernel; so the server sees the router as its client. ECN marks and the
preferred address would not survive the relay: `ecn` and `connectionmigration` are forwarded by the kernel, and `crosstraffic`, too,
through a token bucket that a TCP connection (CUBIC) shares. Besides what is said above, the qlog of both ends must show what makes
the case: the number of connections, Retry, a second flight without certificate, 0-RTT that arrives and little that follows it, both
versions, credit, stream limits, key phases, ECN counts, challenges and their answers.

The image itself needs a Docker engine to be built, which the machines that write this page do not have.
";

const HOW: &str = "
## How a case is judged

Files are compared byte for byte. Besides, the client must end with status 0 (127 means that it cannot do the case), the server
must end cleanly when it is told to, and what makes the case must have happened. Where it can be seen without keys, a UDP relay
between the two sees it: Retry and tokens, Version Negotiation, versions of Handshake packets, 0-RTT packets, bytes before an
address is validated, addresses the server sends to. Loss, damage, delay, blackouts and changing addresses are the relay's too;
they are the links of `anabranch-lab` in real time. What only an end can know is the client's report: resumption, acceptance of
0-RTT, key updates, ECN validation, echoed datagrams. Files come over `hq-interop`, in the case `http3` and wherever ngtcp2 or
curl takes part over HTTP/3.
";

/// Title of the last section before the chapters.
const HOW_TITLE: &str = "\n## How a case is judged\n";

#[cfg(test)]
mod tests {
    use super::super::case::all;
    use super::*;

    #[test]
    fn a_chapter_takes_the_place_of_an_older_one() {
        const TITLE: &str = "\n## Multipath\n";
        let document = format!("# Interop\n{CONTRACT}the rest\n");
        let once = with_chapter(&document, TITLE, "\n## Multipath\n\nold\n");
        assert_eq!(once, format!("# Interop\n\n## Multipath\n\nold\n{CONTRACT}the rest\n"));
        let twice = with_chapter(&once, TITLE, "\n## Multipath\n\nnew\n");
        assert_eq!(twice, once.replace("old", "new"));
    }

    #[test]
    fn a_matrix_has_a_row_for_each_case_and_a_reason_for_each_hole() {
        let cases = &all()[..3];
        let outcomes = vec![
            Outcome::Pass("1.0 s".into()),
            Outcome::Failed("client: no answer".into()),
            Outcome::Unsupported("server: no such suite".into()),
        ];
        let column = Column { client: "anabranch".into(), server: "quinn".into(), outcomes };
        let versions = vec![("quinn".into(), "0.11.12".into())];
        let record = Record { columns: vec![column], versions, later: Vec::new() };
        let skipped = vec![Outcome::Skipped("no root".into())];
        let alone = Column { client: "anabranch".into(), server: "anabranch".into(), outcomes: skipped };
        let contract = Done { cases: cases[..1].to_vec(), column: alone };
        let text = document(cases, &record, &contract, "\n## Multipath\n");
        for expected in [
            "| case      | anabranch → quinn |\n|-----------|-------------------|\n",
            "| handshake | pass              |\n",
            "| transfer  | FAIL              |\n",
            "| chacha20  | unsupported       |\n",
            "- anabranch → quinn, transfer: FAIL: client: no answer\n",
            "- anabranch → quinn, chacha20: unsupported: server: no such suite\n",
            "Peers: quinn 0.11.12.",
            "## Multipath\n",
            "- anabranch → anabranch, handshake: skipped: no root\n",
        ] {
            assert!(text.contains(expected), "{expected}\n{text}");
        }
        assert!(!text.contains("1.0 s"));
        assert_eq!(with_matrix(&text, cases, &record), text);
    }
}
