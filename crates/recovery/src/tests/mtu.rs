//! Tests of path MTU discovery (RFC 8899, RFC 9000 §14.3).

use super::link::{Link, run};
use super::*;

fn searching() -> Config {
    let mut config = plain();
    config.mtu.discovery = true;
    config
}

/// Sends the probe that is due, if any, and returns its order and size.
fn probe(path: &mut Path, now: Time) -> Option<(u64, u16)> {
    let size = path.recovery.mtu_probe(now)?;
    let order = path.recovery.next_order(DATA);
    let sent = Sent {
        time: now,
        size,
        ack_eliciting: true,
        in_flight: true,
        ect: false,
        mtu_probe: true,
        owed: order,
    };
    path.recovery.on_sent(DATA, order, sent);
    Some((order, size))
}

/// Declares the newest packet, a probe, lost: three later packets are acknowledged.
fn overtake(path: &mut Path, now: Time) {
    let first = path.send(now);
    path.send(now);
    path.send(now);
    path.ack(now + ms(10), &[first..=first + 2]);
}

#[test]
fn one_probe_is_enough_on_a_path_without_limits() {
    let mut path = Path::new(&searching());
    let (order, size) = probe(&mut path, at(0)).unwrap();
    assert_eq!((size, path.recovery.mtu()), (1472, 1200));
    assert_eq!(path.recovery.mtu_probe(at(0)), None, "one at a time");
    path.ack(at(10), &[order..=order]);
    assert_eq!((path.out.mtu_changed, path.recovery.mtu()), (Some(1472), 1472));
    assert_eq!(path.recovery.mtu_probe(at(20)), None, "nothing larger to look for");
}

#[test]
fn lost_probes_are_no_congestion_and_three_settle_a_size() {
    let mut path = Path::new(&searching());
    for round in 0..3 {
        let now = at(round * 100);
        assert_eq!(probe(&mut path, now).unwrap().1, 1472);
        overtake(&mut path, now);
        assert_eq!(path.lost().len(), 1);
        assert!(!path.out.congestion_event);
    }
    let stats = path.recovery.stats();
    assert_eq!((stats.mtu_probes_lost, stats.lost_packets, stats.congestion_events), (3, 0, 0));
    assert!(path.recovery.window() > 12_000, "still in slow start");
    let (_, size) = probe(&mut path, at(300)).unwrap();
    assert_eq!(size, 1200 + 136, "half way to 1471");
}

#[test]
fn the_search_converges_on_what_the_path_carries() {
    for limit in [1200, 1201, 1208, 1280, 1337, 1400, 1420, 1451, 1472, 9000] {
        let mut link = Link::new(1_250_000, ms(20), 100_000);
        link.mtu = limit;
        let report = run(&link, &Config { congestion: Algorithm::Cubic, ..searching() }, at(10_000));
        let (found, carried) = (report.path.recovery.mtu(), limit.min(1472));
        assert!(found <= carried && carried - found < 8, "{found} on a path of {limit}");
        assert_eq!(report.path.recovery.stats().mtu, found);
        assert!(report.utilisation > 0.85);
    }
}

#[test]
fn no_probe_before_confirmation_when_blocked_or_while_silent() {
    let mut path = Path::new(&searching());
    path.recovery.set_progress(Progress { handshake_confirmed: false, ..CONFIRMED });
    assert_eq!(path.recovery.mtu_probe(at(0)), None);
    path.recovery.set_progress(CONFIRMED);
    (0..9).for_each(|_| {
        path.send(at(0));
    });
    assert_eq!(path.recovery.mtu_probe(at(0)), None, "1200 bytes of window are not enough");
    path.ack(at(10), &[0..=0]);
    assert_eq!(path.recovery.mtu_probe(at(10)), Some(1472));
    let due = path.recovery.poll_timeout().unwrap();
    path.timeout(due);
    assert_eq!(path.recovery.mtu_probe(due), None);
}

#[test]
fn the_peers_limit_holds() {
    let mut path = Path::new(&searching());
    path.recovery.set_peer_max_udp_payload(1300);
    assert_eq!(path.recovery.mtu_probe(at(0)), Some(1300));
    let mut large = searching();
    large.mtu.initial = 1400;
    let mut path = Path::new(&large);
    assert_eq!(path.recovery.mtu(), 1400);
    path.recovery.set_peer_max_udp_payload(1300);
    assert_eq!((path.recovery.mtu(), path.recovery.stats().mtu), (1300, 1300));
    assert_eq!(path.recovery.mtu_probe(at(0)), None);
}

#[test]
fn a_black_hole_sends_the_size_back_to_the_base() {
    let mut path = Path::new(&searching());
    let (order, _) = probe(&mut path, at(0)).unwrap();
    path.ack(at(10), &[order..=order]);
    assert_eq!(path.recovery.mtu(), 1472);
    for round in 1..=6 {
        assert_eq!(path.recovery.mtu(), 1472);
        let now = at(round * 100);
        path.send_in(now, DATA, 1472);
        overtake(&mut path, now);
        assert_eq!(path.lost().len(), 1);
    }
    assert_eq!((path.out.mtu_changed, path.recovery.mtu()), (Some(1200), 1200));
    assert_eq!(path.recovery.mtu_probe(at(1_000)), None, "cooling down");
    assert_eq!(path.recovery.mtu_probe(at(61_000)), Some(1472));
}

#[test]
fn large_packets_that_arrive_clear_the_suspicion() {
    let mut path = Path::new(&searching());
    let (order, _) = probe(&mut path, at(0)).unwrap();
    path.ack(at(10), &[order..=order]);
    for round in 1..=20 {
        let now = at(round * 100);
        path.send_in(now, DATA, 1472);
        overtake(&mut path, now);
        let order = path.send_in(now + ms(50), DATA, 1472);
        path.ack(now + ms(60), &[order..=order]);
    }
    assert_eq!(path.recovery.mtu(), 1472);
}

#[test]
fn silence_makes_the_size_suspect() {
    let mut path = Path::new(&searching());
    let (order, _) = probe(&mut path, at(0)).unwrap();
    path.ack(at(10), &[order..=order]);
    path.send_in(at(20), DATA, 1472);
    for timeouts in 1..=3 {
        let due = path.recovery.poll_timeout().unwrap();
        path.timeout(due);
        assert_eq!(path.recovery.mtu(), if timeouts < 3 { 1472 } else { 1200 });
        path.send_in(due, DATA, path.recovery.mtu());
    }
    assert_eq!(path.out.mtu_changed, Some(1200));
    let order = path.recovery.next_order(DATA) - 1;
    let now = at(60_000);
    path.ack(now, &[order..=order]);
    assert_eq!(
        path.recovery.mtu_probe(now),
        Some(1472),
        "and is searched again once something comes through"
    );
}

#[test]
fn a_finished_search_is_repeated_after_the_raise_interval() {
    let mut link = Link::new(1_250_000, ms(20), 100_000);
    link.mtu = 1300;
    let mut report = run(&link, &searching(), at(10_000));
    let recovery = &mut report.path.recovery;
    recovery.lose_all(DATA, &mut Outcome::new());
    assert_eq!(recovery.mtu_probe(at(10_000)), None);
    assert_eq!(recovery.mtu_probe(at(620_000)), Some(1472));
}
