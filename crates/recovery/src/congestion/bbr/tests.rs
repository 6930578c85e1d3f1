use super::model::{BETA, inflight_at_loss, too_high};
use super::*;
use crate::congestion::RateSample;
use crate::rtt::Rtt;

const MTU: u64 = 1000;

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn bbr() -> Bbr {
    Bbr::new(&Start { now: Time::ZERO, window: 10 * MTU, mtu: MTU, rtt: ms(333), seed: 7 })
}

/// Path with a round-trip time of 100 ms and one acknowledgment per round trip.
struct Rounds {
    bbr: Bbr,
    now: Time,
    delivered: u64,
}

impl Rounds {
    fn new() -> Self {
        Self { bbr: bbr(), now: Time::ZERO, delivered: 0 }
    }

    fn round(&mut self, rate: u64, lost: u64, app_limited: bool) {
        self.now += ms(100);
        let (bytes, prior_delivered) = (rate / 10, self.delivered);
        self.delivered += bytes;
        let mut estimate = Rtt::new(ms(100));
        estimate.update(self.now, ms(100), ms(0));
        let own = Sibling {
            window: 0,
            smoothed_rtt: ms(100),
            mtu: 1000,
            bytes_since_loss: 0,
            bytes_between_losses: 0,
        };
        let in_flight = bytes + lost;
        let sample =
            RateSample { rate: Some(rate), prior_delivered, delivered: bytes, lost, in_flight, app_limited };
        let ack = Acked {
            now: self.now,
            bytes,
            growth: bytes,
            utilised: true,
            sent_time: self.now - ms(100),
            prior_in_flight: in_flight,
            in_flight: 0,
            delivered: self.delivered,
            mtu: MTU,
            rtt: &estimate,
            rtt_sample: Some(ms(100)),
            sample,
            own,
        };
        self.bbr.on_acked(&ack, &[]);
    }

    /// Completes Startup, three rounds of plateau, and Drain.
    fn converge(&mut self, rate: u64) {
        (0..6).for_each(|_| self.round(rate, 0, false));
        assert!(self.bbr.is_probe_bw(), "{:?}", self.bbr.state);
    }
}

#[test]
fn the_first_pace_follows_the_first_round_trip() {
    let mut rounds = Rounds::new();
    // First ten packets per millisecond, then ten packets per round trip, each times 2.773.
    assert_eq!(rounds.bbr.pacing_rate(), Some(27_730_000));
    rounds.round(10_000, 0, false);
    assert_eq!(rounds.bbr.pacing_rate(), Some(277_300));
}

#[test]
fn startup_goes_on_while_bandwidth_grows_by_a_quarter_and_ends_after_three_rounds_without() {
    let mut rounds = Rounds::new();
    for rate in [100_000, 125_000, 160_000, 200_000, 250_000] {
        rounds.round(rate, 0, false);
    }
    rounds.round(300_000, 0, false);
    rounds.round(305_000, 0, false);
    assert_eq!(rounds.bbr.state, State::Startup);
    rounds.round(305_000, 0, false);
    assert_ne!(rounds.bbr.state, State::Startup);
    assert_eq!(rounds.bbr.bandwidth, 305_000);
}

#[test]
fn an_idle_application_does_not_end_startup() {
    let mut rounds = Rounds::new();
    (0..20).for_each(|_| rounds.round(100_000, 0, true));
    assert_eq!(rounds.bbr.state, State::Startup);
}

#[test]
fn pace_and_window_follow_the_model() {
    let mut rounds = Rounds::new();
    rounds.converge(1_000_000);
    let bbr = &mut rounds.bbr;
    bbr.state = State::ProbeBwCruise;
    bbr.set_pace(bbr.pacing_gain());
    assert_eq!(bbr.pacing_rate(), Some(990_000), "1 % below the estimate");
    assert_eq!(bbr.bdp(bbr.bandwidth, UNIT), 100_000);
    // Two bandwidth-delay products, plus the bytes that were acknowledged at once.
    assert!((200_000..=300_000).contains(&bbr.window()), "{}", bbr.window());
}

#[test]
fn the_bandwidth_of_two_cycles_is_kept() {
    let mut max = MaxBandwidth::default();
    assert_eq!(max.get(), 0);
    let mut rounds = Rounds::new();
    rounds.converge(1_000_000);
    max.advance();
    rounds.bbr.max_bandwidth.advance();
    assert_eq!(rounds.bbr.max_bandwidth.get(), 1_000_000);
    rounds.round(600_000, 0, false);
    assert_eq!(rounds.bbr.max_bandwidth.get(), 1_000_000);
    rounds.bbr.max_bandwidth.advance();
    assert_eq!(rounds.bbr.max_bandwidth.get(), 600_000);
}

#[test]
fn losses_lower_the_short_term_bounds_until_the_next_probe() {
    let mut rounds = Rounds::new();
    rounds.converge(1_000_000);
    rounds.bbr.state = State::ProbeBwCruise;
    rounds.bbr.probing_sample = false;
    rounds.round(1_000_000, 0, false);
    let window = rounds.bbr.window();
    rounds.bbr.note_loss(rounds.delivered);
    rounds.round(500_000, 10_000, false);
    let bounds = rounds.bbr.bounds;
    assert_eq!(bounds.short_bandwidth, 1_000_000, "the newest signals are of the round before the loss");
    assert_eq!(bounds.short_inflight, window.max(100_000 * UNIT / BETA) * BETA / UNIT);
    rounds.bbr.bounds.reset_short_term();
    assert_eq!(rounds.bbr.bounds.short_inflight, u64::MAX);
}

#[test]
fn what_was_in_flight_when_losses_became_too_many() {
    assert!(!too_high(2_000, 100_000));
    assert!(too_high(2_001, 100_000));
    // 100 packets are in flight and a third one is lost. Without it, 99 packets were in flight and 2 were
    // lost, which is more than 2 % of 99.
    let packet = LostPacket {
        now: Time::ZERO,
        bytes: 1_000,
        in_flight: 100_000,
        lost_since: 3_000,
        app_limited: false,
        delivered: 0,
        mtu: MTU,
    };
    assert_eq!(inflight_at_loss(&packet), 99_000);
    // A second one of the 100 packets is lost. Without it, 1000 of 99,000 bytes were lost, and the threshold
    // was 2 % or 1980 bytes. All bytes of the second packet are needed to reach the threshold: 2000 of
    // 100,000.
    assert_eq!(inflight_at_loss(&LostPacket { lost_since: 2_000, ..packet }), 100_000);
}

#[test]
fn a_probe_with_too_much_loss_lowers_the_long_term_bound() {
    let mut rounds = Rounds::new();
    rounds.converge(1_000_000);
    rounds.bbr.state = State::ProbeBwUp;
    rounds.bbr.probing_sample = true;
    let packet = LostPacket {
        now: rounds.now,
        bytes: 1_000,
        in_flight: 120_000,
        lost_since: 3_000,
        app_limited: false,
        delivered: rounds.delivered,
        mtu: MTU,
    };
    rounds.bbr.on_lost(&packet);
    assert_eq!(rounds.bbr.bounds.long_term, 119_000 + 380 * UNIT / 980);
    assert_eq!(rounds.bbr.state, State::ProbeBwDown);
    assert!(!rounds.bbr.probing_sample, "one verdict per probe");
    // The headroom for other flows is 15 %.
    assert_eq!(rounds.bbr.with_headroom(), 119_387 - 17_908);
}

#[test]
fn spurious_losses_restore_bounds_and_phase() {
    let mut rounds = Rounds::new();
    rounds.converge(1_000_000);
    rounds.bbr.state = State::ProbeBwUp;
    let own =
        Sibling { window: 0, smoothed_rtt: ms(100), mtu: 1000, bytes_since_loss: 0, bytes_between_losses: 0 };
    let event = Congested {
        now: rounds.now,
        sent_time: rounds.now,
        ce: false,
        in_flight: 0,
        delivered: rounds.delivered,
        mtu: MTU,
        own,
    };
    rounds.bbr.on_congestion(&event, &[]);
    rounds.bbr.bounds = Bounds { long_term: 1, short_bandwidth: 1, short_inflight: 1 };
    rounds.bbr.start_down(rounds.now, rounds.delivered);
    rounds.bbr.on_spurious(rounds.now);
    assert_eq!((rounds.bbr.bounds.long_term, rounds.bbr.bounds.short_inflight), (u64::MAX, u64::MAX));
    assert_eq!(rounds.bbr.state, State::ProbeBwUp);
}

#[test]
fn the_minimum_round_trip_is_measured_every_five_seconds() {
    let mut rounds = Rounds::new();
    rounds.converge(1_000_000);
    let mut entered = None;
    while rounds.now < Time::from_millis(7_000) {
        rounds.round(1_000_000, 0, false);
        if rounds.bbr.state == State::ProbeRtt {
            entered.get_or_insert(rounds.now);
            assert!(rounds.bbr.window() <= 50_000, "half a product");
        }
    }
    let entered = entered.unwrap();
    assert!((Time::from_millis(5_000)..Time::from_millis(5_500)).contains(&entered), "{entered:?}");
    assert!(rounds.bbr.is_probe_bw());
    assert!(rounds.bbr.window() >= 100_000, "the window is back");
}

#[test]
fn jitter_repeats_with_its_seed() {
    let draw = |seed| {
        let mut bbr = Bbr::new(&Start { now: Time::ZERO, window: MTU, mtu: MTU, rtt: ms(1), seed });
        [(); 8].map(|()| bbr.jitter.below(1000))
    };
    assert_eq!(draw(1), draw(1));
    assert_ne!(draw(1), draw(2));
    assert!(draw(0x9e37_79b9_7f4a_7c15).iter().any(|&n| n > 0), "no seed silences it");
}

#[test]
fn persistent_congestion_begins_with_startup_again() {
    let mut rounds = Rounds::new();
    rounds.converge(1_000_000);
    rounds.bbr.bounds = Bounds { long_term: 50_000, short_bandwidth: 10_000, short_inflight: 4_000 };
    rounds.bbr.on_persistent_congestion(rounds.now, MTU);
    let bbr = &rounds.bbr;
    assert_eq!((bbr.state, bbr.window, bbr.min_rtt), (State::Startup, 4 * MTU, Duration::MAX));
    assert_eq!(
        (bbr.bounds.long_term, bbr.bounds.short_bandwidth, bbr.bounds.short_inflight),
        (u64::MAX, u64::MAX, u64::MAX)
    );
    // Rates measured during the outage are not kept: the rate doubles in each round.
    for rate in [40_000, 80_000, 160_000, 320_000, 640_000] {
        rounds.round(rate, 0, false);
        assert!(rounds.bbr.window() >= rate * 2 / 10, "{}", rounds.bbr.window());
        assert!(rounds.bbr.pacing_rate() >= Some(2 * rate), "{:?}", rounds.bbr.pacing_rate());
    }
    assert_eq!(rounds.bbr.state, State::Startup);
}
