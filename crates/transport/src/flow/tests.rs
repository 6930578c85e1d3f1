use super::*;

const RTT: Duration = Duration::from_millis(100);

fn at(millis: u64) -> Time {
    Time::from_millis(millis)
}

#[test]
fn the_limit_is_exact() {
    let mut credit = ReceiveCredit::new(WindowRule::Adaptive, 1000, 1000, Time::ZERO);
    assert_eq!(credit.receive(1000), Ok(1000));
    assert_eq!(credit.receive(400), Ok(0));
    assert_eq!(credit.receive(1001), Err(Overrun));
    assert_eq!(credit.received(), 1000);
}

#[test]
fn an_update_is_due_after_half_a_window() {
    let mut credit = ReceiveCredit::new(WindowRule::Adaptive, 1000, 1000, Time::ZERO);
    credit.receive(1000).unwrap();
    assert!(!credit.consume(499, at(10), RTT));
    assert!(credit.can_grant());
    assert!(credit.consume(1, at(10), RTT));
    assert!(credit.consume(100, at(10), RTT), "stays due until granted");
    assert_eq!(credit.grant(), 1600);
    assert!(!credit.consume(100, at(10), RTT));
    assert_eq!(credit.outstanding(), 300);
}

#[test]
fn starving_is_noticed_below_half_a_window() {
    let mut credit = ReceiveCredit::new(WindowRule::Adaptive, 1000, 1000, Time::ZERO);
    credit.receive(999).unwrap();
    assert!(!credit.consume(100, at(10), RTT));
    assert!(!credit.is_starved());
    credit.receive(1000).unwrap();
    assert!(credit.is_starved());
    assert_eq!(credit.grant(), 1100);
    assert!(!credit.is_starved());
}

#[test]
fn a_fast_reader_gets_a_window_of_some_round_trips_up_to_the_maximum() {
    let windows = |rule| {
        let mut credit = ReceiveCredit::new(rule, 1000, 12_000, Time::ZERO);
        let rounds = 1..6;
        let window = rounds.map(|round| {
            let room = credit.limit() - credit.received();
            credit.receive(credit.received() + room.min(600 * round)).unwrap();
            credit.consume(credit.outstanding(), at(round * 100), RTT);
            credit.grant();
            credit.window()
        });
        window.collect::<Vec<_>>()
    };
    assert_eq!(windows(WindowRule::Adaptive), [4800, 9600, 12_000, 12_000, 12_000]);
    assert_eq!(windows(WindowRule::Fourfold), [2400, 4800, 7200, 9600, 12_000]);
}

/// Checks that a sender that doubles its rate each round trip is never blocked by the window: it stays within
/// the limit that it knows until the next limit arrives.
#[test]
fn the_window_does_not_hold_up_a_sender_that_doubles_its_rate() {
    let mut credit = ReceiveCredit::new(WindowRule::Adaptive, 1000, 1 << 40, Time::ZERO);
    let mut sent = 0;
    // An update takes one round trip: in each round the sender knows only the limit of the round before.
    let mut known = credit.limit();
    for round in 1..20 {
        sent += 100 << round;
        assert!(sent <= known, "round {round}: {sent} of {known}");
        credit.receive(sent).unwrap();
        known = credit.limit();
        credit.consume(credit.outstanding(), at(round * 100), RTT);
        credit.grant();
    }
}

#[test]
fn a_slow_reader_keeps_its_window() {
    let mut credit = ReceiveCredit::new(WindowRule::Adaptive, 1000, 8000, Time::ZERO);
    for round in 1..5 {
        let limit = credit.limit();
        let new = credit.receive(limit).unwrap();
        credit.consume(new, at(round * 700), RTT);
        assert_eq!(credit.grant(), limit + new);
    }
    assert_eq!(credit.window(), 1000);
}

#[test]
fn a_blocked_frame_per_limit() {
    let mut credit = SendCredit::new(10);
    credit.take(10);
    assert!(!credit.should_report());
    credit.want_more();
    assert!(credit.should_report());
    assert_eq!(credit.report(), Some(10));
    assert!(!credit.should_report());
    assert!(credit.report_again());
    assert!(!credit.raise(10));
    assert!(credit.raise(11));
    assert_eq!((credit.available(), credit.report(), credit.report_again()), (1, None, false));
    credit.take(1);
    credit.want_more();
    assert!(credit.should_report());
}

#[test]
fn a_restart_keeps_what_was_used() {
    let mut credit = SendCredit::new(10);
    credit.take(8);
    credit.restart();
    assert_eq!(credit.available(), 0);
    credit.raise(12);
    assert_eq!(credit.available(), 4);
    credit.give_back(8);
    assert_eq!(credit.available(), 12);
}

#[test]
fn the_rule_of_2022_multiplies_limits_half_of_which_were_used() {
    let rtt = Duration::from_millis(100);
    let mut credit = ReceiveCredit::new(WindowRule::Study2022, 1000, 1 << 40, Time::ZERO);
    credit.receive(1000).unwrap();
    assert!(!credit.consume(500, Time::ZERO, rtt) && !credit.is_starved(), "half, and not more");
    assert!(credit.consume(1, Time::ZERO, rtt));
    assert_eq!(credit.grant(), 3000);
    assert!(!credit.consume(499, Time::ZERO, rtt) && !credit.is_tight());
    credit.receive(1501).unwrap();
    assert!(credit.multiply_by_received(Duration::from_millis(150)), "what was received counts, too");
    assert_eq!(credit.grant(), 3000 + 4500);
    assert!(!credit.multiply_by_received(rtt));
}

#[test]
fn the_rule_of_2022_keeps_to_the_maximum() {
    let mut credit = ReceiveCredit::new(WindowRule::Study2022, 1000, 1200, Time::ZERO);
    credit.receive(1000).unwrap();
    assert!(credit.consume(600, Time::ZERO, Duration::ZERO));
    assert_eq!(credit.grant(), 1800);
    assert!(credit.consume(400, Time::ZERO, Duration::ZERO));
    assert_eq!(credit.grant(), 2200);
    assert!(!credit.multiply_by_received(Duration::ZERO));
}

/// Checks that a limit is enforced only once it has been sent to the peer.
#[test]
fn the_rule_of_2022_allows_what_was_granted() {
    let mut credit = ReceiveCredit::new(WindowRule::Study2022, 1000, 1 << 40, Time::ZERO);
    credit.receive(501).unwrap();
    assert!(credit.multiply_by_received(Duration::ZERO));
    assert_eq!((credit.limit(), credit.receive(1001)), (1000, Err(Overrun)));
    credit.receive(1000).unwrap();
    assert_eq!((credit.grant(), credit.limit()), (3000, 3000));
    assert_eq!(credit.receive(3000), Ok(2000));
    assert!(credit.multiply_by_received(Duration::ZERO), "more than half of the next limit");
    assert_eq!(credit.grant(), 9000);
}
