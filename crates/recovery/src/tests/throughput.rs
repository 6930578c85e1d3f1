//! Tests of each controller on a simulated bottleneck.

use super::link::{Link, Report, run};
use super::*;
use crate::{Controller, State};

const MBIT: u64 = 125_000;

const EVERY: [Algorithm; 12] = [
    Algorithm::NewReno,
    Algorithm::Cubic,
    Algorithm::Cubic2017,
    Algorithm::Cubic2022,
    Algorithm::Cubic2022Strict,
    Algorithm::Bbr,
    Algorithm::Bbr1,
    Algorithm::Bbr1Blind,
    Algorithm::Bbr1Policed,
    Algorithm::Lia,
    Algorithm::Olia,
    Algorithm::Balia,
];

#[test]
fn names_are_parsed_and_shown() {
    assert_eq!(EVERY.len(), Algorithm::NAMES.len());
    for algorithm in EVERY {
        assert!(Algorithm::NAMES.contains(&algorithm.name()));
        assert_eq!(algorithm.name().parse(), Ok(algorithm));
    }
    let error = "reno".parse::<Algorithm>().unwrap_err().to_string();
    assert!(Algorithm::NAMES.iter().all(|name| error.contains(name)), "{error}");
}

fn config(congestion: Algorithm) -> Config {
    let mut config = Config { congestion, ..Config::default() };
    config.mtu.discovery = false;
    config
}

fn seconds(n: u64) -> Time {
    at(n * 1000)
}

fn fill(link: &Link, congestion: Algorithm) -> Report {
    let report = run(link, &config(congestion), seconds(20));
    let stats = report.path.recovery.stats();
    println!(
        "{congestion} {link:?}: {:.3} {:?} lost {} spurious {} events {} ptos {} srtt {:?} window {} state {:?}",
        report.utilisation,
        report.queueing,
        stats.lost_packets,
        stats.spurious_losses,
        stats.congestion_events,
        stats.ptos,
        report.path.recovery.rtt().smoothed(),
        report.path.recovery.window(),
        report.path.recovery.congestion().state(),
    );
    let under_way = report.path.recovery.unacked(DATA).count() as u64;
    assert_eq!(report.resolved + under_way, stats.sent_packets, "every packet is acknowledged or lost once");
    report
}

#[test]
fn every_controller_fills_a_link_with_a_queue_of_one_bdp() {
    for rate in [5 * MBIT, 50 * MBIT] {
        let mut link = Link::new(rate, ms(40), 0);
        link.queue = link.bdp();
        for algorithm in EVERY {
            assert!(fill(&link, algorithm).utilisation >= 0.85, "{algorithm} at {rate}");
        }
    }
}

#[test]
fn cubic_and_bbr_fill_a_long_fat_link() {
    let mut link = Link::new(200 * MBIT, ms(100), 0);
    link.queue = link.bdp() / 2;
    for algorithm in [Algorithm::Cubic, Algorithm::Bbr] {
        assert!(fill(&link, algorithm).utilisation >= 0.85, "{algorithm}");
    }
}

#[test]
fn bbr_keeps_a_deep_queue_short_and_cubic_does_not() {
    let mut link = Link::new(20 * MBIT, ms(40), 0);
    link.queue = link.bdp() * 8;
    let bbr = fill(&link, Algorithm::Bbr);
    let cubic = fill(&link, Algorithm::Cubic);
    assert!(bbr.utilisation >= 0.85 && cubic.utilisation >= 0.85);
    assert!(bbr.queueing < ms(20), "half a round trip: {:?}", bbr.queueing);
    assert!(cubic.queueing > ms(40), "loss-based control fills queues: {:?}", cubic.queueing);
    assert_eq!(bbr.path.recovery.stats().lost_packets, 0);
}

/// A single run depends on which packets are lost at the start: over these runs BBR's utilisation lies between
/// 0.5 and 0.9.
#[test]
fn bbr_shrugs_off_random_loss() {
    let runs = 95..115_u32;
    let mean = |congestion| {
        let utilisation = runs.clone().map(|loss| {
            let mut link = Link::new(20 * MBIT, ms(40), 0);
            link.queue = link.bdp();
            link.loss = loss.into();
            fill(&link, congestion).utilisation
        });
        utilisation.sum::<f64>() / f64::from(runs.end - runs.start)
    };
    let (bbr, reno) = (mean(Algorithm::Bbr), mean(Algorithm::NewReno));
    assert!(bbr >= 0.75, "{bbr}");
    assert!(reno < 0.3, "one in a hundred is too much for Reno: {reno}");
}

#[test]
fn hystart_leaves_slow_start_before_a_deep_queue_overflows() {
    let mut link = Link::new(20 * MBIT, ms(60), 0);
    // Conservative Slow Start may still triple the window in its five rounds.
    link.queue = link.bdp() * 7;
    let reno = run(&link, &config(Algorithm::NewReno), seconds(2));
    assert!(reno.path.recovery.stats().lost_packets > 0, "plain slow start overflows it");
    let report = run(&link, &config(Algorithm::Cubic), seconds(2));
    let recovery = &report.path.recovery;
    assert_eq!(recovery.stats().lost_packets, 0, "the rising round-trip time was noticed");
    assert_eq!(recovery.congestion().state(), State::CongestionAvoidance);
}

#[test]
fn reordering_is_learned_and_its_congestion_responses_are_undone() {
    let mut link = Link::new(20 * MBIT, ms(40), 0);
    link.queue = link.bdp();
    link.reorder = ms(8);
    for algorithm in EVERY {
        let report = fill(&link, algorithm);
        let stats = report.path.recovery.stats();
        assert!(stats.spurious_losses > 0 && stats.undone_responses > 0, "{algorithm}: {stats:?}");
        assert!(report.utilisation >= 0.85, "{algorithm}: {}", report.utilisation);
        // Every twentieth packet is late, thousands in all. Few of them are declared lost.
        assert!(stats.spurious_losses * 20 < stats.sent_packets / 20, "{algorithm}: {stats:?}");
    }
}

#[test]
fn marks_replace_losses() {
    let mut link = Link::new(20 * MBIT, ms(40), 0);
    link.queue = link.bdp() * 4;
    link.mark = link.bdp() / 2;
    for algorithm in [Algorithm::NewReno, Algorithm::Cubic] {
        let report = fill(&link, algorithm);
        let stats = report.path.recovery.stats();
        assert!(stats.ecn_ce > 0);
        assert_eq!(stats.lost_packets, 0, "{algorithm}");
        assert!(report.utilisation >= 0.85, "{algorithm}: {}", report.utilisation);
        assert!(report.queueing < ms(40), "{algorithm}: {:?}", report.queueing);
    }
}

#[test]
fn equal_seeds_give_equal_runs() {
    let mut link = Link::new(10 * MBIT, ms(30), 0);
    link.queue = link.bdp();
    link.loss = 200;
    for algorithm in EVERY {
        let runs = [(); 2].map(|()| run(&link, &config(algorithm), seconds(5)));
        let [first, second] = runs.map(|report| report.path.recovery.stats().clone());
        assert_eq!(first, second);
    }
}

#[test]
fn bbr_goes_through_its_phases_in_order() {
    let mut link = Link::new(10 * MBIT, ms(40), 0);
    link.queue = link.bdp() * 4;
    let report = run(&link, &config(Algorithm::Bbr), seconds(20));
    use State::*;
    let cycle = [ProbeBwDown, ProbeBwCruise, ProbeBwRefill, ProbeBwUp];
    assert_eq!(report.states[..2], [Startup, Drain]);
    assert!(cycle.iter().all(|state| report.states.contains(state)));
    let measured = report.states.iter().filter(|&&state| state == ProbeRtt).count();
    assert!((2..=4).contains(&measured), "every five seconds: {measured}");
    for pair in report.states[2..].windows(2) {
        let position = |state| cycle.iter().position(|&other| other == state);
        match (position(pair[0]), position(pair[1])) {
            // A probe for bandwidth may start from Down as well as from Cruise.
            (Some(from), Some(to)) => assert!(to == (from + 1) % 4 || (from, to) == (0, 2), "{pair:?}"),
            (None, Some(to)) => assert_eq!(to, 1, "cruising follows the measurement"),
            (_, None) => assert_eq!(pair[1], ProbeRtt),
        }
    }
}

#[test]
fn bbr1_goes_through_its_phases_in_order() {
    let mut link = Link::new(10 * MBIT, ms(40), 0);
    link.queue = link.bdp() * 4;
    let report = run(&link, &config(Algorithm::Bbr1), seconds(25));
    use State::*;
    assert_eq!(report.states[..2], [Startup, Drain]);
    let measured = report.states.iter().filter(|&&state| state == ProbeRtt).count();
    assert!((1..=2).contains(&measured), "every ten seconds: {measured}");
    for pair in report.states[2..].windows(2) {
        let expected = match pair[0] {
            ProbeBwUp => [ProbeBwDown, ProbeRtt].as_slice(),
            ProbeBwDown => &[ProbeBwCruise, ProbeRtt],
            ProbeBwCruise => &[ProbeBwUp, ProbeRtt],
            _ => &[ProbeBwUp, ProbeBwCruise],
        };
        assert!(expected.contains(&pair[1]), "{pair:?}");
    }
}

#[test]
fn bbr1_shrugs_off_losses_that_bbr_answers() {
    let mut link = Link::new(20 * MBIT, ms(40), 0);
    link.queue = link.bdp() / 4;
    let lost = [Algorithm::Bbr1, Algorithm::Bbr].map(|algorithm| {
        let report = fill(&link, algorithm);
        assert!(report.utilisation >= 0.85, "{algorithm}: {}", report.utilisation);
        report.path.recovery.stats().lost_packets
    });
    assert!(lost[0] > 2 * lost[1], "{lost:?}");
}
