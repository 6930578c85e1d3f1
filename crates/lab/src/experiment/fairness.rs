//! Experiments on a shared bottleneck. They measure the share of its rate that a connection with two paths
//! takes, compared with connections with one path.

use core::time::Duration;

use anabranch_transport::recovery::Algorithm;

use super::{ALL_VARIANTS, Experiment, ExperimentError, Source, Workload};
use crate::design::{PathDesign, Point, factorial};
use crate::profile::{Settings, Variant};

/// Rates of the bottleneck in Mbit/s.
const RATES: [f64; 3] = [10.0, 30.0, 100.0];
/// One-way delays of the bottleneck in ms.
const DELAYS: [f64; 3] = [5.0, 20.0, 50.0];
/// Queues of the bottleneck in bandwidth-delay products.
const QUEUES: [f64; 2] = [0.5, 1.5];
/// Number of connections of other clients.
const OTHERS: u32 = 3;

/// Creates the experiment in which both paths of a client share one link with one NewReno connection. The
/// client's variants are each coupled controller; NewReno on both paths, which takes two shares; and NewReno
/// on one path, which takes one. Coupled controllers should take one share, too (RFC 6356 §2, goal 2): the
/// mean ratio of the client's goodput to the competitor's must be within 15 % of 1, and the ratio at each
/// point within 30 %. Both limits were written before the first run.
pub(super) fn coupled_bottleneck(name: &str, source: Source<'_>) -> Result<Experiment, ExperimentError> {
    let mut experiment = shared_bottleneck(name, source)?;
    experiment.about =
        "two paths through one bottleneck, beside one NewReno connection with one; points: full factorial"
            .to_owned();
    experiment.workload =
        Workload::Competition { others: 1, length: Duration::from_secs(60), one_link: true };
    let wanted = ["lia", "olia", "balia", "newreno", "newreno-one-path"];
    experiment.variants.retain(|variant| wanted.contains(&variant.name.as_str()));
    experiment.variants.extend(super::variant::variants(LINUX)?);
    for variant in &mut experiment.variants {
        variant.settings.others_congestion = Some(Algorithm::NewReno);
    }
    Ok(experiment)
}

/// Variants of Linux that are compared with the coupled controllers: Multipath TCP with an uncoupled
/// controller on each subflow, and TCP on one path. Their competitor is a TCP connection, too.
const LINUX: [&str; 3] = ["linux-mptcp-reno", "linux-mptcp", "linux-tcp-reno-path-0"];

/// Creates the experiment in which both paths of a client and three other clients share one link, with every
/// congestion controller. Coupled controllers should take one share of four, uncoupled ones take two of five.
/// The other clients run the same controller on one path, where LIA, OLIA and BALIA behave like NewReno.
pub(super) fn shared_bottleneck(name: &str, _source: Source<'_>) -> Result<Experiment, ExperimentError> {
    let all = factorial(&[RATES.len(), DELAYS.len(), QUEUES.len()]).unwrap_or_default();
    let points = (0..).zip(all).map(|(run, at)| {
        let path = bottleneck(pick(&RATES, at[0]), pick(&DELAYS, at[1]), pick(&QUEUES, at[2]));
        Point { run, paths: vec![path; 2] }
    });
    let two_paths = Algorithm::NAMES.iter().map(|congestion| variant(congestion, congestion, true));
    let one_path =
        ["cubic", "newreno"].map(|congestion| variant(&format!("{congestion}-one-path"), congestion, false));
    Ok(Experiment {
        name: name.to_owned(),
        about: format!(
            "two paths through one bottleneck, beside {OTHERS} connections with one; points: full factorial"
        ),
        workload: Workload::Competition { others: OTHERS, length: Duration::from_secs(60), one_link: true },
        points: points.collect(),
        variants: two_paths.chain(one_path).collect::<Result<_, _>>()?,
        usual: ALL_VARIANTS,
        repetitions: 3,
        deadline: Duration::from_secs(120),
    })
}

/// Returns the level at a coordinate of the design.
fn pick(levels: &[f64], at: f64) -> f64 {
    levels[(at * (levels.len() - 1) as f64).round() as usize]
}

fn bottleneck(rate_mbps: f64, owd_ms: f64, products: f64) -> PathDesign {
    let product = rate_mbps * 1e6 / 8.0 * 2.0 * owd_ms / 1e3 / 1500.0;
    PathDesign {
        rate_mbps,
        owd_ms,
        queue_packets: ((product * products) as usize).max(10),
        ..PathDesign::default()
    }
}

fn variant(name: &str, congestion: &str, multipath: bool) -> Result<Variant, ExperimentError> {
    let set =
        Settings { congestion: congestion.parse().ok(), multipath: Some(multipath), ..Settings::default() };
    Ok(Variant::with(name, &["default"], set)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_controller_meets_every_bottleneck() {
        let experiment = shared_bottleneck("shared-bottleneck", Source::Drawn(0)).unwrap();
        assert_eq!(experiment.points.len(), 18);
        let combination = |point: &Point| {
            let path = &point.paths[0];
            assert_eq!(*path, point.paths[1], "both paths are the bottleneck");
            assert!(RATES.contains(&path.rate_mbps) && DELAYS.contains(&path.owd_ms));
            (path.rate_mbps as u64, path.owd_ms as u64, path.queue_packets)
        };
        let mut seen: Vec<_> = experiment.points.iter().map(combination).collect();
        seen.sort_unstable();
        assert_eq!([seen[0], seen[17]], [(10, 5, 10), (100, 50, 1250)]);
        for (variant, name) in experiment.variants.iter().zip(Algorithm::NAMES) {
            assert_eq!((variant.name.as_str(), variant.paths(2)), (*name, vec![0, 1]));
            assert_eq!(variant.server().recovery().congestion().name(), *name);
        }
        assert_eq!(experiment.variants.last().unwrap().paths(2), [0]);
    }

    #[test]
    fn coupled_controllers_meet_one_newreno_connection() {
        let experiment = coupled_bottleneck("coupled-bottleneck", Source::Drawn(0)).unwrap();
        assert_eq!(experiment.points.len(), 18);
        let names: Vec<_> = experiment.variants.iter().map(|variant| variant.name.as_str()).collect();
        let (own, linux) = names.split_at(5);
        assert_eq!(own, ["newreno", "lia", "olia", "balia", "newreno-one-path"]);
        assert_eq!(linux, LINUX);
        let paths: Vec<_> = experiment.variants[5..].iter().map(|variant| variant.paths(2).len()).collect();
        assert_eq!(paths, [2, 2, 1]);
        let competition =
            Workload::Competition { others: 1, length: Duration::from_secs(60), one_link: true };
        assert_eq!(experiment.workload, competition);
        let others = |variant: &Variant| variant.settings.others_congestion == Some(Algorithm::NewReno);
        assert!(experiment.variants.iter().all(others));
    }
}
