//! `cargo xtask interop --reverso`: QUIC VReverso with its reference, both ways, over good links and bad ones.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anabranch_lab::link::LinkSpec;
use anabranch_wire::Version;

use super::case::{Case, Check, Expected, Work};
use super::field::Field;
use super::judge::Outcome;
use super::program::{OURS, Program};
use super::report::{self, Column};
use super::run::play as play_case;
use super::{Arguments, Known, outcome, pairs, play_all};

/// Peers that speak it.
const PEERS: &[&str] = &["quiceh"];

const VERSION: Version = Version(0x0079_1097);

const KB: usize = 1_000;
const MB: usize = 1_000_000;

/// The link of the transfers, fast enough that ten megabytes are through in seconds.
const RATE: u64 = 50_000_000;
const RTT: Duration = Duration::from_millis(20);
/// How many packets get lost, how many are overtaken by others, and by up to how much of time.
const LOSS: f64 = 0.01;
const REORDERED: f64 = 0.05;
const LATER: Duration = Duration::from_millis(8);

const SERVER: &[&str] = &["--wire", "reverso"];
const CLIENT: &[&str] = &["--case", "transfer", "--wire", "reverso"];
const UPLOAD: &[&str] = &["--case", "transfer", "--wire", "reverso", "--upload", "10000000"];

fn link() -> LinkSpec {
    LinkSpec::new(RATE, RTT)
}

fn all() -> Vec<Case> {
    let case = |name, about| Case::new(name, about).server(SERVER).client(CLIENT);
    let upload = |name, about| Case { work: Work::None, ..case(name, about).client(UPLOAD) };
    let down = &[(1, 10 * MB)];
    let cases = vec![
        case("handshake", "1 KB over one connection").files(&[(1, KB)]).watched(),
        case("download", "10 MB").files(down).link(link()),
        upload("upload", "10 MB").link(link()),
        case("download-loss", "10 MB, 1 % loss").files(down).link(link().loss(LOSS)),
        upload("upload-loss", "10 MB, 1 % loss").link(link().loss(LOSS)),
        case("download-reordering", "10 MB, 5 % up to 8 ms late")
            .files(down)
            .link(link().reorder(REORDERED, LATER)),
        upload("upload-reordering", "10 MB, 5 % up to 8 ms late").link(link().reorder(REORDERED, LATER)),
        case("download-both", "10 MB, 1 % loss and 5 % up to 8 ms late")
            .files(down)
            .link(link().loss(LOSS).reorder(REORDERED, LATER)),
        upload("upload-both", "10 MB, 1 % loss and 5 % up to 8 ms late")
            .link(link().loss(LOSS).reorder(REORDERED, LATER)),
        case("multiplexing", "400 streams of 32 bytes").files(&[(400, 32)]),
        Case {
            http3: true,
            ..case("http3", "5 KB, 10 KB, 500 KB and 5 MB over HTTP/3, all at once")
                .files(&[(1, 5 * KB), (1, 10 * KB), (1, 500 * KB), (1, 5 * MB)])
                .link(link())
        },
        Case {
            http3: true,
            ..case("http3-both", "the same with 1 % loss and 5 % up to 8 ms late")
                .files(&[(1, 5 * KB), (1, 10 * KB), (1, 500 * KB), (1, 5 * MB)])
                .link(link().loss(LOSS).reorder(REORDERED, LATER))
        },
    ];
    cases.into_iter().map(in_this_version).collect()
}

/// What makes all of them cases of VReverso.
fn in_this_version(case: Case) -> Case {
    let case = case.check(Check::Reported("version", Expected::Is("0x00791097")));
    // Who watches has to know where its packets end.
    let seen = case.link.is_some() && VERSION.format().is_some();
    if seen { case.check(Check::Version(VERSION)) } else { case }
}

/// What came of the cases that were chosen.
pub(super) struct Done {
    cases: Vec<Case>,
    columns: Vec<Column>,
}

/// Whom this project's command plays with.
pub(super) fn everybody(arguments: &Arguments) -> Vec<(String, String)> {
    let mut arguments = arguments.clone();
    if arguments.peer.is_empty() {
        arguments.peer = [OURS].iter().chain(PEERS).map(|name| (*name).to_owned()).collect();
    }
    pairs(&arguments)
}

/// Plays the cases that are asked for.
pub(super) fn run(
    arguments: &Arguments,
    pairs: &[(String, String)],
    programs: &[Known],
    field: &Field,
) -> Result<Done, String> {
    let mut cases = all();
    if let Some(unknown) = arguments.case.iter().find(|name| !cases.iter().any(|case| case.name == **name)) {
        return Err(format!(
            "there is no case {unknown} of VReverso; there are {}",
            report::names(&cases).join(", ")
        ));
    }
    cases.retain(|case| arguments.case.is_empty() || arguments.case.iter().any(|name| name == case.name));
    let columns = play_all(pairs, arguments.jobs.into(), |client, server| {
        let play = |case: &Case| {
            let outcome = outcome(client, server, programs, |from, to| match speechless(from, to) {
                Some(why) => Outcome::Skipped(why),
                None => play_case(case, from, to, field),
            });
            println!("{}", report::line(client, server, case.name, &outcome));
            outcome
        };
        cases.iter().map(play).collect()
    });
    Ok(Done { cases, columns })
}

/// Why these two cannot speak VReverso to each other.
fn speechless(client: &Program, server: &Program) -> Option<String> {
    let one = [client, server].into_iter().find(|one| !one.reverses())?;
    Some(format!("{} has no --wire reverso", one.name))
}

impl Done {
    pub(super) fn has_failed(&self) -> bool {
        self.columns.iter().any(Column::has_failed)
    }

    /// The matrix for the terminal.
    pub(super) fn matrix(&self) -> String {
        report::matrix(&report::names(&self.cases), &self.columns)
    }

    /// Puts the chapter into `docs/interop.md` in place of an older one.
    pub(super) fn write(&self, root: &Path) -> Result<(), String> {
        let file = root.join("docs/interop.md");
        let failed = |error| format!("docs/interop.md: {error}");
        let document = fs::read_to_string(&file).map_err(failed)?;
        fs::write(&file, report::with_chapter(&document, TITLE, &self.chapter())).map_err(failed)
    }

    /// The chapter of `docs/interop.md`.
    pub(super) fn chapter(&self) -> String {
        let mut text = format!("{HEAD}\n{}\nHoles:\n\n", self.matrix());
        text.push_str(&report::holes(&report::names(&self.cases), &self.columns));
        text.push('\n');
        for case in &self.cases {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "- `{}`: {}", case.name, case.about);
        }
        text
    }
}

const TITLE: &str = "
## VReverso
";

const HEAD: &str = "
## VReverso

Written by `cargo xtask interop --reverso`: QUIC version 0x00791097, which a client's first packet has already, with quiceh, the
reference. Links have 50 Mbit/s and 20 ms. Files are compared byte for byte; of uploads the server counts the bytes.
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_is_in_this_version_on_both_sides() {
        let cases = all();
        for case in &cases {
            assert!(case.server.ends_with(SERVER), "{}", case.name);
            assert!(case.client.windows(2).any(|words| words == SERVER), "{}", case.name);
            let says = |check: &Check| matches!(check, Check::Reported("version", _));
            assert!(case.checks.iter().any(says), "{}", case.name);
        }
        assert!(HEAD.starts_with(TITLE));
    }

    #[test]
    fn who_has_no_reverso_is_named() {
        let program = |name| Program::at(name, std::path::PathBuf::new(), &[]);
        let (has, lacks) = (program("quiceh"), program("quinn"));
        assert_eq!(speechless(&has, &has), None);
        assert_eq!(speechless(&has, &lacks), Some("quinn has no --wire reverso".to_owned()));
        assert_eq!(speechless(&lacks, &has), Some("quinn has no --wire reverso".to_owned()));
    }
}
