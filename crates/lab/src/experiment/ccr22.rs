//! Experiments of "The Packet Number Space Debate in Multipath QUIC" (CCR 2022): downloads of 50 MB over 95
//! networks of each of three families.

use core::time::Duration;

use super::variant::{single_path, variants};
use super::{End, Experiment, ExperimentError, Source, Workload};
use crate::design::{self, Coordinates, Factor, PathDesign, Point, Wsp};
use crate::random::Seed;

/// Seed of the first generated design: the smallest with which WSP chooses as many points as the study has.
const SEED: Seed = Seed(16);
/// Number of points of a design of the study.
const POINTS: usize = 95;
/// Rate of all paths of a heterogeneous network together, in megabits per second.
const TOTAL_RATE: f64 = 100.0;
/// Simulated time after which a run has failed; the slowest path alone needs 160 s.
const DEADLINE: Duration = Duration::from_secs(1000);

/// Returns the names of the variants with a coupled controller, which the study did not run.
fn coupled() -> impl Iterator<Item = String> {
    let each = |behaviour| {
        ["lia", "olia", "balia"].into_iter().flat_map(move |congestion| {
            ["multiple", "single"].map(|numbering| format!("{numbering}-{congestion}-{behaviour}"))
        })
    };
    ["original", "fixed"].into_iter().flat_map(each)
}

/// Creates the experiment with two equal paths: rate 2.5 to 100 Mbit/s, round-trip time 5 to 100 ms (figure
/// 2).
pub(super) fn homogeneous_2path(name: &str, source: Source<'_>) -> Result<Experiment, ExperimentError> {
    let (rate, rtt) = (Factor::Range(2.5, 100.0), Factor::Range(5.0, 100.0));
    let paths = |at: &[f64]| vec![path(rate.at(at[0]), rtt.at(at[1]) / 2.0); 2];
    let mut names = Vec::new();
    for congestion in ["cubic", "bbr1"] {
        names.push(format!("multiple-{congestion}-original"));
        names.extend(
            ["", "-ar5", "-ah128", "-ah1024"].map(|limit| format!("single-{congestion}{limit}-original")),
        );
    }
    names.push("pquic".to_owned());
    experiment(name, "CCR 2022, two paths alike, 50 MB", source, [names, Vec::new()], paths)
}

/// Creates the experiment with 100 Mbit/s and 200 ms of round-trip time shared between two paths (figures 3
/// to 6).
pub(super) fn heterogeneous_2path(name: &str, source: Source<'_>) -> Result<Experiment, ExperimentError> {
    let balance = Factor::Range(0.1, 0.9);
    let paths = |at: &[f64]| {
        let [bandwidth, delay] = [balance.at(at[0]), balance.at(at[1])];
        let part =
            |balance: f64| path(TOTAL_RATE * (bandwidth - balance).abs(), 100.0 * (delay - balance).abs());
        vec![part(0.0), part(1.0)]
    };
    // Variants of figure 6, and those that the text about figures 3a and 5 mentions.
    let mut plotted = [
        "pquic",
        "single-cubic-noaf-fixed",
        "multiple-cubic-noaf-fixed",
        "multiple-cubic-ar5-original",
        "multiple-cubic-ah128-original",
    ]
    .map(str::to_owned)
    .to_vec();
    let mut others = Vec::new();
    for behaviour in ["original", "fixed"] {
        for congestion in ["cubic", "bbr1"] {
            plotted.push(format!("multiple-{congestion}-{behaviour}"));
            plotted.extend(
                ["", "-ar5", "-ah128", "-ah1024"]
                    .map(|limit| format!("single-{congestion}{limit}-{behaviour}")),
            );
            others.extend(
                ["-ar8", "-ar16", "-ar64", "-noaf"]
                    .map(|limit| format!("single-{congestion}{limit}-{behaviour}")),
            );
            others.extend(
                ["-ar5", "-ah128", "-ah1024", "-noaf"]
                    .map(|limit| format!("multiple-{congestion}{limit}-{behaviour}")),
            );
        }
    }
    others.retain(|name| !plotted.contains(name));
    experiment(name, "CCR 2022, two different paths, 50 MB", source, [plotted, others], paths)
}

/// Creates the experiment with 100 Mbit/s and 300 ms of round-trip time shared between three paths by weights
/// (figure 7).
pub(super) fn heterogeneous_3path(name: &str, source: Source<'_>) -> Result<Experiment, ExperimentError> {
    let weight = Factor::Range(0.1, 0.9);
    let paths = |at: &[f64]| {
        let shares = |at: &[f64]| {
            let weights: Vec<f64> = at.iter().map(|at| weight.at(*at)).collect();
            let all: f64 = weights.iter().sum();
            weights.into_iter().map(move |weight| weight / all)
        };
        let parts = shares(&at[..3]).zip(shares(&at[3..6]));
        parts.map(|(rate, delay)| path(TOTAL_RATE * rate, 150.0 * delay)).collect()
    };
    let (mut plotted, mut others) = (vec!["pquic".to_owned()], Vec::new());
    for congestion in ["cubic", "bbr1"] {
        for choice in ["single", "multiple", "single-ar64"] {
            let (numbering, limit) = choice.split_at(choice.find('-').unwrap_or(choice.len()));
            plotted.push(format!("{numbering}-{congestion}{limit}-fixed"));
            others.push(format!("{numbering}-{congestion}{limit}-noaf-fixed"));
        }
    }
    experiment(name, "CCR 2022, three different paths, 50 MB", source, [plotted, others], paths)
}

/// Creates a path with the queue of the study: 1.5 bandwidth-delay products, computed as in the study's
/// scripts.
fn path(rate_mbps: f64, owd_ms: f64) -> PathDesign {
    // Balances have two decimals. Rounding removes the errors of floating-point subtraction.
    let [rate_mbps, owd_ms] = [rate_mbps, owd_ms].map(|value| (value * 1e4).round() / 1e4);
    let queue_packets = (1.5 * rate_mbps / 8.0 * 1024.0 * 1024.0 * (2.0 * owd_ms / 1e3) / 1200.0) as usize;
    PathDesign { rate_mbps, owd_ms, queue_packets, ..PathDesign::default() }
}

/// Returns the seeds with which WSP chooses as many points as the study has, each with the points that it
/// chooses.
fn draws() -> impl Iterator<Item = (Seed, Vec<Coordinates>)> {
    let all = (SEED.0..).map(|seed| (Seed(seed), Wsp::CCR22.points(Seed(seed))));
    all.filter(|(_, points)| points.len() == POINTS)
}

/// Creates an experiment with the published points, or with as many generated ones. The coordinates of a
/// generated point belong to the parameters in alphabetical order. Usual variants are those that the study
/// plots or makes claims about. The other variants, and those on a single path, run only on request.
fn experiment(
    name: &str,
    about: &str,
    source: Source<'_>,
    [plotted, mut others]: [Vec<String>; 2],
    paths: impl Fn(&[f64]) -> Vec<PathDesign>,
) -> Result<Experiment, ExperimentError> {
    let (points, source) = match source {
        Source::Published(data) => {
            let file = data.join(format!("{}.csv", name.replace('-', "_")));
            (design::read(&file)?, "published".to_owned())
        }
        Source::Drawn(draw) => {
            let (seed, drawn) = draws().nth(draw as usize).unwrap_or((SEED, Vec::new()));
            let points = (source.first_point()..).zip(drawn);
            let points = points.map(|(run, at)| Point { run, paths: paths(&at) }).collect();
            (points, format!("generated with WSP, seed {}", seed.0))
        }
    };
    let paths = points.first().map_or(0, |point| point.paths.len());
    let alone = (0..paths).map(|path| single_path(&["picoquic", "fixed", "cubic"], path));
    let usual = plotted.len();
    others.extend(coupled());
    let mut variants = variants(plotted.iter().chain(&others).map(String::as_str))?;
    variants.extend(alone.collect::<Result<Vec<_>, _>>()?);
    Ok(Experiment {
        name: name.to_owned(),
        about: format!("{about}; points: {source}"),
        workload: Workload::Download { bytes: 50_000_000, until: End::Closed },
        points,
        variants,
        usual,
        repetitions: 1,
        deadline: DEADLINE,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_are_those_of_the_study() {
        // Rate in Mbit/s, one-way delay in ms, packets: the first points of two published files.
        for (rate, delay, queue) in
            [(21.0, 29.0, 199), (79.0, 71.0, 1837), (48.9796, 40.2439, 645), (29.5918, 33.8415, 328)]
        {
            assert_eq!(path(rate, delay).queue_packets, queue);
        }
    }

    #[test]
    fn families_keep_their_sums_and_bounds() {
        let points = |name| crate::experiment::named(name, None).unwrap().points;
        let sum = |point: &Point, of: fn(&PathDesign) -> f64| point.paths.iter().map(of).sum::<f64>();
        for point in points("ccr22-homogeneous-2path") {
            assert_eq!(point.paths[0], point.paths[1]);
            assert!((2.5..=100.0).contains(&point.paths[0].rate_mbps));
            assert!((2.5..=50.0).contains(&point.paths[0].owd_ms));
        }
        for (name, count, delay) in
            [("ccr22-heterogeneous-2path", 2, 100.0), ("ccr22-heterogeneous-3path", 3, 150.0)]
        {
            let points = points(name);
            assert_eq!(points.len(), 95);
            for point in points {
                assert_eq!(point.paths.len(), count);
                assert!((sum(&point, |path| path.rate_mbps) - 100.0).abs() < 1e-3, "{point:?}");
                assert!((sum(&point, |path| path.owd_ms) - delay).abs() < 1e-3, "{point:?}");
                assert!(point.paths.iter().all(|path| path.queue_packets > 0));
            }
        }
    }
}
