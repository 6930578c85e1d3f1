use super::*;

fn list(orders: impl IntoIterator<Item = u64>) -> SentList<u64> {
    let mut list = SentList::new();
    for order in orders {
        let (time, size, owed) = (Time::from_micros(order), 1200, order);
        let sent =
            Sent { time, size, ack_eliciting: true, in_flight: true, ect: false, mtu_probe: false, owed };
        list.push(order, Packet { sent, snapshot: Snapshot::default(), counted: true });
    }
    list
}

fn take(list: &mut SentList<u64>, low: u64, high: u64) -> (Vec<u64>, usize) {
    let mut taken = Vec::new();
    let steps = list.take(low, high, |order, packet| {
        assert_eq!(order, packet.sent.owed);
        taken.push(order);
    });
    (taken, steps)
}

#[test]
fn wide_ranges_behind_a_missing_packet_cost_nothing_twice() {
    let mut list = list(0..10_000);
    assert_eq!(take(&mut list, 1, 9_000).1, 9_000);
    // ACK frames repeat the range, which is wider by one packet each time.
    for high in 9_001..9_500 {
        let (taken, steps) = take(&mut list, 1, high);
        assert_eq!(taken, [high]);
        assert!(steps <= 2, "{steps}");
    }
    assert_eq!(take(&mut list, 0, 9_499), (vec![0], 2));
}

#[test]
fn acknowledged_slots_leave_and_orders_go_on() {
    let mut list = list(0..5);
    take(&mut list, 0, 2);
    assert_eq!(list.compact(), 3);
    assert_eq!(list.front().map(|(order, _)| order), Some(3));
    assert_eq!(list.pop().map(|(order, _)| order), Some(3));
    assert_eq!(take(&mut list, 0, 4).0, [4]);
    list.compact();
    assert!(list.front().is_none() && list.pop().is_none());
    assert_eq!(list.next(), 5);
}

#[test]
fn holes_are_known_even_after_everything_around_them_is_settled() {
    let mut list = list([0, 1, 4, 5, 9]);
    assert_eq!(list.unsent(0, 1), None);
    assert_eq!(list.unsent(0, 4), Some(2));
    assert_eq!(list.unsent(3, 3), Some(3));
    assert_eq!(list.unsent(7, 9), Some(7));
    assert_eq!(list.unsent(9, 10), Some(10));
    for (low, high) in [(0, 1), (4, 5), (9, 9)] {
        take(&mut list, low, high);
    }
    list.compact();
    assert_eq!((list.unsent(0, 9), list.unsent(4, 5)), (Some(2), None));
}

#[test]
fn holes_are_remembered_up_to_a_bound() {
    let list = list((0..200).map(|n| n * 2));
    assert_eq!(list.unsent(1, 1), None, "forgotten");
    assert_eq!(list.unsent(397, 397), Some(397));
    assert_eq!(list.holes.len(), MAX_HOLES);
}

fn quiet(list: &mut SentList<u64>, order: u64) {
    let sent = Sent {
        time: Time::ZERO,
        size: 40,
        ack_eliciting: false,
        in_flight: false,
        ect: false,
        mtu_probe: false,
        owed: order,
    };
    list.push(order, Packet { sent, snapshot: Snapshot::default(), counted: false });
}

#[test]
fn packets_without_an_answer_are_remembered_sparsely() {
    let mut list = list([0]);
    (1..100_000).for_each(|order| quiet(&mut list, order));
    assert_eq!((list.iter().count(), list.next()), (1 + MAX_QUIET_TRACKED, 100_000));
    // Far fewer packets are tracked than were sent: the first ones, then every sixteenth until the limit is
    // reached.
    let orders: Vec<u64> = list.range(0..u64::MAX).map(|(order, _)| order).collect();
    assert_eq!(orders[..=DENSE_QUIET], (0..=DENSE_QUIET as u64).collect::<Vec<_>>());
    assert!(orders[DENSE_QUIET + 1..].windows(2).all(|pair| pair[1] - pair[0] == SPARSE));
    // A packet in flight is always tracked, and is found although packets before and after it are not
    // tracked.
    let sent = Sent { in_flight: true, ..list.front().unwrap().1.sent.clone() };
    list.push(
        100_000,
        Packet { sent: Sent { owed: 100_000, ..sent }, snapshot: Snapshot::default(), counted: true },
    );
    (100_001..100_100).for_each(|order| quiet(&mut list, order));
    assert_eq!(take(&mut list, 50_000, 100_050).0, [100_000]);
    assert_eq!(take(&mut list, 1, 100_050).0.len(), MAX_QUIET_TRACKED);
    // The packets above were removed, so a further packet is tracked.
    quiet(&mut list, 100_101);
    assert_eq!(take(&mut list, 100_051, 100_101).0, [100_101]);
    assert_eq!(take(&mut list, 0, 100_101).0, [0]);
    list.compact();
    assert_eq!((list.base(), list.quiet), (100_102, 0));
}
