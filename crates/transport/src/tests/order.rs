//! Count of packets that arrive in order, separately for each path.

use std::time::Duration;

use anabranch_wire::{Side, Version};

use super::pair::{Pair, over, pattern};
use super::paths::far_apart;
use crate::Numbering;

/// Runs a download and returns the share of the client's packets that arrived in order.
fn ordered(pair: &mut Pair) -> f64 {
    let data = pattern(3_000_000);
    assert!(pair.transfer(Side::Server, &data) == data);
    let stats = pair.client().stats();
    let packets: u64 = stats.paths.iter().map(|path| path.data_packets).sum();
    assert!(packets > 2_000, "{packets} packets");
    stats.ordered_ratio().unwrap()
}

#[test]
fn a_packet_that_was_overtaken_counts_once() {
    for version in [Version::V1, Version::REVERSO] {
        over(version, || {
            let mut pair = Pair::new();
            assert_eq!(pair.client().stats().ordered_ratio(), None);
            pair.connect();
            pair.run_until_quiet();
            assert!(ordered(&mut pair) > 0.999);
            // Every packet is duplicated, and every tenth packet to the client is late.
            let mut sent = 0;
            pair.network = Some(Box::new(move |from, flying| {
                let mut copy = flying.clone();
                if from == Side::Server {
                    sent += 1;
                    copy.at += Duration::from_millis(if sent % 10 == 0 { 3 } else { 0 });
                }
                vec![copy.clone(), copy]
            }));
            let before = pair.client().stats();
            ordered(&mut pair);
            let after = pair.client().stats();
            let [packets, overtaken] = [
                after.paths[0].data_packets - before.paths[0].data_packets,
                after.paths[0].reordering.packets() - before.paths[0].reordering.packets(),
            ];
            let share = overtaken as f64 / packets as f64;
            assert!((0.07..=0.11).contains(&share), "{overtaken} of {packets}");
            let reordering = after.reordering();
            assert_eq!(reordering.packets(), after.paths[0].reordering.packets());
            assert_eq!(reordering.untimed, 0);
            assert!((1_000..=3_000).contains(&reordering.max_delay.as_micros()), "{reordering:?}");
            assert!(reordering.max_distance > 1 && reordering.max_distance < packets, "{reordering:?}");
        });
    }
}

#[test]
fn paths_do_not_overtake_each_other() {
    for numbering in [Numbering::Multiple, Numbering::Single] {
        let mut pair = far_apart(numbering);
        assert!(ordered(&mut pair) > 0.99, "{numbering:?}");
        let used = pair.client().stats().paths.iter().filter(|path| path.data_packets > 20).count();
        assert_eq!(used, 2, "{numbering:?}");
    }
}
