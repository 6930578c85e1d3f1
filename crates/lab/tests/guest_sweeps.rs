//! Sweeps over plans with guests that do not do their work. Each run of such a guest is a row with a reason.
//! All other runs are finished and written.
#![cfg(feature = "experiments")]
#![expect(clippy::unwrap_used, reason = "a test fails where it fails")]

use core::time::Duration;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use anabranch_guest::{Answer, Datagram, MAX_DATAGRAMS, Progress, VERSION, Welcome, write};
use anabranch_lab::guest::{Limits, MAX_PER_MS};
use anabranch_lab::pair::{CLIENT_PORT, client_ip, server_address};
use anabranch_lab::record::Row;
use anabranch_lab::run::RunOptions;
use anabranch_lab::sweep::{Progress as Sweep, SweepOptions, sweep};
use anabranch_lab::{plan, store};

const OWN: &str = env!("CARGO_BIN_EXE_anabranch-lab-guest");
/// Bytes that the plan downloads.
const BYTES: u64 = 200_000;

/// Number of runs that a sweep found in its journal when it began.
#[derive(Default)]
struct FoundDone(AtomicUsize);

impl Sweep for FoundDone {
    fn begin(&self, _runs: usize, done: usize) {
        self.0.store(done, Ordering::Relaxed);
    }
}

/// Writes a plan with these variants, each with the command of its client, and runs it twice. The second time
/// no run is left to do.
fn rows(folder: &Path, variants: &[(&str, &[&str])], limits: Limits) -> Vec<Row> {
    let variant = |(name, command): &(&str, &[&str])| {
        format!(
            "[[variant]]\nname = \"{name}\"\nset = {{ paths = [0], guest = {{ client = {command:?}, server = [{OWN:?}] }} }}\n"
        )
    };
    let head = format!(
        "name = \"guests\"\n[workload.download]\nbytes = {BYTES}\n[[points.inline]]\n\
         paths = [{{ rate_mbps = 20, owd_ms = 5, queue_packets = 50 }}]\n"
    );
    let file = folder.join("guests.toml");
    std::fs::write(&file, head + &variants.iter().map(variant).collect::<String>()).unwrap();
    let experiment = plan::read(&file).unwrap();
    let run = RunOptions { limits, ..RunOptions::default() };
    let options = SweepOptions { dir: folder.join("out"), run, ..SweepOptions::default() };
    let rows = sweep(&experiment, &options, &()).unwrap();
    assert_eq!(rows.len(), variants.len());
    assert_eq!(store::read(&options.dir).unwrap(), rows, "all rows are written");
    let again = FoundDone::default();
    assert_eq!(sweep(&experiment, &options, &again).unwrap(), rows);
    assert_eq!(again.0.into_inner(), variants.len(), "failed runs are not repeated");
    rows
}

fn has_worked(row: &Row) {
    assert_eq!((row.failure.as_str(), row.wire.as_str(), row.ack_frames), ("", "guest", None));
    assert!(row.transfer_time_s > row.handshake_s && row.bound_s.is_some(), "{row:?}");
}

#[test]
fn the_sweep_goes_on_where_guests_fail() {
    let folder = tempfile::tempdir().unwrap();
    let variants: [(&str, &[&str]); 4] = [
        ("dies", &["/bin/sh", "-c", "echo out of paper >&2; exit 7"]),
        ("chatters", &["/bin/sh", "-c", "yes"]),
        ("nowhere", &["no-such-guest"]),
        ("works", &[OWN]),
    ];
    let rows = rows(folder.path(), &variants, Limits::default());
    let experiment = plan::read(&folder.path().join("guests.toml")).unwrap();
    assert_eq!(experiment.missing(), [("nowhere", vec!["no-such-guest"])]);
    let failures: Vec<&str> = rows.iter().map(|row| row.failure.as_str()).collect();
    assert_eq!(failures[0], "guest `/bin/sh`: ended with exit status: 7: out of paper");
    assert!(failures[1].contains("not the guest protocol"), "{}", failures[1]);
    assert_eq!(failures[2], "guest `no-such-guest`: there is no such program");
    has_worked(&rows[3]);
}

/// State and datagrams of an answer.
type Said<'a> = (Progress, Vec<Datagram<'a>>);

/// Writes the messages of a guest, valid or not: its welcome, and its answers to the first steps. Returns a
/// script that prints these messages and then reads steps without answering.
fn script(folder: &Path, name: &str, answers: &[Said<'_>]) -> String {
    let mut said = Vec::new();
    let mut message = Vec::new();
    Welcome { version: VERSION, name: name.to_owned() }.encode(&mut message);
    write(&mut said, &message).unwrap();
    for (number, (progress, datagrams)) in (0..).zip(answers) {
        message.clear();
        Answer { number, progress: progress.clone(), datagrams: datagrams.clone() }.encode(&mut message);
        write(&mut said, &message).unwrap();
    }
    let file = folder.join(name);
    std::fs::write(&file, said).unwrap();
    format!("cat '{}'; cat >/dev/null; true", file.display())
}

#[test]
fn guests_that_lie_or_hang_fail_their_own_rows_alone() {
    let folder = tempfile::tempdir().unwrap();
    let own = SocketAddr::new(client_ip(0), CLIENT_PORT);
    let to = |local, remote| Datagram { local, remote, ecn: 0, payload: &[0] };
    let nowhere = to(own, SocketAddr::from(([203, 0, 113, 9], 443)));
    let at = |deadline| Progress { deadline: Some(deadline), ..Progress::default() };
    let done = Progress { delivered: BYTES - 1, connected: true, done: true, ..Progress::default() };
    let flood = vec![(at(0), vec![to(own, server_address()); MAX_DATAGRAMS]); MAX_PER_MS / MAX_DATAGRAMS + 1];
    let lies: [(&str, &[Said<'_>]); 5] = [
        ("hangs", &[]),
        ("nowhere", &[(Progress::default(), vec![nowhere])]),
        ("past", &[(at(5_000), Vec::new()), (at(4_999), Vec::new())]),
        ("short", &[(done, Vec::new())]),
        ("floods", &flood),
    ];
    let scripts = lies.map(|(name, answers)| (name, script(folder.path(), name, answers)));
    let commands = scripts.each_ref().map(|(name, script)| (*name, ["/bin/sh", "-c", script.as_str()]));
    let works: (&str, &[&str]) = ("works", &[OWN]);
    let liars = commands.iter().map(|(name, command)| (*name, &command[..]));
    let variants: Vec<(&str, &[&str])> = liars.chain([works]).collect();

    let rows = rows(folder.path(), &variants, Limits { step: Duration::from_secs(1) });
    let failures: Vec<&str> = rows[..lies.len()].iter().map(|row| row.failure.as_str()).collect();
    assert_eq!(
        failures,
        [
            "the client guest `/bin/sh`: gave no answer in time and was ended",
            "the client sent a datagram from 10.0.1.2:40000 to 203.0.113.9:443, which is none of its paths",
            "the client gave a deadline in the past: 4999 ns at 5000 ns",
            "the client is done with 199999 of 200000 bytes",
            "the client takes no rest: more than 524288 steps and datagrams in a millisecond",
        ]
    );
    has_worked(&rows[lies.len()]);
}
