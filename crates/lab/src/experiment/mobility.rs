//! Experiment with a walking user: every scheduler downloads while Wi-Fi comes and goes and LTE fluctuates.
//!
//! The rate traces are drawn from a seed by the two simple processes below; they are not measured. Like
//! measured traces, they change the rate every few hundred milliseconds. Wi-Fi has the higher rate and the
//! shorter delay, but falls silent at times. A change of the LTE cell causes a short pause.

use core::time::Duration;

use anabranch_transport::schedule::Algorithm;

use super::variant::single_path;
use super::{ALL_VARIANTS, End, Experiment, ExperimentError, Source, Workload};
use crate::design::{Change, PathDesign, Point};
use crate::profile::{Settings, Variant};
use crate::random::{Rng, Seed};

/// Number of walks.
const POINTS: u64 = 20;
/// Number of steps in which rates change; a step lasts [`STEP`].
const STEPS: u32 = 600;
/// Time from one change of a rate to the next.
const STEP: Duration = Duration::from_millis(200);
/// Maximum rate of Wi-Fi without shadowing, in Mbit/s.
const WIFI_RATE: f64 = 80.0;
/// Rate in Mbit/s below which Wi-Fi loses all packets.
const WIFI_SILENT: f64 = 2.0;

/// Creates twenty walks of two minutes; 40 MB are downloaded on each.
pub(super) fn mobility(name: &str, _source: Source<'_>) -> Result<Experiment, ExperimentError> {
    let walk = |run| {
        let seed = Seed(run);
        Point { run, paths: vec![wifi(&mut seed.rng("mobility/wifi")), lte(&mut seed.rng("mobility/lte"))] }
    };
    let scheduler = |scheduler: &&str| {
        let set = Settings { scheduler: scheduler.parse().ok(), ..Settings::default() };
        Variant::with(scheduler, &["default"], set)
    };
    let alone = [0, 1].map(|path| single_path(&["default"], path));
    let variants = Algorithm::NAMES.iter().map(scheduler).chain(alone);
    Ok(Experiment {
        name: name.to_owned(),
        about: "40 MB while Wi-Fi comes and goes and LTE fluctuates, with every scheduler; points: generated walks".to_owned(),
        workload: Workload::Download { bytes: 40_000_000, until: End::LastByte },
        points: (0..POINTS).map(walk).collect(),
        variants: variants.collect::<Result<_, _>>()?,
        usual: ALL_VARIANTS,
        repetitions: 1,
        deadline: Duration::from_secs(600),
    })
}

/// Draws the Wi-Fi path. Its user walks away from the access point and back at 0.8 to 1.6 m/s. The rate falls
/// with the square of the distance, and shadowing changes it by up to a quarter. While the rate is below 2
/// Mbit/s, all packets are lost.
fn wifi(rng: &mut Rng) -> PathDesign {
    let speed = 0.8 + 0.8 * rng.unit();
    let turn = 25.0 + 30.0 * rng.unit();
    let mut place = turn * rng.unit();
    let mut direction = 1.0;
    let mut shadow = 0.0;
    let mut lossy = false;
    trace(5.0, |_| {
        place += direction * speed * STEP.as_secs_f64();
        if place >= turn {
            direction = -1.0;
        } else if place <= 0.0 {
            direction = 1.0;
        }
        shadow = 0.9 * shadow + 0.1 * (rng.unit() - 0.5) * 2.0;
        let share =
            (1.0 - (place / 50.0) * (place / 50.0)).max(0.0) * (1.0 + 0.25 * shadow / 0.3).clamp(0.75, 1.25);
        let rate = WIFI_RATE * share;
        let silent = rate < WIFI_SILENT;
        let loss_percent = (silent != lossy).then_some(if silent { 100.0 } else { 0.0 });
        lossy = silent;
        (rate.max(WIFI_SILENT), loss_percent)
    })
}

/// Draws the LTE path. Its rate varies around the mean rate of the current cell, 10 to 40 Mbit/s. Every 15 to
/// 40 s the cell changes, which causes a pause of one step and sets another mean rate.
fn lte(rng: &mut Rng) -> PathDesign {
    let cell = |rng: &mut Rng| (10.0 + 30.0 * rng.unit(), rng.between(75, 200) as u32);
    let (mut mean, mut left) = cell(rng);
    let mut rate = mean;
    trace(25.0, |_| {
        left -= 1;
        if left == 0 {
            (mean, left) = cell(rng);
            rate = mean;
            return (0.0, None);
        }
        rate = (rate + 0.1 * (mean - rate) + 0.2 * mean * (rng.unit() - 0.5)).clamp(1.0, 60.0);
        (rate, None)
    })
}

/// Creates a path with this one-way delay. At every step, `next` returns its rate, and its loss in percent if
/// the loss changes. The queue holds the packets of 100 ms at 40 Mbit/s.
fn trace(owd_ms: f64, mut next: impl FnMut(u32) -> (f64, Option<f64>)) -> PathDesign {
    let mut changes = Vec::new();
    for step in 0..STEPS {
        let (rate, loss_percent) = next(step);
        let rate_mbps = Some((rate * 100.0).round() / 100.0);
        changes.push(Change { at: STEP * step, rate_mbps, loss_percent, ..Change::default() });
    }
    let rate_mbps = changes.first().and_then(|change| change.rate_mbps).unwrap_or_default();
    let loss_percent = changes.first().and_then(|change| change.loss_percent).unwrap_or_default();
    changes.remove(0);
    PathDesign { rate_mbps, owd_ms, queue_packets: 333, loss_percent, changes, ..PathDesign::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walks_are_different_and_the_same_again() {
        let points = || mobility("mobility", Source::Drawn(0)).unwrap().points;
        assert_eq!(points(), points());
        assert_ne!(points()[0].paths, points()[1].paths);
    }

    #[test]
    fn rates_change_within_their_bounds() {
        let points = mobility("mobility", Source::Drawn(0)).unwrap().points;
        let mut silences = 0;
        let mut pauses = 0;
        for point in &points {
            let [wifi, lte] = &point.paths[..] else { panic!("two paths") };
            let rates = |path: &PathDesign| {
                path.changes.iter().filter_map(|change| change.rate_mbps).collect::<Vec<_>>()
            };
            assert!(rates(wifi).iter().all(|rate| (2.0..=100.0).contains(rate)));
            assert!(rates(lte).iter().all(|rate| *rate == 0.0 || (1.0..=60.0).contains(rate)));
            assert_eq!((wifi.changes.len(), lte.changes.len()), (599, 599));
            assert!(wifi.changes.iter().is_sorted_by_key(|change| change.at));
            silences += wifi.changes.iter().filter(|change| change.loss_percent == Some(100.0)).count();
            pauses += rates(lte).iter().filter(|rate| **rate == 0.0).count();
            assert!(lte.rate_mbps > 0.0 && wifi.rate_mbps > 0.0);
        }
        assert!(silences >= 5, "Wi-Fi fell silent {silences} times on all walks");
        assert!((40..=160).contains(&pauses), "{pauses} changes of cell");
    }

    #[test]
    fn every_scheduler_is_a_variant() {
        let variants = mobility("mobility", Source::Drawn(0)).unwrap().variants;
        for (variant, name) in variants.iter().zip(Algorithm::NAMES) {
            assert_eq!(variant.server().multipath().unwrap().scheduler().name(), *name);
        }
        assert_eq!(variants.len(), Algorithm::NAMES.len() + 2);
        assert_eq!(variants.last().unwrap().paths(2), [1]);
    }
}
