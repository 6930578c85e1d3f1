use super::policer::MAX_ROUNDS;
use super::*;
use crate::congestion::RateSample;
use crate::rtt::Rtt;

const MTU: u64 = 1000;

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Path with a round-trip time of 100 ms and one acknowledgment per round trip.
struct Path<L: LossResponse = Conserving> {
    bbr: Bbr1<L>,
    now: Time,
    delivered: u64,
    /// Bytes in flight before and after the next acknowledgment.
    in_flight: (u64, u64),
    rtt: Duration,
}

impl<L: LossResponse> Path<L> {
    fn new(seed: u64) -> Self {
        let start = Start { now: Time::ZERO, window: 10 * MTU, mtu: MTU, rtt: ms(333), seed };
        Self { bbr: Bbr1::new(&start), now: Time::ZERO, delivered: 0, in_flight: (0, 0), rtt: ms(100) }
    }

    /// Simulates a round trip with a delivery rate of `rate` bytes per second.
    fn round(&mut self, rate: u64) {
        self.step(ms(101), rate, false);
    }

    fn step(&mut self, after: Duration, rate: u64, app_limited: bool) {
        self.now += after;
        let (bytes, prior_delivered) = (rate / 10, self.delivered);
        self.delivered += bytes;
        let estimate = Rtt::new(ms(100));
        let in_flight = self.in_flight;
        let sample = RateSample {
            rate: Some(rate),
            prior_delivered,
            delivered: bytes,
            lost: 0,
            in_flight: bytes,
            app_limited,
        };
        let own = Sibling {
            window: self.bbr.window(),
            smoothed_rtt: ms(100),
            mtu: 1000,
            bytes_since_loss: 0,
            bytes_between_losses: 0,
        };
        let ack = Acked {
            now: self.now,
            bytes,
            growth: bytes,
            utilised: true,
            sent_time: self.now - ms(100),
            prior_in_flight: in_flight.0,
            in_flight: in_flight.1,
            delivered: self.delivered,
            mtu: MTU,
            rtt: &estimate,
            rtt_sample: Some(self.rtt),
            sample,
            own,
        };
        self.bbr.on_acked(&ack, &[]);
    }

    /// Returns a path after Startup, three rounds of plateau, and Drain.
    fn converged(seed: u64, rate: u64) -> Self {
        let mut path = Self::new(seed);
        (0..4).for_each(|_| path.round(rate));
        assert!(path.bbr.is_probe_bw(), "{:?}", path.bbr.state);
        path
    }

    fn congest(&mut self, ce: bool, in_flight: u64) {
        let (now, delivered) = (self.now, self.delivered);
        let own = Sibling {
            window: self.bbr.window(),
            smoothed_rtt: ms(100),
            mtu: 1000,
            bytes_since_loss: 0,
            bytes_between_losses: 0,
        };
        let event = Congested { now, sent_time: now, ce, in_flight, delivered, mtu: MTU, own };
        self.bbr.on_congestion(&event, &[]);
    }

    fn lose(&mut self) {
        self.bbr.on_lost(&LostPacket {
            now: self.now,
            bytes: MTU,
            in_flight: MTU,
            lost_since: MTU,
            app_limited: false,
            delivered: self.delivered,
            mtu: MTU,
        });
    }
}

#[test]
fn startup_paces_at_two_over_ln_two() {
    let mut path = Path::<Conserving>::new(1);
    assert_eq!(path.bbr.pacing_rate(), Some(28_850_000), "ten packets in a millisecond");
    path.round(50_000);
    assert_eq!(path.bbr.pacing_rate(), Some(288_500), "ten packets per round trip");
    path.round(200_000);
    assert_eq!(path.bbr.pacing_rate(), Some(577_000));
    // 2.885 bandwidth-delay products of 20 kB, and three quanta of two packets.
    assert_eq!(path.bbr.inflight(path.bbr.window_gain()), 57_700 + 6_000);
}

#[test]
fn startup_ends_after_three_rounds_without_a_quarter_more_and_drain_when_the_queue_is_gone() {
    let mut path = Path::<Conserving>::new(1);
    for rate in [100_000, 125_000, 160_000, 200_000, 230_000, 240_000] {
        path.round(rate);
    }
    assert_eq!(path.bbr.state(), State::Startup);
    path.in_flight = (80_000, 60_000);
    path.round(240_000);
    assert_eq!(path.bbr.state(), State::Drain);
    assert_eq!(path.bbr.pacing_rate(), Some(240_000 * 346 / 1000));
    // A bandwidth-delay product of 24 kB, and three quanta.
    path.in_flight = (60_000, 27_001);
    path.round(240_000);
    assert_eq!(path.bbr.state(), State::Drain);
    path.in_flight = (60_000, 24_000 + 3_000);
    path.round(240_000);
    assert!(path.bbr.is_probe_bw());
}

#[test]
fn an_idle_application_does_not_end_startup() {
    let mut path = Path::<Conserving>::new(1);
    (0..20).for_each(|_| path.step(ms(101), 100_000, true));
    assert_eq!(path.bbr.state(), State::Startup);
}

#[test]
fn the_cycle_has_eight_phases_of_a_round_trip() {
    let mut path = Path::<Conserving>::converged(1, 1_000_000);
    path.in_flight = (1_000_000, 100_000);
    while path.bbr.state() != State::ProbeBwUp {
        path.round(1_000_000);
    }
    let mut gains = Vec::new();
    for _ in 0..16 {
        gains.push(path.bbr.pacing_rate().unwrap() / 1000);
        path.round(1_000_000);
    }
    assert_eq!(gains, [CYCLE, CYCLE].concat());
    assert_eq!(path.bbr.window(), 200_000 + 6_000, "two products and three quanta");
}

#[test]
fn probing_up_lasts_until_it_was_tried_or_met_a_loss() {
    let mut path = Path::<Conserving>::converged(1, 1_000_000);
    path.in_flight = (1_000_000, 100_000);
    while path.bbr.state() != State::ProbeBwUp {
        path.round(1_000_000);
    }
    // 1.25 bandwidth-delay products, and three quanta of two packets.
    path.in_flight.0 = 125_000 + 6_000 - 1;
    (0..5).for_each(|_| path.round(1_000_000));
    assert_eq!(path.bbr.state(), State::ProbeBwUp);
    path.lose();
    path.round(1_000_000);
    assert_eq!(path.bbr.state(), State::ProbeBwDown);
    // Draining ends early when the queue is empty.
    path.in_flight.0 = 100_000 + 6_000;
    path.step(ms(1), 1_000_000, false);
    assert_eq!(path.bbr.state(), State::ProbeBwCruise);
}

#[test]
fn no_cycle_starts_by_sending_less_and_seeds_differ() {
    let mut states = Vec::new();
    for seed in 0..64 {
        let path = Path::<Conserving>::converged(seed, 1_000_000);
        assert_ne!(path.bbr.state(), State::ProbeBwDown);
        states.push(path.bbr.cycle_index);
    }
    states.sort_unstable();
    states.dedup();
    assert_eq!(states, [0, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn bandwidth_is_remembered_for_ten_rounds() {
    let mut max = RecentMax::default();
    max.update(3, 500);
    max.update(3, 400);
    max.update(4, 300);
    assert_eq!(max.get(), 500);
    max.update(12, 100);
    assert_eq!(max.get(), 500);
    max.update(13, 100);
    assert_eq!(max.get(), 300);
    max.update(1_000_000, 7);
    assert_eq!(max.get(), 7, "everything else is too old");
    let mut path = Path::<Conserving>::converged(1, 1_000_000);
    (0..9).for_each(|_| path.round(600_000));
    assert_eq!(path.bbr.bandwidth.get(), 1_000_000);
    path.round(600_000);
    assert_eq!(path.bbr.bandwidth.get(), 600_000);
}

#[test]
fn an_application_limited_sample_only_counts_if_it_is_larger() {
    let mut path = Path::<Conserving>::converged(1, 1_000_000);
    (0..30).for_each(|_| path.step(ms(101), 300_000, true));
    assert_eq!(path.bbr.bandwidth.get(), 1_000_000, "idle rounds push nothing out");
    path.step(ms(101), 1_200_000, true);
    assert_eq!(path.bbr.bandwidth.get(), 1_200_000);
}

#[test]
fn the_path_is_emptied_to_four_packets_for_200_ms_after_ten_seconds() {
    let mut path = Path::<Conserving>::converged(1, 1_000_000);
    let window = 200_000 + 6_000;
    path.in_flight = (150_000, 100_000);
    path.rtt = ms(120);
    let since = path.bbr.min_rtt_stamp;
    while path.bbr.state() != State::ProbeRtt {
        path.round(1_000_000);
        assert!(path.now <= since + ms(10_101));
    }
    assert!(path.now > since + ms(10_000));
    assert_eq!((path.bbr.window(), path.bbr.min_rtt), (4 * MTU, ms(120)));
    // The 200 ms begin when the path is nearly empty.
    (0..10).for_each(|_| path.round(1_000_000));
    assert_eq!(path.bbr.state(), State::ProbeRtt);
    path.in_flight = (4_000, 4_000);
    path.round(1_000_000);
    path.step(ms(200), 1_000_000, true);
    assert_eq!((path.bbr.state(), path.bbr.window()), (State::ProbeRtt, 4 * MTU));
    path.step(ms(1), 1_000_000, true);
    assert!(path.bbr.is_probe_bw());
    assert!(path.bbr.window() >= window, "the window is restored: {}", path.bbr.window());
}

#[test]
fn losses_and_marks_change_nothing_for_a_blind_sender() {
    let mut path = Path::<Blind>::converged(1, 1_000_000);
    let before = (path.bbr.window(), path.bbr.pacing_rate());
    path.congest(false, 50_000);
    path.congest(true, 50_000);
    path.lose();
    assert_eq!(before, (path.bbr.window(), path.bbr.pacing_rate()));
}

#[test]
fn a_loss_is_followed_by_a_round_in_which_sent_bytes_replace_delivered_ones() {
    let mut path = Path::<Conserving>::converged(1, 1_000_000);
    path.round(1_000_000);
    let before = (path.bbr.window(), path.bbr.pacing_rate());
    path.congest(true, 50_000);
    assert_eq!(before, (path.bbr.window(), path.bbr.pacing_rate()), "a mark is no loss");
    path.congest(false, 50_000);
    assert_eq!(path.bbr.window(), 51_000);
    path.lose();
    assert_eq!(path.bbr.window(), 50_000);
    assert_eq!(before.1, path.bbr.pacing_rate());
    // An acknowledgment arrives before the round ends.
    path.bbr.rounds.start(path.delivered + 1);
    path.in_flight = (50_000, 47_000);
    path.step(ms(10), 50_000, false);
    assert_eq!(path.bbr.window(), 52_000, "47,000 in flight and 5,000 delivered");
    path.step(ms(91), 1_000_000, false);
    assert_eq!(path.bbr.window(), before.0);
}

#[test]
fn a_spurious_loss_gives_the_window_back() {
    let mut path = Path::<Conserving>::converged(1, 1_000_000);
    path.round(1_000_000);
    let before = path.bbr.window();
    path.congest(false, 50_000);
    path.bbr.on_spurious(path.now);
    assert_eq!(path.bbr.window(), before);
}

/// Loses a fifth of the bytes of `rounds` rounds that deliver `rate` bytes per second.
fn police(path: &mut Path<Policed>, rounds: u32, rate: u64) {
    for _ in 0..rounds {
        (0..rate / 10 / 4 / MTU).for_each(|_| path.lose());
        path.round(rate);
    }
}

#[test]
fn two_intervals_of_the_same_rate_with_many_losses_are_a_policer() {
    let mut path = Path::<Policed>::converged(1, 1_000_000);
    police(&mut path, 9, 400_000);
    // The rate is measured over rounds of 101 ms.
    let rate = 400_000 * 100 / 101;
    assert_eq!(path.bbr.pacing_rate().map(|pace| pace.abs_diff(rate) < rate / 100), Some(true));
    for _ in 0..20 {
        path.round(1_000_000);
        assert!(path.bbr.pacing_rate().unwrap() < 410_000, "it does not probe");
    }
    (0..40).for_each(|_| path.round(1_000_000));
    assert!(path.bbr.pacing_rate().unwrap() >= 750_000, "it probes again after 48 rounds");
}

#[test]
fn intervals_of_different_rates_or_few_losses_are_none() {
    let mut path = Path::<Policed>::converged(1, 1_000_000);
    police(&mut path, 5, 400_000);
    police(&mut path, 5, 600_000);
    assert_eq!(path.bbr.loss_response.rate_limit(), None, "different rates");
    let mut path = Path::<Policed>::converged(1, 1_000_000);
    for _ in 0..12 {
        path.lose();
        path.round(400_000);
    }
    assert_eq!(path.bbr.loss_response.rate_limit(), None, "one of forty packets");
}

#[test]
fn intervals_of_more_than_max_rounds_are_dropped() {
    let limit_after = |quiet| {
        let mut path = Path::<Policed>::converged(1, 1_000_000);
        police(&mut path, 5, 400_000);
        (0..quiet).for_each(|_| path.round(400_000));
        // As many losses as the whole interval needs to count.
        (0..20 * MAX_ROUNDS).for_each(|_| path.lose());
        path.round(400_000);
        path.bbr.loss_response.rate_limit()
    };
    assert!(limit_after(MAX_ROUNDS - 2).is_some());
    assert_eq!(limit_after(MAX_ROUNDS + 1), None);
}

#[test]
fn persistent_congestion_is_followed_by_a_round_of_conservation() {
    let mut path = Path::<Conserving>::converged(1, 1_000_000);
    path.round(1_000_000);
    let window = path.bbr.window();
    path.bbr.on_persistent_congestion(path.now, MTU);
    path.bbr.on_persistent_congestion(path.now, MTU);
    assert_eq!(path.bbr.window(), 4 * MTU);
    // A packet sent before the event is acknowledged. The window then allows only as many bytes as were
    // delivered.
    path.in_flight = (9_000, 6_000);
    path.bbr.rounds.start(path.delivered + 1);
    path.step(ms(10), 30_000, false);
    assert_eq!(path.bbr.window(), 9_000);
    // A packet sent after the event is acknowledged, and the round ends.
    path.step(ms(91), 1_000_000, false);
    assert_eq!(path.bbr.window(), window);
}

#[test]
fn a_restart_from_idle_keeps_the_pace_at_the_estimate_and_does_not_probe_the_round_trip() {
    let mut path = Path::<Conserving>::converged(1, 1_000_000);
    path.in_flight = (1_000_000, 100_000);
    while path.bbr.state() != State::ProbeBwUp {
        path.round(1_000_000);
    }
    path.now += Duration::from_secs(30);
    let departure =
        Departure { now: path.now, bytes: MTU, in_flight: 0, app_limited: true, delivered: path.delivered };
    path.bbr.on_sent(&departure);
    assert_eq!(path.bbr.pacing_rate(), Some(1_000_000));
    path.in_flight = (1_000, 0);
    path.step(ms(100), 10_000, true);
    assert_ne!(path.bbr.state(), State::ProbeRtt);
    assert_eq!(path.bbr.min_rtt_stamp, path.now, "the old minimum had run out");
}
