//! Downloads over several paths are reproducible, use all links, and are faster than over one path.
#![expect(clippy::unwrap_used, reason = "a test fails where it fails")]

use std::path::Path;

use anabranch_lab::design::{self, PathDesign, Point};
use anabranch_lab::fluid::{self, Return};
use anabranch_lab::transfer::{Measured, Transfer};
use anabranch_transport::{MultipathConfig, TransportConfig};
use anabranch_wire::PathId;

const BYTES: u64 = 3_000_000;

fn point(paths: &[(f64, f64, usize)]) -> Point {
    let path = |&(rate_mbps, owd_ms, queue_packets): &_| PathDesign {
        rate_mbps,
        owd_ms,
        queue_packets,
        ..PathDesign::default()
    };
    Point { run: 1, paths: paths.iter().map(path).collect() }
}

fn run(point: &Point) -> Measured {
    let transport = TransportConfig::default().with_multipath(MultipathConfig::default());
    let transfer = Transfer {
        seed: 1,
        links: point.links(),
        bytes: BYTES,
        client: transport.clone(),
        server: transport,
    };
    transfer.run(false).unwrap()
}

#[test]
fn three_paths_carry_more_than_the_best_of_them() {
    let paths = [(10.0, 10.0, 50), (20.0, 25.0, 200), (15.0, 5.0, 40)];
    let together = run(&point(&paths));
    assert_eq!(together.opened.len(), 2);
    assert_eq!(together.server.paths.len(), 3);
    for (id, path) in &together.server.paths {
        assert!(path.stream_bytes > BYTES / 10, "{id:?} carried {} bytes", path.stream_bytes);
    }
    let best = run(&point(&[(20.0, 25.0, 200)]));
    assert!(best.opened.is_empty());
    assert!(together.finished.as_secs_f64() < best.finished.as_secs_f64() * 0.75, "{:?}", together.finished);
    // No link can carry more than its rate. A download can beat the fluid bound only because its packets
    // carry more payload: 1472 of 1500 bytes instead of 1400, both before QUIC packet headers are subtracted.
    for (design, [_, back]) in paths.iter().zip(&together.links) {
        let wire = back.delivered_bytes + 28 * back.delivered;
        assert!(wire as f64 * 8.0 <= design.0 * 1e6 * together.finished.as_secs_f64());
    }
    assert!(
        together.finished.as_secs_f64()
            > fluid::bound(&point(&paths).fluid(), BYTES as f64, Return::Same) * 0.95
    );
}

#[test]
fn equal_seeds_give_equal_runs() {
    let design = point(&[(12.0, 8.0, 40), (30.0, 30.0, 300)]);
    let [first, second] = [run(&design), run(&design)];
    assert_eq!((first.trace, first.closed, first.finished), (second.trace, second.closed, second.finished));
    assert_eq!(first.links, second.links);
    let other = Transfer {
        seed: 2,
        links: design.links(),
        bytes: BYTES,
        client: TransportConfig::default(),
        server: TransportConfig::default(),
    };
    // If either end disables multipath, no further path is opened, which is an error here.
    assert!(other.run(false).unwrap_err().contains("not negotiated"));
}

#[test]
fn counts_agree_with_the_network() {
    // The queue is far too short. Packets that overflow it are sent again, and every STREAM byte is counted.
    let measured = run(&point(&[(10.0, 10.0, 5), (10.0, 15.0, 5)]));
    assert!(measured.overflowed > 0);
    assert!(measured.retransmitted_percent > 0.0);
    let lost: u64 = measured.server.paths.values().map(|path| path.lost_packets).sum();
    assert!(lost >= measured.overflowed, "{lost} declared lost, {} were", measured.overflowed);
    let by_path: u64 = measured.server.paths.values().map(|path| path.stream_bytes).sum();
    assert_eq!(by_path, measured.server.stream_bytes);
    let entered: u64 = measured.links.iter().map(|[_, back]| back.entered_bytes).sum();
    assert!(
        (by_path..by_path * 11 / 10).contains(&entered),
        "{entered} on the links, {by_path} of the stream"
    );
    assert!(measured.client.ack_bytes > 0 && measured.client.paths.contains_key(&PathId(1)));
}

#[test]
fn the_published_designs_can_be_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    if !folder.is_dir() {
        assert!(std::env::var_os("STRICT").is_none(), "STRICT: nothing may be skipped");
        eprintln!("skipped: {} is not here", folder.display());
        return;
    }
    for (file, paths) in [("heterogeneous_2path", 2), ("heterogeneous_3path", 3), ("homogeneous_2path", 2)] {
        let points = design::read(&folder.join(format!("ccr22_{file}.csv"))).unwrap();
        assert_eq!(points.len(), 95);
        assert!(points.iter().all(|point| point.paths.len() == paths));
        assert!(points.iter().all(|point| fluid::bound(&point.fluid(), 50e6, Return::Same).is_finite()));
    }
}
