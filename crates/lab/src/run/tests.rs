use core::time::Duration;

use super::*;
use crate::design::{Change, PathDesign, Point, RateTrace};
use crate::experiment::{ALL_VARIANTS, End};
use crate::profile::{Variant, Wire};
use crate::transfer::Transfer;

pub(crate) fn path(rate_mbps: f64, owd_ms: f64, queue_packets: usize) -> PathDesign {
    PathDesign { rate_mbps, owd_ms, queue_packets, ..PathDesign::default() }
}

/// Creates an experiment with two points of two paths, four variants and the workload `workload`.
pub(crate) fn experiment(workload: Workload) -> Experiment {
    let variant = |name: &str, layers: &[&str]| Variant::of(name, layers).unwrap();
    Experiment {
        name: "test".into(),
        about: "What tests run".into(),
        workload,
        points: vec![
            Point { run: 4, paths: vec![path(20.0, 5.0, 30), path(10.0, 20.0, 40)] },
            Point { run: 9, paths: vec![path(10.0, 10.0, 20), path(30.0, 5.0, 20)] },
        ],
        variants: vec![
            variant("multiple-cubic", &["default", "multiple", "cubic"]),
            variant("single-cubic-ar5", &["default", "single", "cubic", "ar5"]),
            variant("path-0", &["default", "cubic", "path-0"]),
            variant("path-1", &["default", "cubic", "path-1"]),
        ],
        usual: ALL_VARIANTS,
        repetitions: 1,
        deadline: Duration::from_secs(60),
    }
}

pub(crate) fn download(bytes: u64) -> Experiment {
    experiment(Workload::Download { bytes, until: End::Closed })
}

fn job(variant: usize, point: usize) -> Job {
    Job { variant, point, repetition: 0 }
}

/// A run measures the same values as the benchmarks' [`Transfer`], which counts in another way.
#[test]
fn a_download_measures_what_a_transfer_does() {
    let experiment = download(2_000_000);
    for variant in [0, 1] {
        let finished = run(&experiment, job(variant, 0), &RunOptions::default());
        let of = &experiment.variants[variant];
        let transfer = Transfer {
            seed: experiment.seed(job(variant, 0)),
            links: experiment.points[0].links(),
            bytes: 2_000_000,
            client: of.client(),
            server: of.server(),
        };
        let expected = transfer.run(false).unwrap();
        let row = &finished.row;
        assert_eq!((row.failure.as_str(), row.variant.as_str(), row.point), ("", of.name.as_str(), 4));
        let times = [expected.closed.unwrap(), expected.finished, expected.connected];
        let found = [row.transfer_time_s, row.last_byte_s, row.handshake_s];
        assert_eq!(found, times.map(|time| Some(time.as_secs_f64())));
        assert!((row.retransmitted_percent.unwrap() - expected.retransmitted_percent).abs() < 1e-9);
        assert_eq!(row.ack_bytes, Some(expected.client.ack_bytes));
        assert_eq!(row.ack_frames, Some(expected.client.ack_frames));
        let mean = expected.client.ack_ranges as f64 / expected.client.ack_frames as f64;
        assert!((row.mean_ranges.unwrap() - mean).abs() < 1e-9);
        assert_eq!(row.ranges_histogram.iter().sum::<u64>(), expected.client.ack_frames);
        let paths: Vec<_> = expected.server.paths.values().collect();
        assert_eq!(row.path_bytes, paths.iter().map(|path| path.stream_bytes).collect::<Vec<_>>());
        assert_eq!(row.path_lost, paths.iter().map(|path| path.lost_packets).collect::<Vec<_>>());
        assert_eq!(row.path_overflows.iter().sum::<u64>(), expected.overflowed);
        assert!(row.path_max_queue[0] > 3 && row.path_max_queue[0] <= 30, "{:?}", row.path_max_queue);
        let most = row.max_times_sent.unwrap();
        assert_eq!(most > 1, row.retransmitted_percent.unwrap() > 0.0, "sent up to {most} times");
        assert!(row.blocked_s.unwrap() > 0.0 && row.blocked_s < row.transfer_time_s);
    }
}

/// The paths have delays of 10 and 40 ms. Decryption of a packet in place overwrites bytes beside the
/// packet's stream data. Most of these bytes have not arrived yet, so hardly any must be restored.
#[test]
fn hardly_anything_is_put_back_over_paths_of_different_delay() {
    let mut experiment = download(20_000_000).over_wire(Wire::Reverso);
    experiment.points[0].paths = vec![path(50.0, 10.0, 80), path(50.0, 40.0, 330)];
    for variant in [0, 1] {
        let row = run(&experiment, job(variant, 0), &RunOptions::default()).row;
        assert_eq!((row.failure.as_str(), row.wire.as_str(), row.path_bytes.len()), ("", "reverso", 2));
        assert!(row.path_bytes.iter().all(|bytes| *bytes > 4_000_000), "{:?}", row.path_bytes);
        let [placed, copied, restored] =
            [row.placed_bytes, row.copied_bytes, row.restored_bytes].map(Option::unwrap);
        assert!(placed + copied >= 20_000_000 && copied * 10 < placed, "{placed} placed, {copied} copied");
        assert!(
            restored > 0 && restored * 100 <= 3 * (placed + copied),
            "{placed} placed, {restored} restored"
        );
        let mut version_1 = experiment.clone().over_wire(Wire::V1);
        version_1.variants.truncate(variant + 1);
        let row = run(&version_1, job(variant, 0), &RunOptions::default()).row;
        assert_eq!((row.wire.as_str(), row.placed_bytes, row.restored_bytes), ("v1", Some(0), Some(0)));
        assert!(row.copied_bytes >= Some(20_000_000));
    }
}

#[test]
fn every_workload_runs_over_reverso() {
    let length = Duration::from_secs(2);
    let every = Duration::from_millis(100);
    for workload in [
        Workload::Download { bytes: 300_000, until: End::Closed },
        Workload::Requests { request: 750, answer: 20_000, every, count: 8 },
        Workload::Competition { others: 1, length, one_link: true },
    ] {
        let experiment = experiment(workload).over_wire(Wire::Reverso);
        for variant in 0..experiment.variants.len() {
            let row = run(&experiment, job(variant, 1), &RunOptions::default()).row;
            assert_eq!((row.failure.as_str(), row.wire.as_str()), ("", "reverso"));
            assert!(row.placed_bytes > row.copied_bytes, "{row:?}");
            assert_eq!(row, run(&experiment, job(variant, 1), &RunOptions::default()).row);
        }
    }
}

#[test]
fn a_timeline_adds_up_to_its_row() {
    let Finished { row, timeline, paths } = run(&download(2_000_000), job(1, 0), &RunOptions::default());
    assert_eq!(paths, [0, 1]);
    let bins = timeline.reordering.len();
    assert!((60..=120).contains(&bins), "{bins} bins");
    assert!(timeline.bin_s * bins as f64 >= row.last_byte_s.unwrap());
    let sum = |values: &[u64]| values.iter().sum::<u64>();
    for (path, (bytes, lost)) in timeline.paths.iter().zip(row.path_bytes.iter().zip(&row.path_lost)) {
        let lengths =
            [&path.sent, &path.repeated, &path.window, &path.rtt_us, &path.lost].map(|values| values.len());
        assert_eq!(path.idle.len(), bins);
        assert_eq!(lengths, [bins; 5]);
        assert_eq!((sum(&path.sent), sum(&path.lost)), (*bytes, *lost));
        assert!(path.window[bins - 1] > 0 && path.rtt_us[bins - 1] >= 10_000);
    }
    let reasons = |reason: &str| timeline.paths.iter().flat_map(|path| &path.idle).any(|one| one == reason);
    assert!(reasons("congestion_window") || reasons("pacing"));
    assert!(timeline.paths.iter().all(|path| path.idle[bins - 1] == "nothing_to_send"));
    let repeated: u64 = timeline.paths.iter().map(|path| sum(&path.repeated)).sum();
    assert!((repeated as f64 / 20_000.0 - row.retransmitted_percent.unwrap()).abs() < 1e-9);
    assert!(timeline.reordering.iter().any(|waiting| *waiting > 0));
    assert_eq!(timeline.reordering.last(), Some(&0));
}

#[test]
fn single_paths_use_the_link_they_are_named_for() {
    let experiment = experiment(Workload::Download { bytes: 1_000_000, until: End::LastByte });
    let finished = [2, 3].map(|variant| run(&experiment, job(variant, 0), &RunOptions::default()));
    let [fast, slow] = finished.map(|finished| {
        assert_eq!(
            (finished.row.path_bytes.len(), finished.row.transfer_time_s),
            (1, finished.row.last_byte_s)
        );
        (finished.paths, finished.row.transfer_time_s.unwrap())
    });
    assert_eq!((fast.0, slow.0), (vec![0], vec![1]));
    assert!((0.4..0.7).contains(&fast.1) && (0.8..1.2).contains(&slow.1), "{} s, {} s", fast.1, slow.1);
}

#[test]
fn a_run_that_stalls_says_where() {
    let mut experiment = download(2_000_000);
    let dead = Change { at: Duration::from_millis(200), loss_percent: Some(100.0), ..Change::default() };
    experiment.points[0].paths.iter_mut().for_each(|path| path.changes.push(dead));
    experiment.deadline = Duration::from_secs(5);
    let row = run(&experiment, job(0, 0), &RunOptions::default()).row;
    assert!(row.failure.starts_with("not done at the deadline of 5 s: "), "{}", row.failure);
    assert!(row.failure.ends_with(" of 2000000 bytes have come"), "{}", row.failure);
    assert_eq!((row.transfer_time_s, row.last_byte_s), (None, None));
    assert!(row.handshake_s.is_some() && row.ack_frames > Some(0), "what was counted is kept");
}

#[test]
fn a_panic_is_a_row_with_its_seed() {
    let options = RunOptions { hook: Some(|_| panic!("on purpose")), ..RunOptions::default() };
    let row = run(&download(1000), job(0, 1), &options).row;
    assert_eq!(row.failure, "panic with seed 2304: on purpose");
    assert_eq!((row.seed, row.point), (2304, 9));
}

#[test]
fn a_variant_without_a_path_fails_alone() {
    let mut experiment = download(1000);
    experiment.points[0].paths.truncate(1);
    let row = run(&experiment, job(3, 0), &RunOptions::default()).row;
    assert_eq!(row.failure, "the variant uses none of the point's 1 paths");
}

/// Handover experiment of 2017: the path that carries the requests fails after three seconds.
#[test]
fn requests_go_on_over_the_other_path() {
    let mut experiment = experiment(Workload::Requests {
        request: 750,
        answer: 750,
        every: Duration::from_millis(400),
        count: 15,
    });
    let dead = Change { at: Duration::from_secs(3), loss_percent: Some(100.0), ..Change::default() };
    experiment.points[0].paths = vec![path(10.0, 7.5, 12), path(10.0, 12.5, 20)];
    experiment.points[0].paths[0].changes.push(dead);
    let row = run(&experiment, job(0, 0), &RunOptions::default()).row;
    assert_eq!((row.failure.as_str(), row.request_delays_s.len()), ("", 15));
    let late: Vec<_> = row.request_delays_s.iter().filter(|delay| **delay > 0.045).collect();
    assert!(!late.is_empty() && late.len() <= 2, "{:?}", row.request_delays_s);
    assert!(row.request_delays_s[..5].iter().all(|delay| (0.015..0.030).contains(delay)));
    let alone = run(&experiment, job(2, 0), &RunOptions::default()).row;
    assert!(alone.failure.contains("is not answered") || !alone.failure.is_empty(), "{}", alone.failure);
    assert_eq!(alone.request_delays_s.len(), 7 + usize::from(alone.request_delays_s.len() > 7));
}

#[test]
fn competitors_share_the_first_link() {
    let length = Duration::from_secs(10);
    let mut experiment = experiment(Workload::Competition { others: 2, length, one_link: false });
    experiment.points[0].paths.truncate(1);
    let row = run(&experiment, job(0, 0), &RunOptions::default()).row;
    assert_eq!((row.failure.as_str(), row.flow_goodput_bps.len()), ("", 3));
    let sum: f64 = row.flow_goodput_bps.iter().sum();
    assert!((17e6..20e6).contains(&sum), "{:?} of 20 Mbit/s", row.flow_goodput_bps);
    assert!(row.flow_goodput_bps.iter().all(|goodput| *goodput > 2e6), "{:?}", row.flow_goodput_bps);
    assert_eq!(row, run(&experiment, job(0, 0), &RunOptions::default()).row);
}

#[test]
fn both_paths_may_lead_over_one_link() {
    let length = Duration::from_secs(5);
    let experiment = experiment(Workload::Competition { others: 1, length, one_link: true });
    let row = run(&experiment, job(0, 0), &RunOptions::default()).row;
    assert_eq!((row.failure.as_str(), row.path_bytes.len(), row.path_overflows.len()), ("", 2, 1));
    assert!(row.path_bytes.iter().all(|bytes| *bytes > 100_000), "{:?}", row.path_bytes);
    let sum: f64 = row.flow_goodput_bps.iter().sum();
    assert!((16e6..20e6).contains(&sum), "{:?} of 20 Mbit/s", row.flow_goodput_bps);
}

#[test]
fn traces_are_written_on_demand() {
    let dir = tempfile::tempdir().unwrap();
    let options = RunOptions { qlog: Some(dir.path().to_owned()), ..RunOptions::default() };
    let experiment = download(100_000);
    let traced = run(&experiment, job(0, 0), &options);
    assert_eq!(traced, run(&experiment, job(0, 0), &RunOptions::default()), "looking changes nothing");
    let trace =
        |end| std::fs::read_to_string(dir.path().join(format!("multiple-cubic-4-0.{end}.sqlog"))).unwrap();
    for end in ["client", "server"] {
        let text = trace(end);
        let group = text.split("\"group_id\":\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
        assert!(!group.is_empty() && trace("client").contains(group), "both belong together");
        assert!(text.contains("quic:packet_received") && text.ends_with("}\n"));
    }
}

/// An upload is limited by the rate to the server. Its row describes the sender and the receiver, although
/// the client is the sender.
#[test]
fn uploads_go_the_other_way() {
    let up = PathDesign { rate_mbps: 4.0, jitter_ms: 2.0, ..path(0.0, 10.0, 60) };
    let uneven = PathDesign { up: Some(Box::new(up)), ..path(40.0, 10.0, 60) };
    let with = |workload| {
        let mut experiment = download(1_000_000);
        experiment.workload = workload;
        experiment.points = vec![Point { run: 1, paths: vec![uneven.clone(), path(1.0, 1.0, 10)] }];
        // Only the first path is used.
        let variant = experiment.variants.iter().position(|variant| variant.name == "path-0").unwrap();
        let finished = run(&experiment, Job { variant, point: 0, repetition: 0 }, &RunOptions::default());
        assert_eq!(finished.row.failure, "");
        finished.row
    };
    let up = with(Workload::Upload { bytes: 1_000_000 });
    let down = with(Workload::Download { bytes: 1_000_000, until: End::LastByte });
    let [slow, fast] = [&up, &down].map(|row| row.transfer_time_s.unwrap());
    // At 4 Mbit/s 8 Mbit take two seconds.
    assert!((2.0..3.0).contains(&slow) && fast < 0.8, "{slow} {fast}");
    assert!(up.path_bytes[0] >= 1_000_000, "{:?}", up.path_bytes);
    assert!(up.ack_frames.unwrap() > 50 && up.path_max_queue[0] > 0);
    assert!(up.retransmitted_percent.is_some_and(|percent| percent < 20.0), "{:?}", up.retransmitted_percent);
}

/// The rate of a trace applies, and the trace repeats.
#[test]
fn a_trace_limits_a_download() {
    // One packet of 1500 bytes leaves every 2 ms, but none in a quarter of the time: 4.5 Mbit/s.
    let lines: String =
        (1..=200).filter(|ms| ms % 2 == 0 && !(51..100).contains(ms)).map(|ms| format!("{ms}\n")).collect();
    let trace = RateTrace::parse("t", &lines).unwrap();
    let rate_mbps = trace.mean_mbps();
    assert!((4.4..4.7).contains(&rate_mbps), "{rate_mbps}");
    let mut experiment = download(1_500_000);
    experiment.workload = Workload::Download { bytes: 1_500_000, until: End::LastByte };
    let traced = PathDesign { trace: Some(trace), ..path(rate_mbps, 10.0, 100) };
    experiment.points = vec![Point { run: 1, paths: vec![traced, path(1.0, 1.0, 10)] }];
    let variant = experiment.variants.iter().position(|variant| variant.name == "path-0").unwrap();
    let row = run(&experiment, Job { variant, point: 0, repetition: 0 }, &RunOptions::default()).row;
    let bound = 12.0 / rate_mbps;
    assert!(
        (bound..bound * 1.25).contains(&row.transfer_time_s.unwrap()),
        "{:?} {bound}",
        row.transfer_time_s
    );
}
