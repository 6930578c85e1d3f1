//! Checks of the guest and of its links.
#![expect(clippy::unwrap_used, reason = "a test fails where it fails")]

use core::time::Duration;
use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use anabranch_lab::Time;
use anabranch_lab::design::{PathDesign, Point};
use anabranch_lab::experiment::{self, End, Experiment, Workload};
use anabranch_lab::network::{Happening, HostId, Network};
use anabranch_lab::random::Seed;
use anabranch_lab::run::{Engine, RunOptions};
use anabranch_lab::sweep::{SweepOptions, sweep};
use anabranch_linux::build::Cache;
use anabranch_linux::host::{Host, MAX_WALL};
use anabranch_linux::train::{Car, HEADERS, train};
use anabranch_linux::{Control, Link, Linux, Order, Properties, Report, Way, Work};

/// Maximum virtual time that the guest spends for one datagram on reading its clock and on system calls.
const CLOCK: Duration = Duration::from_micros(25);

/// Maximum time in nanoseconds between the arrival of a datagram at a full queue and the moment at which a
/// place becomes free. Up to this time, the two count as simultaneous.
const TIE_NS: u64 = 5_000;
/// Number of datagrams of a train.
const PACKETS: u32 = 1000;

type Check = (&'static str, fn(&Host));

const CHECKS: [Check; 8] = [
    ("links_are_those_of_the_lab_packet_by_packet", links_are_those_of_the_lab_packet_by_packet),
    ("equal_orders_give_equal_reports", equal_orders_give_equal_reports),
    ("every_stack_moves_bytes", every_stack_moves_bytes),
    ("a_dead_path_is_left_by_multipath_tcp", a_dead_path_is_left_by_multipath_tcp),
    ("a_transfer_that_cannot_end_fails_at_its_deadline", a_transfer_that_cannot_end_fails_at_its_deadline),
    ("limited_buffers_limit_the_window", limited_buffers_limit_the_window),
    ("connections_compete_for_one_link", connections_compete_for_one_link),
    ("rows_are_equal_for_any_number_of_threads", rows_are_equal_for_any_number_of_threads),
];

/// Runs the checks whose names contain one of `wanted`, or all of them.
pub(super) fn all(wanted: &[OsString]) {
    let words: Vec<_> =
        wanted.iter().filter_map(|word| word.to_str()).filter(|word| !word.starts_with('-')).collect();
    let kernel = Cache::of_user().and_then(|cache| cache.kernel());
    for (name, check) in
        CHECKS.iter().filter(|(name, _)| words.is_empty() || words.iter().any(|word| name.contains(word)))
    {
        match &kernel {
            None => println!("skipped: {name}: there is no kernel (`anabranch lab linux build`)"),
            Some(kernel) => {
                let program = std::env::current_exe().unwrap();
                let before = vec![program.clone().into(), "enter".into()];
                let kernel = kernel.program.clone();
                check(&Host {
                    kernel,
                    program,
                    arguments: vec!["guest".to_owned()],
                    before,
                    limit: MAX_WALL,
                });
                println!("test {name} ... ok");
            }
        }
    }
}

fn way(rate_bps: u64, delay_ns: u64, queue_packets: u32, loss: f64) -> Way {
    Way { first: Properties { rate_bps, delay_ns, loss }, queue_packets, changes: Vec::new() }
}

fn order(stack: &str, ways: &[Way], work: Work) -> Order {
    Order {
        stack: stack.parse().unwrap(),
        paths: ways.iter().map(|way| Link { up: way.clone(), down: way.clone() }).collect(),
        work,
        deadline_ns: 600_000_000_000,
        seed: 7,
    }
}

fn succeeded(host: &Host, order: &Order) -> Report {
    let report = host.boot(order).unwrap();
    assert_eq!(report.failure, "", "{}", order.stack);
    report
}

/// Sends the same train over the guest's link and over the lab's. Checks that both lose the same datagrams,
/// and that the other datagrams arrive at the same time, up to [`CLOCK`]. If a datagram reaches a full queue
/// at the moment at which a place becomes free, its loss depends on the guest's clock. Such a datagram must
/// have the same result in the lab if it is sent [`TIE_NS`] earlier or later.
fn links_are_those_of_the_lab_packet_by_packet(host: &Host) {
    let (mut packets, mut dropped, mut ties, mut worst) = (0, 0, 0, Duration::ZERO);
    for (seed, rate_bps, delay_ns, queue) in [
        (1, 100_000, 0, 10),
        (2, 1_000_000, 12_345_000, 10),
        (3, 10_000_000, 7_500_000, 12),
        (4, 47_310_000, 100_000_000, 25),
        (5, 100_000_000, 25_000_000, 10),
        (6, 3_330_000, 200_000_000, 1),
    ] {
        let work = Work::Train { seed, packets: PACKETS };
        let report = succeeded(host, &order("tcp-cubic", &[way(rate_bps, delay_ns, queue, 0.0)], work));
        let design = PathDesign {
            rate_mbps: rate_bps as f64 / 1e6,
            owd_ms: delay_ns as f64 / 1e6,
            queue_packets: queue as usize,
            ..PathDesign::default()
        };
        let (mut sends, theirs): (Vec<u64>, Vec<Option<u64>>) = report.train.iter().copied().unzip();
        let cars = train(seed, PACKETS, rate_bps);
        let fate = |arrivals: &[Option<u64>]| {
            arrivals.iter().zip(&theirs).position(|(ours, theirs)| ours.is_some() != theirs.is_some())
        };
        let mut arrivals = in_the_lab(&design, &cars, &sends);
        while let Some(differs) = fate(&arrivals) {
            let sent = sends[differs];
            let tie = [sent - TIE_NS, sent + TIE_NS].into_iter().find(|moved| {
                sends[differs] = *moved;
                arrivals = in_the_lab(&design, &cars, &sends);
                fate(&arrivals).is_none_or(|next| next > differs)
            });
            assert!(
                tie.is_some(),
                "datagram {differs} of train {seed}, sent at {sent}: {:?}",
                theirs[differs]
            );
            ties += 1;
        }
        for (number, (ours, theirs)) in arrivals.iter().zip(&theirs).enumerate() {
            let Some((ours, theirs)) = ours.zip(*theirs) else {
                dropped += 1;
                continue;
            };
            let apart = Duration::from_nanos(ours.abs_diff(theirs));
            worst = worst.max(apart);
            assert!(apart < CLOCK, "datagram {number} of train {seed}: {ours} and {theirs}");
        }
        packets += PACKETS;
    }
    assert!(
        dropped > 100 && ties * 100 < packets,
        "{dropped} dropped, {ties} ties, {HEADERS} bytes of headers"
    );
    println!("{packets} datagrams, {dropped} dropped by both, {ties} ties, arrivals at most {worst:?} apart");
}

/// Sends a train over the lab's link. Returns the time at which each datagram arrived; `None` for lost ones.
fn in_the_lab(design: &PathDesign, cars: &[Car], sends: &[u64]) -> Vec<Option<u64>> {
    let mut network = Network::new(Seed(1));
    let hosts = [network.add_host(), network.add_host()];
    let ip = |last| IpAddr::from([10, 0, 0, last]);
    network.add_link((hosts[0], ip(1)), (hosts[1], ip(2)), &design.link());
    let tuple = (SocketAddr::new(ip(1), 1), SocketAddr::new(ip(2), 2));
    for (number, (car, sent)) in (0_u32..).zip(cars.iter().zip(sends)) {
        let mut payload = vec![0; car.payload];
        payload[..4].copy_from_slice(&number.to_be_bytes());
        network.send(Time::from_nanos(*sent), HostId(0), tuple, None, &payload);
    }
    let mut arrivals = vec![None; cars.len()];
    while let Some((at, what)) = network.next_event() {
        if let Happening::Arrival(_, packet) = what {
            let number = u32::from_be_bytes(packet.payload[..4].try_into().unwrap());
            arrivals[number as usize] = Some(at.as_nanos());
        }
    }
    arrivals
}

fn equal_orders_give_equal_reports(host: &Host) {
    let ways = [way(10_000_000, 20_000_000, 40, 0.01), way(4_000_000, 40_000_000, 30, 0.01)];
    let download = Work::Download { bytes: 2_000_000 };
    let orders = [order("mptcp", &ways, download), order("tcp-bbr-tls13", &ways[..1], download)];
    let first: Vec<Report> = orders.iter().map(|order| succeeded(host, order)).collect();
    // The orders run again in reverse order, and concurrently.
    let second: Vec<Report> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            orders.iter().rev().map(|order| scope.spawn(|| succeeded(host, order))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(first, second.into_iter().rev().collect::<Vec<_>>());
    let other = Order { seed: 8, ..orders[0].clone() };
    assert_ne!(first[0], succeeded(host, &other), "other losses");
}

fn every_stack_moves_bytes(host: &Host) {
    let ways = [way(10_000_000, 10_000_000, 20, 0.0), way(10_000_000, 15_000_000, 20, 0.0)];
    let mut times = Vec::new();
    for (name, paths) in [
        ("tcp-cubic", 1),
        ("tcp-reno", 1),
        ("tcp-bbr", 1),
        ("tcp-cubic-tls13", 1),
        ("tcp-cubic-tls12", 1),
        ("tcp-cubic-default-buffers", 1),
        ("mptcp", 2),
        ("mptcp-tls12", 2),
    ] {
        let report = succeeded(host, &order(name, &ways[..paths], Work::Download { bytes: 3_000_000 }));
        let sent: u64 = report.paths.iter().map(|path| path.sent_bytes).sum();
        assert!(report.paths.len() == paths && sent >= 3_000_000, "{name}: {:?}", report.paths);
        times.push((
            name,
            report.handshake_ns.unwrap() / 1_000_000,
            report.last_byte_ns.unwrap() / 1_000_000,
        ));
    }
    println!("{times:?}");
    // Handshakes take one round trip of 20 ms, and TLS one or two more.
    let handshakes: Vec<_> = times.iter().map(|(_, handshake, _)| handshake / 20).collect();
    assert_eq!(handshakes, [1, 1, 1, 2, 3, 1, 1, 3]);
    // 3 MB over 10 Mbit/s take 2.4 s, and over both links half of it.
    assert!(times[..6].iter().all(|(_, _, last)| (2400..3200).contains(last)), "{times:?}");
    assert!(times[6..].iter().all(|(_, _, last)| (1200..2000).contains(last)), "{times:?}");
    let upload = succeeded(host, &order("mptcp", &ways, Work::Upload { bytes: 3_000_000 }));
    assert!((1200..2000).contains(&(upload.last_byte_ns.unwrap() / 1_000_000)), "{upload:?}");
}

fn a_dead_path_is_left_by_multipath_tcp(host: &Host) {
    let mut first = way(10_000_000, 7_500_000, 12, 0.0);
    first.changes = vec![(3_000_000_000, Properties { loss: 1.0, ..first.first })];
    let ways = [first, way(10_000_000, 12_500_000, 20, 0.0)];
    let work = Work::Requests { request: 750, answer: 750, every_ns: 400_000_000, count: 20 };
    let report = succeeded(host, &order("mptcp", &ways, work));
    let late: Vec<_> = report.requests_ns.iter().filter(|(_, delay)| *delay > 50_000_000).collect();
    assert!(
        !late.is_empty() && late.iter().all(|(made, _)| *made > 2_900_000_000),
        "{:?}",
        report.requests_ns
    );
    println!("late: {late:?}");
    assert_eq!(report.requests_ns.len(), 20);
}

fn a_transfer_that_cannot_end_fails_at_its_deadline(host: &Host) {
    let mut dead = way(10_000_000, 10_000_000, 20, 0.0);
    dead.changes = vec![(100_000_000, Properties { loss: 1.0, ..dead.first })];
    let order = order("tcp-cubic", &[dead], Work::Download { bytes: 3_000_000 });
    let failure = host.boot(&order).unwrap().failure;
    assert!(
        failure.starts_with("not done at the deadline of 600 s: ")
            && failure.ends_with(" of 3000000 bytes have come"),
        "{failure}"
    );
}

/// With `-buffers-256k`, the peer's window is that of the lab's plans, both over TCP and over two subflows
/// together. No more than the window is in flight, so that a long path cannot be filled.
fn limited_buffers_limit_the_window(host: &Host) {
    let long = way(100_000_000, 100_000_000, 2000, 0.0);
    for (name, paths) in [("tcp-cubic-buffers-256k", 1), ("mptcp-buffers-256k", 2)] {
        let ways = vec![long.clone(); paths];
        let report = succeeded(host, &order(name, &ways, Work::Download { bytes: 10_000_000 }));
        let windows: Vec<u64> = report.paths.iter().map(|path| path.window).collect();
        println!("{name}: windows {windows:?}, {:?} s", report.last_byte_ns.map(|ns| ns as f64 / 1e9));
        assert!(windows.iter().all(|window| (240_000..290_000).contains(window)), "{name}: {windows:?}");
        // One window of at most 290 kB is transferred in each round trip of 200 ms, so 10 MB take at least 35
        // round trips. Slow start takes some more.
        let seconds = report.last_byte_ns.unwrap() as f64 / 1e9;
        assert!((6.5..10.5).contains(&seconds), "{name}: {seconds} s");
    }
}

/// Connections over one link share its rate. Three connections of TCP share it equally. Multipath TCP uses
/// both of its subflows on this link.
fn connections_compete_for_one_link(host: &Host) {
    let link = way(10_000_000, 20_000_000, 50, 0.0);
    let compete = |stack: &str, paths: usize, others: u32| {
        let length_ns = 60_000_000_000;
        let work = Work::Competition { others, control: Control::Reno, length_ns, one_link: true };
        let report = succeeded(host, &order(stack, &vec![link.clone(); paths], work));
        println!("{stack} beside {others}: {:?} bytes, paths {:?}", report.flows, report.paths);
        let sum = report.flows.iter().sum::<u64>() as f64 * 8.0 / 60.0;
        assert!((9.0e6..9.7e6).contains(&sum), "{stack}: {sum} bit/s, of 10 Mbit/s with headers");
        assert_eq!((report.flows.len(), report.overflows.len()), (others as usize + 1, 1));
        report
    };
    let equal = compete("tcp-reno", 1, 2).flows;
    assert!(equal.iter().all(|bytes| (18_000_000..30_000_000).contains(bytes)), "{equal:?}");
    let paths = compete("mptcp-reno", 2, 1).paths;
    assert!(paths.iter().all(|path| path.sent_bytes > 8_000_000), "{paths:?}");
    // Each path has a link of its own, and two other connections use the first link.
    let work =
        Work::Competition { others: 2, control: Control::Cubic, length_ns: 30_000_000_000, one_link: false };
    let report = succeeded(host, &order("mptcp-tls13", &[link.clone(), link], work));
    assert!(report.flows.len() == 3 && report.flows[0] > report.flows[1] + report.flows[2], "{report:?}");
    assert_eq!(report.overflows.len(), 2);
}

/// The rows of a sweep do not depend on the number of threads.
fn rows_are_equal_for_any_number_of_threads(host: &Host) {
    let path = |rate_mbps, owd_ms| PathDesign {
        rate_mbps,
        owd_ms,
        queue_packets: 30,
        loss_percent: 1.0,
        ..PathDesign::default()
    };
    let point = |run, rate| Point { run, paths: vec![path(rate, 10.0), path(8.0, 25.0)] };
    let names = ["linux-mptcp", "linux-tcp-bbr-path-1-tls13", "linux-tcp-cubic-path-0"];
    let experiment = Experiment {
        name: "threads".to_owned(),
        about: String::new(),
        workload: Workload::Download { bytes: 1_000_000, until: End::LastByte },
        points: vec![point(3, 10.0), point(5, 20.0)],
        variants: names.iter().map(|name| experiment::variant(name).unwrap()).collect(),
        usual: experiment::ALL_VARIANTS,
        repetitions: 2,
        deadline: Duration::from_secs(600),
    };
    let engine: Arc<dyn Engine> = Arc::new(Linux::new(host.clone(), "6.12"));
    let swept = |threads| {
        let dir = tempfile::tempdir().unwrap();
        let run = RunOptions { engines: vec![Arc::clone(&engine)], ..RunOptions::default() };
        let options = SweepOptions { dir: dir.path().to_owned(), run, threads, ..SweepOptions::default() };
        sweep(&experiment, &options, &()).unwrap()
    };
    engine.check().unwrap();
    let rows = swept(1);
    assert_eq!(rows.len(), 12);
    assert!(rows.iter().all(|row| row.failure.is_empty() && row.transfer_time_s.is_some()), "{rows:?}");
    assert_eq!(swept(2), rows);
}
