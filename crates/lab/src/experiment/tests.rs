use std::collections::BTreeSet;

use super::*;
use crate::design::MAX_NUMBER;

#[test]
fn every_name_is_an_experiment() {
    for name in NAMES {
        let experiment = named(name, None).unwrap();
        assert_eq!(experiment.name, *name);
        assert!(!experiment.about.contains('\n') && experiment.about.contains("; points: "));
        assert!(!experiment.points.is_empty() && experiment.repetitions > 0);
        let mut variants: Vec<_> = experiment.variants.iter().map(|variant| &variant.name).collect();
        variants.sort();
        variants.dedup();
        assert!(!variants.is_empty() && variants.len() == experiment.variants.len(), "{name}");
        let mut runs: Vec<_> = experiment.points.iter().map(|point| point.run).collect();
        runs.sort_unstable();
        runs.dedup();
        assert_eq!(runs.len(), experiment.points.len(), "numbers of points are seeds: {name}");
        for point in &experiment.points {
            for variant in &experiment.variants {
                assert!(!variant.paths(point.paths.len()).is_empty(), "{} of {name}", variant.name);
            }
        }
    }
}

#[test]
fn an_unknown_name_is_answered_with_those_there_are() {
    let fault = named("ccr23", None).unwrap_err().to_string();
    assert!(fault.starts_with("unknown experiment `ccr23`: use one of ccr22-homogeneous-2path, "), "{fault}");
    assert_eq!(fault.lines().count(), 1);
}

#[test]
fn published_points_are_read_where_they_are() {
    let folder = std::env::temp_dir().join(format!("anabranch-experiment-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let missing = named("ccr22-heterogeneous-3path", Some(&folder)).unwrap_err().to_string();
    assert!(missing.contains("ccr22_heterogeneous_3path.csv"), "{missing}");
    let row = "run,rate_mbps_0,owd_ms_0,queuing_delay_ms_0,loss_percent_0\n4,12,10,30,1.5\n";
    std::fs::write(folder.join("conext17_low_bdp_losses.csv"), row).unwrap();
    let queue = |name| named(name, Some(&folder)).unwrap().points[0].paths[0].queue_packets;
    assert_eq!(queue("conext17-low-bdp-losses"), 50);
    assert_eq!(queue("conext17-low-bdp-losses-256kb"), 50);
    assert_eq!(queue("conext17-low-bdp-losses-scripts"), 20);
    let other = named("conext17-handover", None).unwrap();
    let other = other.with_design(&folder.join("conext17_low_bdp_losses.csv")).unwrap();
    assert_eq!((other.points[0].run, other.points.len()), (4, 1));
    assert!(other.about.ends_with("losses.csv") && !other.about.contains("paper"));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn jobs_are_all_combinations_in_the_order_of_rows() {
    let mut experiment = named("conext17-handover", None).unwrap();
    experiment.repetitions = 2;
    experiment.points.truncate(2);
    experiment.variants = vec![variant("mpquic").unwrap(), variant("quic-path-1").unwrap()];
    let jobs: Vec<_> = experiment.jobs().map(|job| (job.variant, job.point, job.repetition)).collect();
    assert_eq!(
        jobs,
        [(0, 0, 0), (0, 0, 1), (0, 1, 0), (0, 1, 1), (1, 0, 0), (1, 0, 1), (1, 1, 0), (1, 1, 1)]
    );
    let seed = |variant, point, repetition| experiment.seed(Job { variant, point, repetition });
    assert_eq!(seed(0, 1, 1), seed(1, 1, 1));
    assert_ne!(seed(0, 1, 0), seed(0, 1, 1));
    assert_ne!(seed(0, 0, 0), seed(0, 1, 0));
}

#[test]
fn no_two_repetitions_share_a_seed() {
    let mut experiment = named("conext17-handover", None).unwrap();
    experiment.points.truncate(4);
    // The points get the two smallest and the two largest numbers.
    for (point, run) in experiment.points.iter_mut().zip([0, 1, MAX_NUMBER - 1, MAX_NUMBER]) {
        point.run = run;
    }
    let mut seeds = BTreeSet::new();
    for point in 0..4 {
        for repetition in 0..MAX_REPETITIONS {
            assert!(seeds.insert(experiment.seed(Job { variant: 0, point, repetition })), "{repetition}");
        }
    }
    // The seeds of repetitions below 256 are the same as in earlier versions, which had no more repetitions.
    assert_eq!(experiment.seed(Job { variant: 0, point: 1, repetition: 255 }), 0x1ff);
}

#[test]
fn every_path_is_also_measured_alone_where_benefits_are_compared() {
    for name in NAMES
        .iter()
        .filter(|name| !["conext17-handover", "shared-bottleneck", "coupled-bottleneck"].contains(name))
    {
        let experiment = named(name, None).unwrap();
        for path in 0..experiment.points[0].paths.len() {
            let alone = format!("quic-path-{path}");
            let alone = experiment.variants.iter().find(|variant| variant.name == alone).unwrap();
            assert_eq!(alone.paths(3), [path], "{name}");
            assert!(alone.server().multipath().is_none());
        }
    }
}

#[test]
fn names_of_variants_say_what_they_are() {
    let both = |name| {
        let variant = variant(name).unwrap();
        (variant.client(), variant.server(), variant.paths(3))
    };
    let (client, _, paths) = both("single-cubic-ar5-noaf-original");
    assert_eq!((client.ack().max_ranges(), client.ack().frequency(), paths), (5, false, vec![0, 1, 2]));
    let (client, _, _) = both("multiple-bbr1-fixed");
    assert_eq!(client.ack().max_ranges(), 33);
    assert!(both("quic-path-1").0.multipath().is_none());
    assert!(variant("mpquic").unwrap().external().is_none());
    for (name, external, paths) in [
        ("linux-mptcp", "linux/mptcp", vec![0, 1, 2]),
        ("linux-mptcp-bbr-tls13-default-buffers", "linux/mptcp-bbr/tls13-default-buffers", vec![0, 1, 2]),
        ("linux-mptcp-tls13-buffers-256k", "linux/mptcp/tls13-buffers-256k", vec![0, 1, 2]),
        ("linux-tcp-cubic-path-1-tls12", "linux/tcp-cubic/tls12", vec![1]),
        ("linux-tcp-bbr-path-0", "linux/tcp-bbr", vec![0]),
    ] {
        let variant = variant(name).unwrap();
        assert_eq!((variant.name.as_str(), variant.external().unwrap().to_string()), (name, external.into()));
        assert_eq!(variant.paths(3), paths, "{name}");
    }
    for name in ["triple-cubic-fixed", "single-cubic-mended", "ah5", ""] {
        assert!(variant(name).unwrap_err().to_string().starts_with("unknown profile `"), "{name}");
    }
}

#[test]
fn draws_are_different_points_with_numbers_of_their_own() {
    for name in ["ccr22-heterogeneous-3path", "conext17-low-bdp-losses"] {
        let draws = [0, 1, 4].map(|draw| over(name, Source::Drawn(draw)).unwrap());
        assert_eq!(draws[0].points, named(name, None).unwrap().points);
        assert!(draws.iter().all(|draw| draw.points.len() == draws[0].points.len()));
        assert_eq!(draws.each_ref().map(|draw| draw.points[0].run), [0, 1000, 4000]);
        let paths = draws.each_ref().map(|draw| draw.points[0].paths.clone());
        assert!(paths[0] != paths[1] && paths[1] != paths[2]);
        assert_ne!(draws[0].about, draws[1].about);
    }
}
