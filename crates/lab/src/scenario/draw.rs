//! Drawing a scenario. Extremes are likely: small windows, tiny queues, long and fast links, heavy loss or
//! none.

use core::time::Duration;

use anabranch_transport::recovery::{Algorithm, Config, MtuConfig};
use anabranch_transport::stream::StreamsConfig;
use anabranch_transport::{AckConfig, RetryPolicy, TransportConfig};
use anabranch_wire::{Dir, Time, Version};

use super::{Disturbance, Scenario};
use crate::app::exchange::{ConnectionPlan, Request, StreamPlan};
use crate::link::{Blackout, BurstLoss, Limit, LinkSpec, Queue, Rate};
use crate::random::{Rng, Seed};

/// Maximum number of bytes that all streams of one connection carry together.
const MAX_BYTES: u64 = 1_000_000;
/// Idle timeout. It is long enough for many consecutive PTOs, so that only a fault ends a connection.
const IDLE_TIMEOUT: Duration = Duration::from_secs(600);
/// Duration of each periodic outage of a link, and the mean time from one outage to the next.
const OUTAGE: Duration = Duration::from_millis(100);
const OUTAGE_PERIOD: Duration = Duration::from_micros(503_017);
/// Number of outages after which their gaps repeat.
const OUTAGES: u32 = 37;

/// Returns outages whose gaps differ. A fixed gap may by chance equal a PTO. Every later PTO, each twice as
/// long, is then a multiple of the gap, and all probes of an end fall into outages until the idle timeout.
fn outages() -> Blackout {
    let windows = (0..OUTAGES).map(|n| {
        let from =
            Time::ZERO + OUTAGE_PERIOD * n + Duration::from_millis(u64::from((300 + n * n * 79) % 397));
        from..from + OUTAGE
    });
    Blackout::new(windows).every(OUTAGE_PERIOD * OUTAGES)
}

impl Scenario {
    /// Creates the scenario that follows from `seed`.
    pub fn random(seed: u64) -> Self {
        let mut rng = Seed(seed).rng("scenario");
        let rng = &mut rng;
        let blackouts = match rng.below(5) {
            0 => (0..rng.between(1, 3)).map(|_| window(rng)).collect(),
            _ => Vec::new(),
        };
        let links = [(); 2].map(|()| blackouts.iter().cloned().fold(link(rng), LinkSpec::blackout));
        let connections = rng.between(1, 3);
        let clean = rng.chance(0.2);
        let disturbances = if clean { Vec::new() } else { disturbances(rng) };
        let mut client = transport(rng);
        if disturbances.iter().any(|(_, what)| what.is_rebinding()) {
            // A server's packets to an old mapping are lost until the client sends a packet. A client that
            // only reads may send nothing for a long time.
            let usual = client.keep_alive();
            client = client.with_keep_alive(usual.unwrap_or(Duration::from_secs(10)));
        }
        Self {
            seed,
            links: if clean {
                links.map(|_| LinkSpec::new(10_000_000, Duration::from_millis(20)))
            } else {
                links
            },
            client,
            server: transport(rng),
            cid_len: [rng.pick(&[0, 4, 8, 20]), rng.pick(&[4, 8, 18])],
            initial_version: rng.pick(&[Version::V1, Version::V1, Version::V2]),
            retry: rng.pick(&[RetryPolicy::Never, RetryPolicy::UnderLoad, RetryPolicy::Always]),
            plans: (0..connections).map(|_| connection(rng)).collect(),
            disturbances,
            blackouts,
        }
    }
}

/// Draws a number that is uniformly distributed on a logarithmic scale.
fn logarithmic(rng: &mut Rng, low: f64, high: f64) -> f64 {
    low * (high / low).powf(rng.unit())
}

fn window(rng: &mut Rng) -> core::ops::Range<Time> {
    let from = Time::from_millis(rng.between(0, 5_000));
    from..from + Duration::from_millis(rng.between(1, 2_000))
}

fn link(rng: &mut Rng) -> LinkSpec {
    let rtt = Duration::from_secs_f64(logarithmic(rng, 1e-4, 0.6));
    let mut spec = match rng.below(8) {
        0 => LinkSpec::unlimited(rtt),
        n => {
            let rate = logarithmic(rng, 3e5, 1e9) as u64;
            let mut queue = Queue::new(Rate::constant(rate), Limit::Packets(rng.between(5, 500) as usize));
            if n < 4 {
                queue = queue.mark_above(Limit::Packets(rng.between(0, 50) as usize));
            }
            LinkSpec::new(rate, rtt).both(queue)
        }
    };
    spec = match rng.below(6) {
        0 | 1 => spec,
        2 => spec.both(BurstLoss::new(rng.unit() * 0.02, 0.5 + rng.unit() * 0.5, 0.0, 1.0)),
        3 => spec.loss(rng.unit() * 0.12),
        _ => spec.loss(rng.unit() * 0.03),
    };
    if rng.chance(0.3) {
        spec = spec.reorder(rng.unit() * 0.3, rtt);
    }
    if rng.chance(0.3) {
        spec = spec.duplicate(rng.unit() * 0.1);
    }
    if rng.chance(0.3) {
        spec = spec.corrupt(rng.unit() * 0.05);
    }
    if rng.chance(0.5) {
        spec = spec.mtu(rng.pick(&[1200, 1201, 1252, 1350, 1452, 1472]));
    }
    if rng.chance(0.05) {
        // Periodic outages in one direction, for the whole run.
        spec = spec.back(outages());
    }
    spec
}

fn transport(rng: &mut Rng) -> TransportConfig {
    let streams = if rng.chance(0.5) { streams(rng) } else { StreamsConfig::default() };
    let recovery = Config::default()
        .with_congestion(rng.pick(&[Algorithm::Cubic, Algorithm::NewReno, Algorithm::Bbr]))
        .with_pacing(rng.chance(0.8))
        .with_ecn(rng.chance(0.7))
        .with_mtu(MtuConfig::default().with_discovery(rng.chance(0.7)));
    let ack = AckConfig::default()
        .with_threshold(rng.pick(&[1, 2, 2, 10]))
        .with_max_delay(Duration::from_millis(rng.pick(&[1, 25, 25, 100])))
        .with_max_ranges(rng.pick(&[4, 32, 64]))
        .with_frequency(rng.chance(0.5));
    TransportConfig::default()
        .with_streams(streams)
        .with_recovery(recovery)
        .with_ack(ack)
        .with_max_idle_timeout(IDLE_TIMEOUT)
        .with_handshake_timeout(IDLE_TIMEOUT)
        .with_keep_alive(rng.chance(0.2).then(|| Duration::from_secs(rng.between(1, 20))))
        .with_active_connection_id_limit(rng.between(2, 8))
        .with_versions(match rng.below(3) {
            0 => [Version::V2, Version::V1],
            _ => [Version::V1, Version::V2],
        })
        .with_grease(rng.chance(0.7))
        .with_key_update_after(rng.chance(0.2).then(|| rng.between(50, 500)))
}

fn streams(rng: &mut Rng) -> StreamsConfig {
    let config = StreamsConfig::default()
        .with_max_bidi(rng.pick(&[1, 2, 10, 100]))
        .with_max_uni(rng.pick(&[1, 3, 100]));
    let window = rng.between(1_000, 100_000);
    let config = config.with_stream_window(window).with_stream_window_max(window * rng.between(1, 8));
    let window = rng.between(1_000, 200_000);
    config
        .with_connection_window(window)
        .with_connection_window_max(window * rng.between(1, 8))
        .with_send_buffer(rng.between(1_000, 200_000))
}

fn connection(rng: &mut Rng) -> ConnectionPlan {
    let (count, bytes) = match rng.below(8) {
        0 => (rng.between(50, 400), 500),
        1 => (1, MAX_BYTES),
        2 => (0, 0),
        _ => (rng.between(1, 20), MAX_BYTES / 40),
    };
    ConnectionPlan {
        streams: (0..count).map(|index| stream(rng, index, bytes)).collect(),
        datagrams: match rng.below(3) {
            0 => (0..rng.between(1, 50)).map(|_| rng.between(8, 1_100) as usize).collect(),
            _ => Vec::new(),
        },
        key_update_every: rng.pick(&[0, 0, 1, 5]),
    }
}

fn stream(rng: &mut Rng, index: u64, bytes: u64) -> StreamPlan {
    let dir = rng.pick(&[Dir::Bi, Dir::Bi, Dir::Bi, Dir::Uni]);
    let request = Request {
        key: rng.bits() << 16 | index,
        upload: rng.between(0, bytes) * rng.below(2),
        download: if dir == Dir::Bi { rng.between(0, bytes) } else { 0 },
        server_reset: (dir == Dir::Bi && rng.chance(0.1)).then(|| rng.below(bytes)),
        server_stop: rng.chance(0.1).then(|| rng.below(bytes)),
        push: rng.chance(0.15).then(|| rng.between(0, bytes / 2)),
    };
    StreamPlan {
        dir,
        request,
        reset: rng.chance(0.1).then(|| rng.below(bytes)),
        stop: (dir == Dir::Bi && rng.chance(0.1)).then(|| rng.below(bytes)),
    }
}

fn disturbances(rng: &mut Rng) -> Vec<(Duration, Disturbance)> {
    let all = [
        Disturbance::RebindPort,
        Disturbance::RebindAddress,
        Disturbance::Migrate,
        Disturbance::UpdateClientKeys,
        Disturbance::UpdateServerKeys,
        Disturbance::ForgetSessions,
    ];
    let count = rng.pick(&[0, 0, 1, 2, 5]);
    let mut drawn: Vec<_> =
        (0..count).map(|_| (Duration::from_secs_f64(logarithmic(rng, 1e-3, 3.0)), rng.pick(&all))).collect();
    drawn.sort_by_key(|(after, _)| *after);
    drawn
}
