//! Drawing a model. Situations that are rare in practice are frequent here: simultaneous events, paths that
//! die while they are opened, and moments without any working path.

use core::ops::Range;
use core::time::Duration;

use anabranch_transport::recovery::{Algorithm, MtuConfig};
use anabranch_transport::stream::StreamsConfig;
use anabranch_transport::{AckConfig, MultipathConfig, Numbering, TransportConfig, schedule};
use anabranch_wire::{Dir, Side};

use super::{Disturbance, Model, Operation};
use crate::link::{Limit, LinkSpec, Queue, Rate};
use crate::random::{Rng, Seed};

/// Approximate number of stream bytes that both ends send in one run.
const BYTES: u64 = 600_000;
/// Latest time at which the last operation begins.
const LAST: Duration = Duration::from_secs(20);
/// Maximum duration of one outage of a link.
const LONGEST_DOWN: Duration = Duration::from_secs(8);
/// Idle timeout. It is long enough for many consecutive PTOs, so that only a fault ends a connection.
const IDLE_TIMEOUT: Duration = Duration::from_secs(600);
/// Keep-alive interval of the client if a NAT rebinds. A server's packets to the NAT's old mapping are lost
/// until the client sends a packet. A client that only reads may send nothing for a long time.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

impl Model {
    /// Creates the model that follows from `seed`, with the packet numbering `numbering`.
    pub fn random(seed: u64, numbering: Numbering) -> Self {
        let mut rng = Seed(seed).rng("model");
        let rng = &mut rng;
        let links = rng.between(2, 6) as u8;
        let loss = rng.pick(&[0.0, 0.005, 0.03]);
        let max_paths = rng.between(2, 8) as u32;
        let disturbances: Vec<_> = (0..rng.pick(&[0, 1, 3, 6])).map(|_| disturbance(rng, links)).collect();
        let mut client = transport(rng, max_paths, numbering);
        if disturbances.iter().any(|what| matches!(what, Disturbance::Rebind { .. })) {
            client = client.with_keep_alive(KEEP_ALIVE);
        }
        Self {
            seed,
            links: (0..links).map(|_| link(rng, loss)).collect(),
            client,
            server: transport(rng, max_paths, numbering),
            cid_len: [rng.pick(&[4, 8, 20]), rng.pick(&[4, 8, 18])],
            operations: operations(rng, links),
            disturbances,
        }
    }
}

/// Draws a number that is uniformly distributed on a logarithmic scale.
fn logarithmic(rng: &mut Rng, low: f64, high: f64) -> f64 {
    low * (high / low).powf(rng.unit())
}

fn link(rng: &mut Rng, loss: f64) -> LinkSpec {
    let rtt = Duration::from_secs_f64(logarithmic(rng, 1e-3, 0.4));
    let rate = logarithmic(rng, 5e5, 1e8) as u64;
    let queue = Queue::new(Rate::constant(rate), Limit::Packets(rng.between(10, 300) as usize));
    let mut spec = LinkSpec::new(rate, rtt).both(queue).loss(loss);
    if rng.chance(0.2) {
        spec = spec.reorder(rng.unit() * 0.2, rtt / 2);
    }
    if rng.chance(0.2) {
        spec = spec.duplicate(rng.unit() * 0.1);
    }
    if rng.chance(0.3) {
        spec = spec.mtu(rng.pick(&[1200, 1252, 1350, 1452]));
    }
    spec
}

fn transport(rng: &mut Rng, max_paths: u32, numbering: Numbering) -> TransportConfig {
    let defaults = TransportConfig::default();
    let scheduler =
        rng.pick(schedule::Algorithm::NAMES).parse().unwrap_or(MultipathConfig::default().scheduler());
    let multipath = MultipathConfig::default()
        .with_max_paths(max_paths)
        .with_scheduler(scheduler)
        .with_numbering(numbering);
    let streams = if rng.chance(0.3) { streams(rng) } else { defaults.streams().clone() };
    let recovery = defaults.recovery().clone();
    let congestion = rng.pick(Algorithm::NAMES).parse().unwrap_or(recovery.congestion());
    let recovery = recovery
        .with_congestion(congestion)
        .with_pacing(rng.chance(0.8))
        .with_mtu(MtuConfig::default().with_discovery(rng.chance(0.7)));
    let ack = AckConfig::default()
        .with_threshold(rng.pick(&[1, 2, 2, 10]))
        .with_max_ranges(rng.pick(&[5, 32, 64]))
        .with_frequency(rng.chance(0.5));
    defaults
        .with_multipath(multipath)
        .with_streams(streams)
        .with_recovery(recovery)
        .with_ack(ack)
        .with_max_idle_timeout(IDLE_TIMEOUT)
        .with_handshake_timeout(IDLE_TIMEOUT)
        .with_active_connection_id_limit(rng.between(2, 8))
        .with_key_update_after(rng.chance(0.2).then(|| rng.between(30, 300)))
}

fn streams(rng: &mut Rng) -> StreamsConfig {
    let config =
        StreamsConfig::default().with_max_bidi(rng.pick(&[1, 2, 10])).with_max_uni(rng.pick(&[1, 3]));
    let window = rng.between(2_000, 60_000);
    let config = config.with_stream_window(window).with_stream_window_max(window * rng.between(1, 8));
    let window = rng.between(4_000, 100_000);
    config
        .with_connection_window(window)
        .with_connection_window_max(window * rng.between(1, 8))
        .with_send_buffer(rng.between(4_000, 200_000))
}

/// Draws the operations. In some runs they follow each other closely; in others each one has time to complete
/// before the next.
fn operations(rng: &mut Rng, links: u8) -> Vec<(Duration, Operation)> {
    let within = Duration::from_secs_f64(logarithmic(rng, 0.05, LAST.as_secs_f64()));
    let count = rng.pick(&[5, 15, 40, 80]);
    let share = BYTES / count;
    let churn = rng.pick(&[1, 1, 4]);
    let mut drawn: Vec<_> =
        (0..count).map(|_| (within.mul_f64(rng.unit()), operation(rng, links, share, churn))).collect();
    drawn.push((within.mul_f64(rng.unit()), send(rng, share)));
    drawn.sort_by_key(|(after, _)| *after);
    drawn
}

fn operation(rng: &mut Rng, links: u8, share: u64, churn: u64) -> Operation {
    let from = rng.pick(&[Side::Client, Side::Server]);
    let (link, port, nth) = (rng.below(links.into()) as u8, rng.below(3) as u16, rng.below(8) as u8);
    match rng.below(10 + 6 * churn) {
        0..=4 => send(rng, share * 2),
        5 => Operation::SendDatagram { from, length: rng.below(1_300) as u16 },
        6 | 7 => Operation::Status { from, nth, available: rng.chance(0.5) },
        8 => Operation::UpdateKeys { from },
        9 => Operation::Migrate { link, port },
        n if n < 10 + 4 * churn => Operation::Open { link, port },
        _ => Operation::Abandon { from, nth },
    }
}

fn send(rng: &mut Rng, most: u64) -> Operation {
    let from = rng.pick(&[Side::Client, Side::Server]);
    let dir = rng.pick(&[Dir::Bi, Dir::Uni]);
    let reply = if dir == Dir::Bi { rng.below(most) } else { 0 };
    Operation::Send { from, dir, length: rng.below(most), reply }
}

fn disturbance(rng: &mut Rng, links: u8) -> Disturbance {
    let link = rng.below(links.into()) as u8;
    let at = LAST.mul_f64(rng.unit() * rng.unit());
    match rng.below(3) {
        0 => Disturbance::Rebind { link, at, address: rng.chance(0.5) },
        _ => Disturbance::Kill { link, window: window(rng, at), ways: rng.pick(&WAYS) },
    }
}

const WAYS: [[bool; 2]; 4] = [[true, true], [true, true], [true, false], [false, true]];

fn window(rng: &mut Rng, from: Duration) -> Range<Duration> {
    from..from + LONGEST_DOWN.mul_f64(rng.unit() * rng.unit()) + Duration::from_millis(1)
}
