//! Hosts that run another program. The library's own stack behaves the same through the protocol as within
//! the process. A guest that violates the protocol ends its run with a reason.
#![expect(clippy::unwrap_used, reason = "a test fails where it fails")]

use std::net::SocketAddr;

use anabranch_guest::{Answer, Datagram, MAX_DATAGRAMS, Progress, Step, Workload};
use anabranch_lab::app::{Dial, DownloadClient, DownloadServer, PathOpener};
use anabranch_lab::design::MAX_PATHS;
use anabranch_lab::guest::{Guest, GuestPair, Limits, MAX_PER_MS, Programs};
use anabranch_lab::link::LinkSpec;
use anabranch_lab::pair::{Pair, PairConfig, client_ip, server_address};
use anabranch_lab::random::Seed;
use anabranch_lab::sim::{Outcome, Simulation};
use anabranch_lab::transfer::further_tuple;
use anabranch_transport::{MultipathConfig, Numbering, TransportConfig};
use anabranch_wire::Time;

const OWN: &str = env!("CARGO_BIN_EXE_anabranch-lab-guest");
const DEADLINE: Time = Time::from_millis(60_000);

/// Observable course of a run: packets, bytes on each link, the last byte, the end.
#[derive(Debug, PartialEq)]
struct Course {
    packets: u64,
    links: Vec<String>,
    finished: Option<Time>,
    ended: Time,
}

fn links(specs: &[&str]) -> Vec<LinkSpec> {
    specs.iter().map(|spec| spec.parse().unwrap()).collect()
}

fn in_process(seed: u64, specs: &[&str], bytes: u64, numbering: Numbering) -> Course {
    let multipath = MultipathConfig::default().with_max_paths(MAX_PATHS as u32).with_numbering(numbering);
    let transport = TransportConfig::default().with_multipath(multipath);
    let config =
        PairConfig { client: transport.clone(), server: transport, ..PairConfig::new(seed, links(specs)) };
    let others = PathOpener::new((1..specs.len()).map(|link| further_tuple(link as u8)));
    let client =
        |_: &_, config, tuple| DownloadClient::new(Dial::new(config, tuple).with_paths(others), &[bytes]);
    let mut pair = Pair::new(&config, client, DownloadServer::default(), |_| ()).unwrap();
    let host = pair.client;
    pair.sim.run(DEADLINE, |_| false);
    Course {
        finished: pair.sim.application::<DownloadClient>(host).finished,
        ended: pair.sim.now(),
        packets: pair.sim.network().trace().packets_hash(),
        links: pair.links.iter().map(|link| format!("{:?}", pair.sim.network().counters(*link))).collect(),
    }
}

fn as_guests(seed: u64, specs: &[&str], bytes: u64, numbering: Numbering) -> Course {
    let programs = Programs::both(&[OWN, "--numbering", numbering.name()]);
    let workload = Workload::Download { bytes };
    let mut pair = GuestPair::new(seed, links(specs), workload, &programs, Limits::default()).unwrap();
    pair.sim.run(DEADLINE, |_| false);
    assert_eq!(pair.failure(), None);
    Course {
        finished: pair.sim.guest(pair.client).done(),
        ended: pair.sim.now(),
        packets: pair.sim.network().trace().packets_hash(),
        links: pair.links.iter().map(|link| format!("{:?}", pair.sim.network().counters(*link))).collect(),
    }
}

#[test]
fn the_library_through_the_protocol_is_the_library_in_process() {
    let cases: [(u64, &[&str], u64); 4] = [
        (1, &["20mbit/30ms"], 300_000),
        (2, &["20mbit/10ms/1%", "8mbit/35ms"], 2_000_000),
        (3, &["5mbit/40ms", "60mbit/15ms/0.5%"], 5_000_000),
        (4, &["10mbit/5ms", "10mbit/25ms", "30mbit/60ms"], 1_000_000),
    ];
    for numbering in [Numbering::Multiple, Numbering::Single] {
        for (seed, specs, bytes) in cases {
            let own = in_process(seed, specs, bytes, numbering);
            assert!(own.finished.is_some(), "{own:?}");
            assert_eq!(own, as_guests(seed, specs, bytes, numbering), "seed {seed}, {numbering}");
        }
    }
    let other = in_process(9, cases[1].1, cases[1].2, Numbering::Multiple);
    assert_ne!(other, in_process(2, cases[1].1, cases[1].2, Numbering::Multiple), "losses tell them apart");
}

/// A guest that answers every step in the same way.
struct Liar {
    progress: fn(&Step<'_>) -> Progress,
    sends: Vec<(SocketAddr, SocketAddr)>,
}

impl Guest for Liar {
    fn step(&mut self, step: &Step<'_>) -> Result<Answer<'_>, String> {
        let datagram = |&(local, remote)| Datagram { local, remote, ecn: 0, payload: &[0; 100] };
        let datagrams = self.sends.iter().map(datagram).collect();
        Ok(Answer { number: step.number, progress: (self.progress)(step), datagrams })
    }
}

/// Runs a liar and a host that sends nothing. Returns the end of the run and the liar's failure.
fn lies(progress: fn(&Step<'_>) -> Progress, sends: &[(SocketAddr, SocketAddr)]) -> (Outcome, String) {
    let mut sim = Simulation::new(Seed(1));
    let own = (SocketAddr::new(client_ip(0), 40_000), server_address());
    let liar = sim.add_guest(Box::new(Liar { progress, sends: sends.to_vec() }), vec![own]);
    let silent = Liar { progress: |_| Progress::default(), sends: Vec::new() };
    let other = sim.add_guest(Box::new(silent), vec![(own.1, own.0)]);
    sim.add_link((liar, own.0.ip()), (other, own.1.ip()), &"10mbit/10ms".parse().unwrap());
    let outcome = sim.run(DEADLINE, |sim| sim.guest(liar).failure().is_some());
    (outcome, sim.guest(liar).failure().unwrap_or_default().to_owned())
}

#[test]
fn a_guest_that_lies_is_told_apart_by_its_lie() {
    let here = SocketAddr::new(client_ip(0), 40_000);
    let nowhere = SocketAddr::from(([203, 0, 113, 9], 443));
    let (outcome, failure) = lies(|_| Progress::default(), &[(here, nowhere)]);
    assert_eq!(outcome, Outcome::Done);
    assert_eq!(failure, "sent a datagram from 10.0.1.2:40000 to 203.0.113.9:443, which is none of its paths");
    let forged = SocketAddr::from(([10, 0, 9, 9], 40_000));
    assert!(lies(|_| Progress::default(), &[(forged, server_address())]).1.contains("none of its paths"));

    let past = |step: &Step<'_>| Progress {
        deadline: Some(if step.now > 0 { 1 } else { 5_000 }),
        ..Progress::default()
    };
    assert_eq!(lies(past, &[]).1, "gave a deadline in the past: 1 ns at 5000 ns");

    let shrinks = |step: &Step<'_>| Progress {
        deadline: Some(step.now + 1_000),
        delivered: 100 - step.number,
        ..Progress::default()
    };
    assert_eq!(lies(shrinks, &[]).1, "has received 99 bytes after 100");
    let gives_up = |_: &Step<'_>| Progress::failed("no route\nsecond line");
    assert_eq!(lies(gives_up, &[]).1, "gave up: no route");
}

#[test]
fn a_guest_that_never_rests_does_not_stop_time_for_ever() {
    let now = |step: &Step<'_>| Progress { deadline: Some(step.now), ..Progress::default() };
    assert!(matches!(lies(now, &[]).0, Outcome::Spinning(_)));
}

/// A guest fails if it lets time pass so slowly that the run would take days. It also fails if it lets no
/// time pass and sends as much as it can in each step.
#[test]
fn a_guest_that_takes_no_rest_fails() {
    let failure = format!("takes no rest: more than {MAX_PER_MS} steps and datagrams in a millisecond");
    let next = |step: &Step<'_>| Progress { deadline: Some(step.now + 1), ..Progress::default() };
    assert_eq!(lies(next, &[]), (Outcome::Done, failure.clone()));
    let now = |step: &Step<'_>| Progress { deadline: Some(step.now), ..Progress::default() };
    let own = (SocketAddr::new(client_ip(0), 40_000), server_address());
    assert_eq!(lies(now, &[own; MAX_DATAGRAMS]), (Outcome::Done, failure));
    // A guest that waits for 2 ms after each burst is accepted.
    let later = |step: &Step<'_>| match step.number {
        0..200 => Progress { deadline: Some(step.now + 2_000_000), ..Progress::default() },
        _ => Progress::failed("enough"),
    };
    assert_eq!(lies(later, &[own; MAX_DATAGRAMS]).1, "gave up: enough");
}

#[test]
fn the_example_in_c_finishes_a_download_over_a_lossy_link() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("guest-example");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../guest/c/example.c");
    let strict = ["-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", "-pedantic", "-o"];
    let built = std::process::Command::new("cc").args(strict).arg(&program).arg(source).status();
    match built {
        Ok(status) => assert!(status.success(), "the C compiler is content"),
        Err(error) => return println!("skipped: cc: {error}"),
    }
    let programs = Programs::both(&[program.to_str().unwrap()]);
    let bytes = 300_000;
    let links = links(&["10mbit/20ms/3%"]);
    let mut pair =
        GuestPair::new(1, links, Workload::Download { bytes }, &programs, Limits::default()).unwrap();
    let [client, server] = [pair.client, pair.server];
    assert_eq!(pair.sim.run(DEADLINE, |sim| sim.guest(client).done().is_some()), Outcome::Done);
    assert_eq!(pair.sim.guest(client).progress().delivered, bytes);
    assert!(pair.sim.guest(server).progress().repeated > Some(0), "packets were lost");
}
