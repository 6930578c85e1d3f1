use super::*;

/// Returns a path. A rate of 12 Mbit/s is 1000 full packets per second.
fn path(packets_per_second: f64, delay: f64) -> FluidPath {
    FluidPath { bits_per_second: packets_per_second * 12_000.0, delay }
}

fn bound(paths: &[FluidPath], payload: f64) -> f64 {
    super::bound(paths, payload, Return::Same)
}

fn close(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-9, "{found} instead of {expected}");
}

#[test]
fn a_path_that_ten_packets_fill_runs_at_its_rate_from_the_start() {
    // 1000 packets/s and a round trip of 10 ms hold exactly ten packets. The first one arrives after four
    // delays.
    close(bound(&[path(1000.0, 0.005)], 1_400_000.0), 0.020 + 1.0);
    // A shorter round trip changes only the start.
    close(bound(&[path(1000.0, 0.001)], 1_400_000.0), 0.004 + 1.0);
}

#[test]
fn a_longer_path_doubles_until_it_is_full() {
    // A round trip of 40 ms holds 40 packets. Two doublings take 80 ms, in which 10·(4 − 1)/ln 2 =
    // 43.2809 packets arrive.
    let ramped = 30.0 / core::f64::consts::LN_2;
    close(bound(&[path(1000.0, 0.020)], 1400.0 * (ramped + 500.0)), 0.080 + 0.080 + 0.5);
    // One doubling only: 10/ln 2 packets after 40 ms.
    close(bound(&[path(1000.0, 0.020)], 1400.0 * 10.0 / core::f64::consts::LN_2), 0.080 + 0.040);
}

#[test]
fn another_path_begins_after_the_handshake_and_two_round_trips_of_its_own() {
    // Path 0 delivers from 4·5 = 20 ms on, and path 1 from 2·5 + 4·2 = 18 ms on. Both have the full rate from
    // their beginning. By 518 ms they have delivered 498 and 500 packets.
    let two = [path(1000.0, 0.005), path(1000.0, 0.002)];
    close(bound(&two, 1400.0 * 998.0), 0.518);
    // With the paths swapped they begin at 4·2 = 8 ms and 2·2 + 4·5 = 24 ms.
    let swapped = [two[1], two[0]];
    close(bound(&swapped, 1400.0 * (500.0 + 484.0)), 0.508);
}

#[test]
fn a_path_too_slow_to_help_leaves_the_other_ones_time() {
    let alone = bound(&[path(1000.0, 0.005)], 140_000.0);
    close(bound(&[path(1000.0, 0.005), path(1000.0, 1.0)], 140_000.0), alone);
    assert!(bound(&[path(1000.0, 0.005), path(1000.0, 0.01)], 140_000.0) < alone);
}

#[test]
fn nothing_comes_without_a_path() {
    assert_eq!(bound(&[], 1.0), f64::INFINITY);
    assert_eq!(bound(&[path(0.0, 0.1)], 1.0), f64::INFINITY);
}

#[test]
fn a_window_doubles_in_its_way_there_and_the_quickest_way_back() {
    // The round trips are 10 and 40 ms. A packet on path 1 is acknowledged after 20 + 5 = 25 ms, in which the
    // path carries 25 packets. So its window grows for log₂ 2.5 doublings of 25 ms. Path 0 is full at once
    // and delivers from 4·5 = 20 ms on.
    let two = [path(1000.0, 0.005), path(1000.0, 0.020)];
    let ramp = 0.025 * 2.5_f64.log2();
    // Path 1 delivers from 2·5 + 4·20 = 90 ms on.
    let full = 0.090 + ramp;
    let ramped = 10.0 * 1.5 / core::f64::consts::LN_2;
    let packets = (full - 0.020) * 1000.0 + ramped;
    close(super::bound(&two, 1400.0 * (packets + 600.0), Return::Quickest), full + 0.3);
    assert!(bound(&two, 1400.0 * 1000.0) > super::bound(&two, 1400.0 * 1000.0, Return::Quickest));
    // With a single path there is no quicker one for acknowledgments.
    let one = &two[1..];
    close(bound(one, 1e6), super::bound(one, 1e6, Return::Quickest));
}
