//! Tests of acknowledgments, losses and the controllers' reactions.

use super::*;
use crate::rtt::{GRANULARITY, Rtt};
use crate::{Controller, Permit, State};

#[test]
fn overtaken_by_three_is_lost() {
    let mut path = Path::new(&plain());
    (0..5).for_each(|_| {
        path.send(at(0));
    });
    // RFC 9002 §6.1.1: packet 0 is lost when packet 3 is acknowledged; packets 1 and 2 are not.
    assert_eq!(path.ack(at(50), &[3..=3]), [3]);
    assert_eq!(path.lost(), [0]);
    assert_eq!(path.recovery.bytes_in_flight(), 3 * 1200);
    // RFC 9002 §6.1.2: packets 1 and 2 are lost 9/8 of the round-trip time after they were sent.
    let due = Time::from_micros(56_250);
    assert_eq!(path.recovery.poll_timeout(), Some(due));
    assert_eq!(path.timeout(due - Duration::from_nanos(1)), None);
    assert_eq!(path.timeout(due), Some(crate::Expired::Loss));
    assert_eq!(path.lost(), [1, 2]);
    assert_eq!(path.recovery.bytes_in_flight(), 1200);
}

#[test]
fn what_was_never_sent_cannot_be_acknowledged() {
    let mut path = Path::new(&plain());
    path.send(at(0));
    assert_eq!(path.try_ack(at(9), DATA, &[0..=1], None), Err(AckError::Unsent(1)));
    let skipped = path.recovery.next_order(DATA);
    let sent = Sent {
        time: at(1),
        size: 1200,
        ack_eliciting: true,
        in_flight: true,
        ect: false,
        mtu_probe: false,
        owed: 2,
    };
    path.recovery.on_sent(DATA, skipped + 1, sent);
    assert_eq!(path.try_ack(at(9), DATA, &[0..=2], None), Err(AckError::Unsent(skipped)));
    assert_eq!(path.ack(at(9), &[2..=2, 0..=0]), [0, 2]);
    assert_eq!(path.try_ack(at(9), SpaceId::Initial, &[0..=0], None), Err(AckError::Unsent(0)));
}

#[test]
fn round_trip_is_measured_by_a_newly_acknowledged_largest_packet_only() {
    let mut path = Path::new(&plain());
    (0..3).for_each(|_| {
        path.send(at(0));
    });
    path.ack(at(40), &[2..=2]);
    assert_eq!(path.recovery.rtt().latest(), ms(40));
    path.ack(at(44), &[2..=2, 0..=0]);
    assert_eq!(path.recovery.rtt().latest(), ms(40), "the largest is old news");
}

#[test]
fn acknowledgment_delay_is_limited_once_the_handshake_is_confirmed() {
    let smoothed = |confirmed, space| {
        let mut path = Path::new(&plain());
        path.recovery.set_progress(Progress { handshake_confirmed: confirmed, ..CONFIRMED });
        for (sent, acked) in [(0, 100), (1000, 1180)] {
            let order = path.send_in(at(sent), space, 1200);
            let info =
                AckInfo { delay: ms(60), ecn: None, measures: Measures::Largest, ..AckInfo::default() };
            let ranges = core::iter::once(order..=order);
            path.recovery.on_ack(at(acked), space, ranges, info, &[], &mut path.out).unwrap();
        }
        path.recovery.rtt().smoothed()
    };
    // Samples of 100 and 180 ms: 7/8·100 + 1/8·(180 − delay), with max_ack_delay 25 ms.
    assert_eq!(smoothed(true, DATA), Duration::from_micros(106_875));
    assert_eq!(smoothed(false, DATA), Duration::from_micros(102_500));
    assert_eq!(smoothed(false, SpaceId::Initial), ms(110));
}

#[test]
fn newreno_by_hand() {
    let mut path = Path::new(&plain());
    assert_eq!((path.recovery.window(), path.recovery.permit(at(0))), (12_000, Permit::Bytes(12_000)));
    (0..10).for_each(|_| {
        path.send(at(0));
    });
    assert_eq!(path.recovery.permit(at(0)), Permit::Window);
    path.ack(at(100), &[0..=4]);
    assert_eq!(path.recovery.window(), 18_000, "slow start");
    (0..10).for_each(|_| {
        path.send(at(100));
    });
    // The acknowledgment of packet 8 shows that 5 is lost. Packets 6 to 8 were sent before this event, so
    // their acknowledgment does not grow the window.
    path.ack(at(110), &[6..=8]);
    assert_eq!((path.lost(), path.out.congestion_event), (vec![5], true));
    assert_eq!((path.recovery.window(), path.recovery.congestion().ssthresh()), (9_000, Some(9_000)));
    assert_eq!(path.recovery.congestion().state(), State::Recovery);
    path.ack(at(111), &[9..=12]);
    assert_eq!(path.recovery.window(), 9_000);
    // A second loss in the same flight belongs to the same event.
    path.ack(at(112), &[16..=17]);
    assert_eq!((path.lost(), path.out.congestion_event), (vec![13, 14], false));
    path.ack(at(113), &[15..=15, 18..=19]);
    assert_eq!(path.recovery.window(), 9_000);
    // Packets sent after the event grow the window by one packet per window: eight acknowledgments with a
    // window of 7.5.
    for n in 0..8 {
        path.send(at(200));
        (0..6).for_each(|_| {
            path.send(at(200));
        });
        let next = path.recovery.next_order(DATA);
        path.ack(at(300 + n), &[next - 7..=next - 7]);
        path.recovery.lose_all(DATA, &mut path.out);
    }
    assert_eq!(path.recovery.window(), 10_200);
    assert_eq!(path.recovery.congestion().state(), State::CongestionAvoidance);
}

#[test]
fn window_never_falls_below_two_packets() {
    let mut path = Path::new(&plain());
    for round in 0..8 {
        let now = at(round * 1000 + 1);
        let first = path.send(now);
        (0..3).for_each(|_| {
            path.send(now);
        });
        path.ack(now + ms(50), &[first + 3..=first + 3]);
    }
    assert_eq!(path.recovery.window(), 2400);
}

#[test]
fn underused_window_does_not_grow() {
    let mut path = Path::new(&plain());
    for round in 0..20 {
        let now = at(round * 100);
        let order = path.send(now);
        path.recovery.app_limited(now);
        path.ack(now + ms(50), &[order..=order]);
    }
    assert_eq!(path.recovery.window(), 12_000);
    (0..10).for_each(|_| {
        path.send(at(5000));
    });
    path.recovery.app_limited(at(5000));
    path.ack(at(5050), &[20..=29]);
    assert_eq!(path.recovery.window(), 24_000, "full is full, even if nothing is left to send");
}

#[test]
fn a_late_acknowledgment_takes_the_response_back() {
    for congestion in [Algorithm::NewReno, Algorithm::Cubic] {
        let mut path = Path::new(&Config { congestion, ..plain() });
        (0..10).for_each(|_| {
            path.send(at(0));
        });
        path.ack(at(50), &[5..=5]);
        assert_eq!(path.lost(), [0, 1, 2]);
        assert!(path.recovery.window() < 12_000);
        assert_eq!(path.ack(at(51), &[1..=2]), [1, 2], "late packets count as acknowledged");
        assert_eq!(path.out.spurious, [1, 2]);
        assert!(path.recovery.window() < 12_000, "one loss is still unexplained");
        path.ack(at(52), &[0..=0]);
        assert!(path.recovery.window() >= 12_000, "{congestion}");
        assert_eq!(path.recovery.congestion().ssthresh(), None);
        let stats = path.recovery.stats();
        assert_eq!((stats.spurious_losses, stats.undone_responses), (3, 1));
        assert_eq!(path.ack(at(53), &[0..=2]), [0; 0], "and only once");
        // The packet threshold was raised to the distance of 5: 3 is not lost when 8 is acknowledged, as it
        // would have been before.
        path.ack(at(53), &[8..=8]);
        assert_eq!(path.lost(), [0; 0]);
    }
}

#[test]
fn losses_are_forgotten_after_a_while() {
    let mut path = Path::new(&plain());
    (0..6).for_each(|_| {
        path.send(at(0));
    });
    path.ack(at(50), &[3..=3]);
    assert_eq!(path.lost(), [0]);
    let later = at(50) + path.recovery.pto(DATA);
    path.ack(later, &[4..=4]);
    assert_eq!(path.ack(later, &[0..=0]), [0; 0]);
    assert_eq!(path.recovery.stats().spurious_losses, 0);
}

#[test]
fn persistent_congestion_needs_three_probe_timeouts_of_losses() {
    // Two samples of 100 ms: PTO = 100 + 4·37.5 + 25 ms, duration = 825 ms (RFC 9002 §7.6.1).
    let persistent = |span: u64, eliciting_between_acked: bool| {
        let mut path = Path::new(&plain());
        path.send(at(0));
        path.ack(at(100), &[0..=0]);
        path.send(at(200));
        path.send(at(200 + span / 2));
        path.send(at(200 + span));
        let last = at(200 + span + 1);
        (0..3).for_each(|_| {
            path.send(last);
        });
        if eliciting_between_acked {
            path.ack(last + ms(99), &[2..=2]);
        }
        path.ack(last + ms(100), &[6..=6]);
        (path.out.persistent, path.recovery.window())
    };
    assert_eq!(persistent(825, false), (true, 2400));
    assert!(!persistent(824, false).0);
    assert!(!persistent(825, true).0, "an acknowledged packet in between");
}

#[test]
fn losses_before_the_first_sample_are_not_persistent() {
    let mut path = Path::new(&plain());
    path.send(at(0));
    path.send(at(50_000));
    (0..3).for_each(|_| {
        path.send(at(50_001));
    });
    path.ack(at(50_100), &[4..=4]);
    assert_eq!((path.lost(), path.out.persistent), (vec![0, 1], false));
}

#[test]
fn migration_starts_afresh_and_old_packets_say_nothing() {
    let mut path = Path::new(&plain());
    (0..10).for_each(|_| {
        path.send(at(0));
    });
    path.ack(at(50), &[5..=5]);
    path.recovery.migrate(at(60));
    assert_eq!((path.recovery.bytes_in_flight(), path.recovery.window()), (0, 12_000));
    assert!(!path.recovery.rtt().has_sample());
    assert_eq!(path.ack(at(90), &[9..=9, 1..=1]).len(), 2, "their tokens return, late or not");
    assert_eq!(path.recovery.window(), 12_000, "no growth, no congestion, no undoing");
    assert!(!path.recovery.rtt().has_sample());
    assert!(!path.lost().is_empty(), "lost all the same");
    let order = path.send(at(100));
    path.ack(at(130), &[order..=order]);
    assert_eq!((path.recovery.rtt().latest(), path.recovery.bytes_in_flight()), (ms(30), 0));
}

/// A peer that moves again and again and acknowledges nothing gets a new window each time.
#[test]
fn packets_of_max_moves_migrations_are_tracked() {
    use crate::recovery::MAX_MOVES;
    let mut path = Path::new(&plain());
    for round in 0..100 {
        (0..10).for_each(|_| {
            path.send(at(10 * round));
        });
        path.recovery.migrate(at(10 * round + 5));
        assert!(path.recovery.unacked(DATA).count() <= 10 * (MAX_MOVES + 1), "after {round} moves");
    }
    // A packet of the last moves may still be acknowledged; all earlier ones are lost.
    assert_eq!(path.ack(at(1_000), &[990..=990]).len(), 1);
    let lost = path.lost();
    assert!((0..950).all(|order| lost.contains(&order)), "{} are lost", lost.len());
    assert_eq!(path.recovery.bytes_in_flight(), 0);
}

#[test]
fn lose_all_and_discard_empty_the_flight_without_a_response() {
    let mut path = Path::new(&plain());
    (0..3).for_each(|_| {
        path.send_in(at(0), SpaceId::Initial, 1200);
        path.send(at(0));
    });
    path.recovery.discard_space(SpaceId::Initial);
    assert_eq!(path.recovery.bytes_in_flight(), 3600);
    assert_eq!(path.recovery.unacked(SpaceId::Initial).count(), 0);
    path.recovery.lose_all(DATA, &mut path.out);
    assert_eq!(path.lost(), [0, 1, 2]);
    assert_eq!((path.recovery.bytes_in_flight(), path.recovery.window()), (0, 12_000));
    assert_eq!(path.recovery.poll_timeout(), None);
    assert_eq!(path.ack(at(10), &[1..=1]), [1], "may still turn up");
    assert_eq!(path.recovery.next_order(DATA), 3);
}

#[test]
fn a_peer_that_never_acknowledges_costs_bounded_memory() {
    use crate::MAX_QUIET_TRACKED;
    let mut path = Path::new(&plain());
    path.send(at(0));
    for order in 1..100_000 {
        // Packets with only ACK frames, which the window does not limit.
        let (time, size) = (at(1), 50);
        let sent = Sent {
            time,
            size,
            ack_eliciting: false,
            in_flight: false,
            ect: false,
            mtu_probe: false,
            owed: order,
        };
        path.recovery.on_sent(DATA, order, sent);
    }
    assert_eq!(path.recovery.unacked(DATA).count(), MAX_QUIET_TRACKED + 1);
    assert_eq!(path.recovery.bytes_in_flight(), 1200, "the one that matters is not forgotten");
    // The acknowledgment of an untracked packet shows that the packet in flight, which was sent before it, is
    // lost.
    path.ack(at(50), &[99_000..=99_000]);
    assert_eq!(path.lost()[0], 0);
    assert_eq!(path.recovery.bytes_in_flight(), 0);
}

#[test]
fn packets_in_flight_are_forgotten_beyond_any_window() {
    use crate::sent::MAX_TRACKED;
    let mut path = Path::new(&plain());
    for order in 0..MAX_TRACKED as u64 + 1 {
        let sent = Sent {
            time: at(1),
            size: 1,
            ack_eliciting: true,
            in_flight: true,
            ect: false,
            mtu_probe: false,
            owed: order,
        };
        path.recovery.on_sent(DATA, order, sent);
    }
    assert_eq!(path.recovery.unacked(DATA).count(), MAX_TRACKED);
    let due = path.recovery.poll_timeout().unwrap();
    path.timeout(due);
    assert_eq!(path.lost(), [0]);
    assert_eq!(path.recovery.bytes_in_flight(), MAX_TRACKED as u64);
}

#[test]
fn the_initial_window_is_bounded_for_large_packets() {
    let window = |mtu, packets| {
        let mut config = Config { initial_window: crate::InitialWindow::Packets(packets), ..plain() };
        config.mtu.initial = mtu;
        Path::new(&config).recovery.window()
    };
    // RFC 9002 §7.2.
    assert_eq!([window(1200, 10), window(1452, 10), window(9000, 10)], [12_000, 14_520, 18_000]);
    assert_eq!(window(1200, 32), 38_400);
}

#[test]
fn permits_of_one_batch_count_down() {
    let mut path =
        Path::new(&Config { pacing: true, initial_window: crate::InitialWindow::Packets(100), ..plain() });
    for left in (1..=10).rev() {
        assert_eq!(path.recovery.permit(at(5)), Permit::Bytes(left * 1200));
        path.send(at(5));
    }
    assert!(matches!(path.recovery.permit(at(5)), Permit::Wait(until) if until > at(5)));
}

#[test]
fn an_answer_by_another_path_counts_only_if_it_is_later_than_a_probe() {
    let mut path = Path::new(&Config::default());
    let order = path.send(at(0));
    path.ack(at(20), &[order..=order]);
    let before = path.recovery.rtt().clone();
    path.recovery.on_late(at(1_000), at(1_000) - before.smoothed());
    assert_eq!(path.recovery.rtt().smoothed(), before.smoothed());
    let late = Duration::from_millis(400);
    for round in 1..40 {
        path.recovery.on_late(at(1_000 * round), at(1_000 * round) - late);
    }
    assert!(path.recovery.pto(DATA) >= late);
    assert_eq!(path.recovery.rtt().min(), before.min());
}

#[test]
fn the_rule_of_2022_counts_from_what_the_newest_packet_took() {
    let mut path = Path::new(&Config { loss_delay: crate::LossDelay::Study2022, ..plain() });
    path.recovery.set_peer_max_ack_delay(ms(1));
    path.recovery.allow_ack_delay(ms(10));
    assert_eq!(
        path.recovery.pto(DATA),
        path.recovery.rtt().pto_base() + ms(10),
        "probes wait, losses do not"
    );
    for n in 0..5 {
        path.send(at(2 * n));
    }
    // Packet 3 took 60 ms. Packets 1 and 2 therefore may take 60 ms, plus a quarter of the round-trip time
    // (at most 5 ms), plus 1 ms of max_ack_delay.
    assert_eq!(path.ack(at(66), &[3..=3]), [3]);
    assert_eq!(path.lost(), [0], "three newer ones");
    assert_eq!(path.recovery.poll_timeout(), Some(at(2 + 60 + 5 + 1)));
    assert_eq!(path.timeout(at(68)), Some(crate::Expired::Loss));
    assert_eq!(path.lost(), [1]);
    assert_eq!(path.recovery.poll_timeout(), Some(at(4 + 60 + 5 + 1)));
    // Spurious losses do not raise the time threshold, so the next packets are declared lost after the same
    // time.
    assert_eq!(path.ack(at(69), &[0..=1]), [0, 1]);
    (0..4).for_each(|_| {
        path.send(at(100));
    });
    path.ack(at(160), &[8..=8]);
    assert_eq!(path.lost(), [2, 4, 5]);
}

#[test]
fn a_limit_keeps_overtaken_packets_until_it_moves() {
    let mut path = Path::new(&plain());
    (0..9).for_each(|_| {
        path.send(at(0));
    });
    path.recovery.limit_losses(2);
    assert_eq!(path.ack(at(50), &[8..=8]), [8]);
    assert_eq!(path.lost(), [0, 1]);
    assert_eq!(path.recovery.first_kept(at(50)), Some(6), "two newer ones at most");
    assert_eq!(path.recovery.first_kept(at(57)), None, "all overdue");
    path.recovery.limit_losses(5);
    path.out.clear();
    path.recovery.find_losses(at(50), &[], &mut path.out);
    assert_eq!(path.lost(), [2, 3, 4]);
}

#[test]
fn the_pace_follows_the_gains() {
    let gain = crate::PacingGain { slow_start: (5, 4), otherwise: (1, 1) };
    let mut path = Path::new(&Config { pacing_gain: gain, initial_rtt: ms(100), ..plain() });
    assert_eq!((path.recovery.window(), path.recovery.pacing_rate()), (12_000, 150_000));
    (0..9).for_each(|_| {
        path.send(at(0));
    });
    path.ack(at(100), &[8..=8]);
    assert_eq!(path.recovery.pacing_rate(), path.recovery.window() * 10, "no longer in slow start");
}

#[test]
fn an_initial_window_in_bytes_is_one_whatever_size_packets_have() {
    let window = |bytes| {
        let config = Config { initial_window: crate::InitialWindow::Bytes(bytes), ..plain() };
        Path::new(&config).recovery.window()
    };
    assert_eq!((window(15_360), window(100)), (15_360, 2_400));
}

#[test]
fn a_window_that_is_held_does_not_grow_for_a_round_trip() {
    let mut path = Path::new(&plain());
    path.send(at(0));
    path.ack(at(100), &[0..=0]);
    let window = path.recovery.window();
    (0..10).for_each(|_| _ = path.send(at(100)));
    path.recovery.hold(at(150));
    path.ack(at(200), &[1..=5]);
    assert_eq!(path.recovery.window(), window, "held");
    path.ack(at(250), &[6..=10]);
    assert_eq!(path.recovery.window(), window + 5 * 1200, "slow start goes on");
}

/// Sends a packet of padding, which the peer need not acknowledge.
fn pad(path: &mut Path, now: Time) {
    let order = path.recovery.next_order(DATA);
    let sent = Sent {
        time: now,
        size: 1200,
        ack_eliciting: false,
        in_flight: true,
        ect: false,
        mtu_probe: false,
        owed: order,
    };
    path.recovery.on_sent(DATA, order, sent);
}

#[test]
fn packets_that_ask_for_no_answer_measure_nothing() {
    let mut path = Path::new(&plain());
    pad(&mut path, at(0));
    assert_eq!(path.ack(at(40), &[0..=0]), [0]);
    assert!(!path.recovery.rtt().has_sample());
    path.send(at(100));
    pad(&mut path, at(100));
    path.ack(at(130), &[1..=2]);
    assert_eq!(path.recovery.rtt().latest(), ms(30));
}

#[test]
fn lost_padding_is_not_persistent_congestion() {
    // As in `persistent_congestion_needs_three_probe_timeouts_of_losses`.
    for padding in [false, true] {
        let mut path = Path::new(&plain());
        path.send(at(0));
        path.ack(at(100), &[0..=0]);
        for time in [200, 600, 1025] {
            if padding && time != 600 { pad(&mut path, at(time)) } else { _ = path.send(at(time)) }
        }
        (0..3).for_each(|_| _ = path.send(at(1026)));
        path.ack(at(1126), &[6..=6]);
        assert_eq!((path.lost().len(), path.out.persistent), (3, !padding));
    }
}

#[test]
fn a_lower_sample_lowers_the_minimum() {
    let mut rtt = Rtt::new(ms(333));
    for (latest, min) in [(50, 50), (60, 50), (40, 40)] {
        rtt.update(Time::ZERO, ms(latest), ms(0));
        assert_eq!(rtt.min(), ms(min));
    }
}

#[test]
fn the_probe_timeout_is_never_below_the_granularity() {
    let mut rtt = Rtt::new(ms(333));
    let round_trip = Duration::from_micros(10);
    (0..100).for_each(|_| rtt.update(Time::ZERO, round_trip, ms(0)));
    assert!(rtt.variance() * 4 < GRANULARITY);
    assert_eq!(rtt.pto_base(), round_trip + GRANULARITY);
}
