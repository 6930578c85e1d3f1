use super::*;
use crate::congestion::{Controller, RateSample};
use crate::rtt::Rtt;

const MTU: u64 = 1000;

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn cubic(packets: u64) -> Cubic {
    Cubic::new(&Start { now: Time::ZERO, window: packets * MTU, mtu: MTU, rtt: ms(100), seed: 0 })
}

fn own() -> Sibling {
    Sibling { window: 0, smoothed_rtt: ms(0), mtu: 1000, bytes_since_loss: 0, bytes_between_losses: 0 }
}

/// Acknowledges `bytes` at `now` on a path with a constant round-trip time of `rtt`.
fn ack(cubic: &mut impl Controller, now: Time, bytes: u64, rtt: Duration, utilised: bool) {
    let mut estimate = Rtt::new(rtt);
    estimate.update(Time::ZERO, rtt, Duration::ZERO);
    let ack = Acked {
        now,
        bytes,
        growth: bytes,
        utilised,
        sent_time: now - rtt,
        prior_in_flight: 0,
        in_flight: 0,
        delivered: 0,
        mtu: MTU,
        rtt: &estimate,
        rtt_sample: Some(rtt),
        sample: RateSample::default(),
        own: own(),
    };
    cubic.on_acked(&ack, &[]);
}

fn congestion(cubic: &mut impl Controller, now: Time) {
    let event =
        Congested { now, sent_time: now, ce: false, in_flight: 0, delivered: 0, mtu: MTU, own: own() };
    cubic.on_congestion(&event, &[]);
}

/// Acknowledges one window per round trip, packet by packet, for `rounds` rounds from `start`.
fn rounds(cubic: &mut Cubic, start: Time, rtt: Duration, rounds: u32) -> Time {
    let mut now = start;
    for _ in 0..rounds {
        let packets = u32::try_from(cubic.window() / MTU).unwrap();
        for n in 0..packets {
            ack(cubic, now + rtt * n / packets, MTU, rtt, true);
        }
        now += rtt;
    }
    now
}

#[test]
fn the_curve_by_hand() {
    // From 100 packets down to 70: K = cbrt(30/0.4) = 4.2172 s.
    let curve = Curve { window: 70 * MTU, ssthresh: 70 * MTU, max: 100 * MTU, prior: 100 * MTU, epoch: None };
    let epoch = curve.start_epoch(Time::ZERO, MTU);
    assert_eq!(epoch.k, 4217);
    assert_eq!(epoch.cubic(ms(0), MTU), 70_004); // 100 − 0.4·4.217³ packets
    assert_eq!(epoch.cubic(ms(2217), MTU), 96_800); // 100 − 0.4·2³
    assert_eq!(epoch.cubic(ms(4217), MTU), 100_000);
    assert_eq!(epoch.cubic(ms(9217), MTU), 150_000); // 100 + 0.4·5³
    // Without a deficit K is zero.
    let fresh = Curve { max: 50 * MTU, ..curve }.start_epoch(Time::ZERO, MTU);
    assert_eq!((fresh.k, fresh.origin), (0, 70_000));
}

#[test]
fn cube_roots() {
    for n in [0, 1, 2, 7, 100, 4217, 1 << 24] {
        assert_eq!(cube_root(n * n * n), n);
        assert_eq!(cube_root((n + 1) * (n + 1) * (n + 1) - 1), n);
    }
}

#[test]
fn reduction_plateau_and_convex_growth() {
    let mut cubic = cubic(100);
    congestion(&mut cubic, Time::ZERO);
    assert_eq!((cubic.window(), cubic.ssthresh()), (70_000, Some(70_000)));
    assert_eq!(cubic.state(), State::Recovery);
    // At 200 ms, α at 100 packets is too slow for the Reno-friendly region to matter.
    let now = rounds(&mut cubic, Time::ZERO, ms(200), 10);
    assert!((94_000..97_000).contains(&cubic.window()), "2 s: 96.1 a round trip ahead: {}", cubic.window());
    let now = rounds(&mut cubic, now, ms(200), 11);
    assert!((99_000..=100_100).contains(&cubic.window()), "4.2 s, the plateau: {}", cubic.window());
    rounds(&mut cubic, now, ms(200), 25);
    assert!((143_000..153_000).contains(&cubic.window()), "9.2 s: 150: {}", cubic.window());
    assert_eq!(cubic.state(), State::CongestionAvoidance);
}

#[test]
fn short_round_trips_follow_reno() {
    let mut cubic = cubic(10);
    congestion(&mut cubic, Time::ZERO);
    // K = cbrt(3/0.4) = 1.96 s. But W_est reaches 10 packets after 5.7 rounds of α = 9/17 packets, and then
    // grows by one packet per round.
    rounds(&mut cubic, Time::ZERO, ms(10), 20);
    assert!((20_000..25_000).contains(&cubic.window()), "{}", cubic.window());
}

#[test]
fn fast_convergence_and_the_floor() {
    let mut cubic = cubic(100);
    congestion(&mut cubic, Time::ZERO);
    assert_eq!((cubic.curve.max, cubic.curve.prior), (100_000, 100_000));
    congestion(&mut cubic, Time::ZERO);
    // 70 < 100: the next plateau is 70·(1 + 0.7)/2.
    assert_eq!((cubic.curve.max, cubic.window()), (59_500, 49_000));
    (0..20).for_each(|_| congestion(&mut cubic, Time::ZERO));
    assert_eq!(cubic.window(), 2_000);
}

#[test]
fn undoing_restores_the_whole_curve() {
    let mut cubic = cubic(100);
    congestion(&mut cubic, Time::ZERO);
    rounds(&mut cubic, Time::ZERO, ms(100), 10);
    let (window, max, epoch) = (cubic.window(), cubic.curve.max, cubic.curve.epoch.unwrap());
    congestion(&mut cubic, Time::from_millis(1000));
    cubic.on_spurious(Time::from_millis(1100));
    assert_eq!((cubic.window(), cubic.curve.max), (window, max));
    assert_eq!(cubic.curve.epoch.unwrap().start, epoch.start);
}

#[test]
fn held_back_time_does_not_count() {
    let windows = [0, 60_000].map(|pause| {
        let mut cubic = cubic(100);
        congestion(&mut cubic, Time::ZERO);
        let now = rounds(&mut cubic, Time::ZERO, ms(200), 5);
        // A single packet ends a pause in which the application had no data to send.
        ack(&mut cubic, now + ms(pause), MTU, ms(200), false);
        rounds(&mut cubic, now + ms(pause), ms(200), 5);
        cubic.window()
    });
    assert!(windows[0].abs_diff(windows[1]) < 200, "{windows:?}");
}

#[test]
fn persistent_congestion_starts_over() {
    let mut cubic = cubic(100);
    congestion(&mut cubic, Time::ZERO);
    cubic.on_persistent_congestion(Time::ZERO, MTU);
    assert_eq!((cubic.window(), cubic.state()), (2_000, State::SlowStart));
    ack(&mut cubic, Time::from_millis(100), 2_000, ms(100), true);
    assert_eq!(cubic.window(), 4_000);
}

#[test]
fn the_sender_of_2022_gives_up_an_eighth_and_leaves_slow_start_when_round_trips_lengthen() {
    let start = Start { now: Time::ZERO, window: 100 * MTU, mtu: MTU, rtt: ms(100), seed: 0 };
    let mut cubic = CubicLike::<Study2022>::new(&start);
    congestion(&mut cubic, Time::ZERO);
    assert_eq!((cubic.window(), cubic.ssthresh()), (87_500, Some(87_500)));
    // A second event below the last plateau: the next plateau is 87.5 · (8 + 7) / 16.
    congestion(&mut cubic, Time::from_millis(1));
    assert_eq!((cubic.window(), cubic.curve.max), (76_562, 82_031));

    let mut cubic = CubicLike::<Study2022>::new(&start);
    let mut now = Time::ZERO;
    for rtt in [100; 10].into_iter().chain([120; 30]) {
        now += ms(2);
        ack(&mut cubic, now, MTU, ms(rtt), true);
    }
    assert_eq!((cubic.state(), cubic.window()), (State::SlowStart, 140 * MTU), "a fifth more is allowed");
    for _ in 0..13 {
        now += ms(2);
        ack(&mut cubic, now, MTU, ms(130), true);
    }
    assert_eq!(cubic.state(), State::CongestionAvoidance);
}

#[test]
fn the_sender_of_2017_gives_up_half_as_much_and_grows_as_two_flows() {
    let start = Start { now: Time::ZERO, window: 100 * MTU, mtu: MTU, rtt: ms(100), seed: 0 };
    let mut cubic = CubicLike::<Study2017>::new(&start);
    congestion(&mut cubic, Time::ZERO);
    assert_eq!((cubic.window(), cubic.ssthresh()), (85_000, Some(85_000)));
    // α = 3·2²·(1 − 0.85)/(1 + 0.85)
    let (numerator, denominator) = Study2017::ALPHA;
    assert_eq!(numerator * 185, denominator * 3 * 4 * 15);
}

#[test]
fn the_end_of_slow_start_covers_the_losses_of_packets_in_flight() {
    fn windows<S: Shape>() -> [u64; 3] {
        let start = Start { now: Time::ZERO, window: 100 * MTU, mtu: MTU, rtt: ms(100), seed: 0 };
        let mut cubic = CubicLike::<S>::new(&start);
        let mut now = Time::ZERO;
        for rtt in [100; 10].into_iter().chain([130; 13]) {
            now += ms(2);
            ack(&mut cubic, now, MTU, ms(rtt), true);
        }
        assert_eq!(cubic.state(), State::CongestionAvoidance);
        let after = cubic.window();
        let mut lose = |sent_time| {
            let event =
                Congested { now, sent_time, ce: false, in_flight: 0, delivered: 0, mtu: MTU, own: own() };
            cubic.on_congestion(&event, &[]);
            cubic.window()
        };
        [after, lose(now), lose(now + ms(1))]
    }
    let [after, in_flight, later] = windows::<Study2022>();
    assert_eq!((in_flight, later), (after, after * 7 / 8));
    let [after, in_flight, later] = windows::<Study2022Strict>();
    assert_eq!((in_flight, later), (after * 7 / 8, after * 7 / 8 * 7 / 8));
}

mod hystart {
    use super::*;

    /// Simulates a round of `samples` acknowledgments of one packet each, and returns their results.
    /// `delivered` is advanced.
    fn round(hystart: &mut HyStart, delivered: &mut u64, rtt: Duration, samples: u64) -> Vec<Growth> {
        let begin = *delivered;
        let estimate = Rtt::new(rtt);
        let mut growth = Vec::new();
        for n in 0..samples {
            *delivered += MTU;
            // The first acknowledgment is for a packet that was sent after the end of the last round.
            let prior_delivered = if n == 0 { begin } else { begin.saturating_sub(1) };
            let ack = Acked {
                now: Time::ZERO,
                bytes: MTU,
                growth: MTU,
                utilised: true,
                sent_time: Time::ZERO,
                prior_in_flight: 0,
                in_flight: 0,
                delivered: *delivered,
                mtu: MTU,
                rtt: &estimate,
                rtt_sample: Some(rtt),
                sample: RateSample { prior_delivered, ..RateSample::default() },
                own: own(),
            };
            growth.push(hystart.on_acked(&ack));
        }
        growth
    }

    #[test]
    fn a_rise_of_an_eighth_slows_down_and_five_rounds_end_it() {
        let (mut hystart, mut delivered) = (HyStart::default(), 0);
        round(&mut hystart, &mut delivered, ms(80), 20);
        round(&mut hystart, &mut delivered, ms(80), 20);
        round(&mut hystart, &mut delivered, ms(89), 20);
        assert!(!hystart.is_conservative(), "80/8 = 10 ms are allowed");
        let growth = round(&mut hystart, &mut delivered, ms(101), 20);
        assert!(hystart.is_conservative());
        assert_eq!((growth[1], growth[19]), (Growth::By(1000), Growth::By(250)));
        let ended: Vec<_> = (0..5)
            .map(|_| round(&mut hystart, &mut delivered, ms(101), 20).contains(&Growth::Done))
            .collect();
        assert_eq!(ended, [false, false, false, false, true]);
    }

    #[test]
    fn a_passing_rise_resumes_slow_start() {
        let (mut hystart, mut delivered) = (HyStart::default(), 0);
        round(&mut hystart, &mut delivered, ms(80), 20);
        round(&mut hystart, &mut delivered, ms(80), 20);
        round(&mut hystart, &mut delivered, ms(120), 20);
        assert!(hystart.is_conservative());
        round(&mut hystart, &mut delivered, ms(85), 20);
        assert!(!hystart.is_conservative());
    }

    #[test]
    fn too_few_samples_prove_nothing() {
        let (mut hystart, mut delivered) = (HyStart::default(), 0);
        for rtt in [80, 100, 120, 140] {
            round(&mut hystart, &mut delivered, ms(rtt), 7);
            assert!(!hystart.is_conservative());
        }
    }

    #[test]
    fn thresholds_are_bounded() {
        for (base, allowed) in [(8, 3), (400, 15)] {
            let (mut hystart, mut delivered) = (HyStart::default(), 0);
            (0..2).for_each(|_| drop(round(&mut hystart, &mut delivered, ms(base), 20)));
            round(&mut hystart, &mut delivered, ms(base + allowed), 20);
            assert!(!hystart.is_conservative(), "{base} + {allowed}");
            let (mut hystart, mut delivered) = (HyStart::default(), 0);
            (0..2).for_each(|_| drop(round(&mut hystart, &mut delivered, ms(base), 20)));
            round(&mut hystart, &mut delivered, ms(base + allowed + 1), 20);
            assert!(hystart.is_conservative(), "{base} + {allowed} + 1");
        }
    }
}
