//! Tests of the aims of coupling: at most a fair share of a shared link, and the whole capacity of disjoint
//! links.

use super::link::Link;
use super::shared::{Connection, run};
use super::*;

const MBIT: u64 = 125_000;
const COUPLED: [Algorithm; 3] = [Algorithm::Lia, Algorithm::Olia, Algorithm::Balia];
const SEEDS: u64 = 4;
/// Duration of a run in seconds. The last three quarters are measured.
const SECONDS: u64 = 80;

/// Returns a link whose queue holds the given fraction of its bandwidth-delay product.
fn link(rate: u64, rtt: Duration, (numerator, denominator): (u64, u64)) -> Link {
    let mut link = Link::new(rate, rtt, 0);
    link.queue = link.bdp() * numerator / denominator;
    link
}

/// Returns the mean share of one connection's paths in a link that they share with one NewReno flow. 1 is the
/// fair share, half of the link; the mean is over time and seeds.
fn part_of_fair_share(congestion: Algorithm, paths: usize, queue: (u64, u64)) -> f64 {
    let link = link(10 * MBIT, ms(40), queue);
    let connections = [
        Connection { congestion, paths: vec![0; paths] },
        Connection { congestion: Algorithm::NewReno, paths: vec![0] },
    ];
    let parts = (0..SEEDS).map(|seed| {
        let delivered = run(std::slice::from_ref(&link), &connections, at(SECONDS * 1000), seed);
        let [several, single] = [0, 1].map(|n| delivered[n].iter().sum::<u64>() as f64);
        2.0 * several / (several + single)
    });
    let part = parts.sum::<f64>() / SEEDS as f64;
    println!("{congestion}, {paths} paths, queue of {}/{} BDP: {part:.3} of a fair share", queue.0, queue.1);
    part
}

#[test]
fn coupled_paths_take_no_more_than_a_fair_share() {
    for congestion in COUPLED {
        for (paths, queue) in [2, 3].into_iter().flat_map(|n| [(n, (1, 2)), (n, (1, 1)), (n, (2, 1))]) {
            let part = part_of_fair_share(congestion, paths, queue);
            assert!(part <= 1.15, "{congestion}, {paths} paths, queue of {queue:?}: {part}");
            assert!(
                part >= 0.7,
                "not starved either: {congestion}, {paths} paths, queue of {queue:?}: {part}"
            );
        }
    }
}

#[test]
fn paths_that_are_not_coupled_take_more() {
    assert!(part_of_fair_share(Algorithm::NewReno, 2, (1, 1)) > 1.25);
    assert!(part_of_fair_share(Algorithm::NewReno, 3, (1, 1)) > 1.4);
}

#[test]
fn one_path_takes_its_fair_share() {
    for congestion in COUPLED {
        let part = part_of_fair_share(congestion, 1, (1, 1));
        assert!((0.85..=1.15).contains(&part), "{congestion}: {part}");
    }
}

#[test]
fn disjoint_links_are_both_filled() {
    let pairs = [
        [link(10 * MBIT, ms(40), (1, 1)), link(10 * MBIT, ms(40), (1, 1))],
        [link(20 * MBIT, ms(20), (1, 1)), link(5 * MBIT, ms(80), (1, 1))],
        [link(5 * MBIT, ms(20), (1, 1)), link(20 * MBIT, ms(80), (1, 1))],
    ];
    for (links, congestion) in pairs.iter().flat_map(|links| COUPLED.map(|congestion| (links, congestion))) {
        let delivered = run(links, &[Connection { congestion, paths: vec![0, 1] }], at(SECONDS * 1000), 0);
        for (link, other, bytes) in [(0, 1, delivered[0][0]), (1, 0, delivered[0][1])] {
            let [link, other] = [link, other].map(|n: usize| &links[n]);
            let utilisation = bytes as f64 / (link.rate * SECONDS * 3 / 4) as f64;
            println!("{congestion}, {} B/s, {:?}: {utilisation:.3}", link.rate, link.rtt);
            // BALIA reduces the window of a slower path by up to three quarters. With a full queue the window
            // is two bandwidth-delay products, so half a product remains. The link is then idle until the
            // window has grown again.
            let cuts_deeper = congestion == Algorithm::Balia && link.rate < other.rate;
            let least = if cuts_deeper { 0.75 } else { 0.85 };
            assert!(utilisation >= least, "{congestion}: {utilisation} of {link:?}");
        }
    }
}
