//! `cargo xtask interop --reverso`: QUIC VReverso with its reference implementation, in both roles, over good
//! and bad links.

use std::time::Duration;

use anabranch_lab::link::LinkSpec;
use anabranch_wire::Version;

use super::case::{Case, Check, Expected, KB, MB, Work};
use super::chapter::Subject;
use super::field::Field;
use super::judge::Outcome;
use super::program::Program;
use super::run;

/// Link of the transfers, fast enough for ten megabytes within seconds.
const RATE: u64 = 50_000_000;
const RTT: Duration = Duration::from_millis(20);
/// Share of packets that are lost, share of packets that are reordered, and the maximum delay of the latter.
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
    let mut cases: Vec<Case> = reversed().into_iter().map(in_this_version).collect();
    cases.extend(in_version_1());
    cases
}

fn reversed() -> Vec<Case> {
    let case = |name, about| Case::new(name, about).server(SERVER).client(CLIENT);
    let upload = |name, about| Case { work: Work::None, ..case(name, about).client(UPLOAD) };
    let down = &[(1, 10 * MB)];
    vec![
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
    ]
}

/// Returns the cases on the worst links in version 1, which the reference also supports.
fn in_version_1() -> [Case; 2] {
    let link = link().loss(LOSS).reorder(REORDERED, LATER);
    let case = |name, about| Case::new(name, about).link(link.clone()).check(Check::Version(Version::V1));
    [
        case("v1-download-both", "download-both in version 1")
            .client(&["--case", "transfer"])
            .files(&[(1, 10 * MB)]),
        Case {
            work: Work::None,
            ..case("v1-upload-both", "upload-both in version 1")
                .client(&["--case", "transfer", "--upload", "10000000"])
        },
    ]
}

/// Adds the checks that the version is VReverso.
fn in_this_version(case: Case) -> Case {
    let case = case.check(Check::Reported("version", Expected::Is("0x00791097")));
    // Without a link there is no observer.
    if case.link.is_some() { case.check(Check::Version(Version::REVERSO)) } else { case }
}

/// Chapter on VReverso.
pub(super) const SUBJECT: Subject<Case> =
    Subject { name: "VReverso", preface: PREFACE, peers: &["quiceh"], cases: all, play };

fn play(case: &Case, client: &Program, server: &Program, field: &Field) -> Outcome {
    match speechless(client, server) {
        Some(why) => Outcome::Skipped(why),
        None => run::play(case, client, server, field),
    }
}

/// Returns the reason why these two programs cannot use VReverso, if there is one.
fn speechless(client: &Program, server: &Program) -> Option<String> {
    let one = [client, server].into_iter().find(|one| !one.reverses())?;
    Some(format!("{} has no --wire reverso", one.name))
}

const PREFACE: &str = "\
Written by `cargo xtask interop --reverso`: QUIC version 0x00791097, which a client's first packet has already, with quiceh, the
reference. Links have 50 Mbit/s and 20 ms. Files are compared byte for byte; of uploads the server counts the bytes.
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_is_in_this_version_on_both_sides() {
        for case in reversed().into_iter().map(in_this_version) {
            assert!(case.server.ends_with(SERVER), "{}", case.name);
            assert!(case.client.windows(2).any(|words| words == SERVER), "{}", case.name);
            let says = |check: &Check| matches!(check, Check::Reported("version", _));
            assert!(case.checks.iter().any(says), "{}", case.name);
        }
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
