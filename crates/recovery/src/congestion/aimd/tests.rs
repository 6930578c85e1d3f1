use core::time::Duration;

use super::*;
use crate::congestion::RateSample;
use crate::congestion::balia::Balia;
use crate::congestion::lia::Lia;
use crate::congestion::newreno::NewReno;
use crate::congestion::olia::Olia;
use crate::rtt::Rtt;

const MTU: u64 = 1000;

/// Returns a path with a window of `packets` packets, a round-trip time of `rtt` milliseconds, and the bytes
/// acknowledged since the last congestion event and between the last two.
fn path(packets: u64, rtt: u64, since: u64, between: u64) -> Sibling {
    Sibling {
        window: packets * MTU,
        smoothed_rtt: Duration::from_millis(rtt),
        mtu: 1000,
        bytes_since_loss: since,
        bytes_between_losses: between,
    }
}

/// Returns the increase of each path of `all`, in packets per window acknowledged.
fn increases<R: Rule>(all: &[Sibling]) -> Vec<f64> {
    each(all, |own, siblings| R::increase(own, siblings) as f64 / ONE as f64)
}

fn each<T>(all: &[Sibling], value: impl Fn(&Sibling, &[Sibling]) -> T) -> Vec<T> {
    (0..all.len())
        .map(|n| {
            let mut siblings = all.to_vec();
            let own = siblings.remove(n);
            value(&own, &siblings)
        })
        .collect()
}

fn assert_near(actual: &[f64], expected: &[f64]) {
    assert_eq!(actual.len(), expected.len());
    for (a, e) in actual.iter().zip(expected) {
        assert!((a - e).abs() < 1e-6, "{actual:?} is not {expected:?}");
    }
}

#[test]
fn lia_by_hand() {
    // Equal paths: α = 20·(10/r²)/(20/r)² = 1/2; a window of 10 out of 20 gets 10·α/20.
    assert_near(&increases::<Lia>(&[path(10, 100, 0, 0), path(10, 100, 0, 0)]), &[0.25, 0.25]);
    // 10 packets at 100 ms and 40 at 200 ms: w/rtt² is 1000 for both, Σ w/rtt is 100 + 200 per second,
    // α = 50·1000/300² = 5/9; 10·α/50 = 1/9 and 40·α/50 = 4/9.
    assert_near(&increases::<Lia>(&[path(10, 100, 0, 0), path(40, 200, 0, 0)]), &[1.0 / 9.0, 4.0 / 9.0]);
    // 20 packets at 50 ms, 10 at 100 ms, 30 at 300 ms: w/rtt² is 8000, 1000, 333; Σ w/rtt = 400 + 100 + 100;
    // α/w_total = 8000/600² = 1/45; times 20, 10 and 30.
    let three = [path(20, 50, 0, 0), path(10, 100, 0, 0), path(30, 300, 0, 0)];
    assert_near(&increases::<Lia>(&three), &[20.0 / 45.0, 10.0 / 45.0, 30.0 / 45.0]);
}

#[test]
fn lia_is_nowhere_more_aggressive_than_newreno() {
    // 10 packets at 10 ms, 100 at 1 s: α/w_total = 100000/1100² = 0.0826. For 100 packets, that is over
    // eight, and the limit is one.
    let far = [path(10, 10, 0, 0), path(100, 1000, 0, 0)];
    assert_near(&increases::<Lia>(&far), &[100_000.0 / 121_000.0, 1.0]);
}

#[test]
fn olia_without_collected_paths_is_the_square_of_the_share() {
    // All paths are equal: all are best, all have the largest window, none is collected.
    assert_near(&increases::<Olia>(&[path(10, 100, 5, 5), path(10, 100, 5, 5)]), &[0.25, 0.25]);
    // The best path has the largest window. Rates 400 and 100 per second.
    assert_near(&increases::<Olia>(&[path(20, 50, 9, 0), path(10, 100, 9, 0)]), &[0.64, 0.04]);
}

#[test]
fn olia_moves_traffic_to_better_paths() {
    // Rates 200 and 100; ℓ/rtt² favours the second path: α = ±1/(2·1).
    let two = [path(20, 100, 1000, 2000), path(10, 100, 3000, 0)];
    assert_near(&increases::<Olia>(&two), &[4.0 / 9.0 - 0.5, 1.0 / 9.0 + 0.5]);
    // The longer of a path's two intervals between losses counts, and the round-trip time is squared:
    // 2000/100² is less than 999/70².
    let near = [path(20, 100, 2000, 0), path(14, 70, 0, 999)];
    assert_near(&increases::<Olia>(&near), &[0.25 - 0.5, 0.25 + 0.5]);
    let tied_quality = [path(20, 100, 4000, 0), path(10, 50, 1000, 0)];
    assert_near(&increases::<Olia>(&tied_quality), &[0.25 - 0.5, 0.25 + 0.5]);
}

#[test]
fn olia_shares_alpha_among_ties() {
    // Two paths with the largest window, two collected ones that tie, and one that is neither. The shares are
    // 10, 10, 5, 5 and 5 of 35.
    let five = [
        path(10, 100, 10, 0),
        path(10, 100, 20, 0),
        path(5, 100, 0, 90),
        path(5, 100, 90, 0),
        path(5, 100, 80, 80),
    ];
    let (large, small) = ((10.0 / 35.0f64).powi(2), (5.0 / 35.0f64).powi(2));
    let expected = [large - 0.1, large - 0.1, small + 0.1, small + 0.1, small];
    assert_near(&increases::<Olia>(&five), &expected);
    // A best path with the largest window is not collected, but the other best one is.
    let tie = [path(10, 100, 90, 0), path(5, 100, 90, 0), path(5, 100, 10, 0)];
    assert_near(&increases::<Olia>(&tie), &[0.25 - 1.0 / 3.0, 1.0 / 16.0 + 1.0 / 3.0, 1.0 / 16.0]);
    // Before any data is delivered all paths are best, and those below the largest window are collected.
    let fresh = [path(10, 100, 0, 0), path(5, 100, 0, 0), path(5, 100, 0, 0)];
    let gain = 1.0 / 16.0 + 1.0 / 6.0;
    assert_near(&increases::<Olia>(&fresh), &[0.25 - 1.0 / 3.0, gain, gain]);
}

#[test]
fn olia_moves_as_much_as_it_adds() {
    let all = [path(10, 10, 7, 0), path(30, 80, 9, 0), path(30, 20, 1, 0), path(3, 40, 999_999, 0)];
    let total = total_rate(&all[0], &all[1..]);
    let squares: f64 = all.iter().map(|path| (share(path, total) as f64 / ONE as f64).powi(2)).sum();
    let sum: f64 = increases::<Olia>(&all).iter().sum();
    assert!((sum - squares).abs() < 1e-6, "α sums up to nothing: {sum} {squares}");
}

#[test]
fn balia_by_hand() {
    // Equal paths: α = 1, x² · 1 · 1.
    assert_near(&increases::<Balia>(&[path(10, 100, 0, 0), path(10, 100, 0, 0)]), &[0.25, 0.25]);
    // Rates 400 and 100: (0.8)²·1·1, and α = 4: (0.2)²·(5/2)·(8/5).
    assert_near(&increases::<Balia>(&[path(20, 50, 0, 0), path(10, 100, 0, 0)]), &[0.64, 0.16]);
    // Rates 400, 100 and 100 of 600: (2/3)², and (1/6)²·4.
    let three = [path(20, 50, 0, 0), path(10, 100, 0, 0), path(30, 300, 0, 0)];
    assert_near(&increases::<Balia>(&three), &[4.0 / 9.0, 1.0 / 9.0, 1.0 / 9.0]);
}

#[test]
fn balia_cuts_slow_paths_more() {
    // Rates 400 and 100: the first window is halved. The second is reduced by 3/4, because its α = 4 is
    // limited to 3/2.
    assert_eq!(each(&[path(20, 50, 0, 0), path(12, 120, 0, 0)], Balia::reduced), [10_000, 3_000]);
    // Rates 125 and 100: the first window is halved. The second is reduced by 5/8, because its α is 5/4.
    assert_eq!(each(&[path(25, 200, 0, 0), path(16, 160, 0, 0)], Balia::reduced), [12_500, 6_000]);
    assert_eq!(each(&[path(20, 50, 0, 0), path(12, 120, 0, 0)], Lia::reduced), [10_000, 6_000]);
    assert_eq!(each(&[path(20, 50, 0, 0), path(12, 120, 0, 0)], Olia::reduced), [10_000, 6_000]);
}

#[test]
fn extreme_paths_do_not_overflow() {
    let mut all = [path(2, 0, u64::MAX, 0), path(1 << 40, 3_600_000, 0, u64::MAX), path(1, 1, 0, 0)];
    all[0].smoothed_rtt = Duration::from_nanos(1);
    for values in [increases::<Lia>(&all), increases::<Olia>(&all), increases::<Balia>(&all)] {
        assert!(values.iter().all(|value| (-1.0..=1.5).contains(value)), "{values:?}");
    }
    all[2].window = 0;
    assert_eq!(each(&all[1..], Balia::reduced), [(1 << 39) * MTU, 0]);
}

/// Acknowledges a packet on a controller whose siblings are `siblings`.
fn ack<R: Rule>(controller: &mut Aimd<R>, utilised: bool, siblings: &[Sibling]) {
    let rtt = Rtt::new(Duration::from_millis(100));
    let ack = Acked {
        now: Time::ZERO,
        bytes: MTU,
        growth: MTU,
        utilised,
        sent_time: Time::ZERO,
        prior_in_flight: 0,
        in_flight: 0,
        delivered: 0,
        mtu: MTU,
        rtt: &rtt,
        rtt_sample: None,
        sample: RateSample::default(),
        own: Sibling { window: controller.window(), ..path(0, 100, 50, 50) },
    };
    controller.on_acked(&ack, siblings);
}

fn congestion<R: Rule>(controller: &mut Aimd<R>, siblings: &[Sibling]) {
    let own = Sibling { window: controller.window(), ..path(0, 100, 0, 50) };
    let event = Congested {
        now: Time::ZERO,
        sent_time: Time::ZERO,
        ce: false,
        in_flight: 0,
        delivered: 0,
        mtu: MTU,
        own,
    };
    controller.on_congestion(&event, siblings);
}

/// Returns a controller in congestion avoidance with a window of `packets`.
fn avoiding<R: Rule>(packets: u64) -> Aimd<R> {
    let window = 2 * packets * MTU;
    let start = Start { now: Time::ZERO, window, mtu: MTU, rtt: Duration::from_millis(100), seed: 0 };
    let mut controller = Aimd::new(&start);
    congestion(&mut controller, &[]);
    ack(&mut controller, false, &[]);
    assert_eq!((controller.window(), controller.state()), (packets * MTU, State::CongestionAvoidance));
    controller
}

/// Returns the windows after each event of a connection without siblings: slow start, losses, spurious losses
/// and persistent congestion.
fn life<R: Rule>() -> Vec<u64> {
    let start = Start { now: Time::ZERO, window: 10_007, mtu: MTU, rtt: Duration::from_millis(100), seed: 0 };
    let mut controller: Aimd<R> = Aimd::new(&start);
    (1..3000)
        .map(|n| {
            ack(&mut controller, n % 7 != 0, &[]);
            match n {
                40 | 1111 | 2000 | 2222 => congestion(&mut controller, &[]),
                2010 => controller.on_spurious(Time::ZERO),
                2500 => controller.on_persistent_congestion(Time::ZERO, MTU),
                _ => {}
            }
            controller.window()
        })
        .collect()
}

#[test]
fn one_path_alone_behaves_as_newreno() {
    let reno = life::<NewReno>();
    assert_eq!(reno, life::<Lia>());
    assert_eq!(reno, life::<Olia>());
    assert_eq!(reno, life::<Balia>());
}

#[test]
fn the_window_grows_by_the_increase() {
    // Equal paths with windows of ten packets: one packet more for each four windows acknowledged.
    let mut lia = avoiding::<Lia>(10);
    (0..39).for_each(|_| ack(&mut lia, true, &[path(10, 100, 0, 0)]));
    assert_eq!(lia.window(), 10_000);
    ack(&mut lia, true, &[path(10, 100, 0, 0)]);
    assert_eq!(lia.window(), 11_000);
}

#[test]
fn slow_start_is_not_coupled() {
    let start = Start { now: Time::ZERO, window: 10_000, mtu: MTU, rtt: Duration::from_millis(100), seed: 0 };
    let mut olia: Aimd<Olia> = Aimd::new(&start);
    (0..10).for_each(|_| ack(&mut olia, true, &[path(10, 100, 0, 0)]));
    assert_eq!((olia.window(), olia.state()), (20_000, State::SlowStart));
}

#[test]
fn a_window_that_gives_way_shrinks_by_packets_down_to_the_minimum_and_stays_out_of_slow_start() {
    // Rates of 60, 125 and 125 per second. The path has the largest window, and the two better ones are
    // collected: (60/310)² − 1/3 = −0.2959 packets for each window of six, and 20 · 0.2959 < 6 < 21 · 0.2959.
    let better = path(2, 16, 1_000_000, 0);
    let siblings = [better, better];
    let mut olia = avoiding::<Olia>(6);
    (0..20).for_each(|_| ack(&mut olia, true, &siblings));
    assert_eq!(olia.window(), 6_000);
    ack(&mut olia, true, &siblings);
    assert_eq!(olia.window(), 5_000);
    assert_eq!(olia.state(), State::CongestionAvoidance);
    let better = Sibling { window: MTU, ..better };
    (0..1000).for_each(|_| ack(&mut olia, true, &[better, better]));
    assert_eq!(olia.window(), MIN_WINDOW_PACKETS * MTU);
    assert_eq!(olia.state(), State::CongestionAvoidance);
}
