//! Test that compares the list of sent packets with a naive model.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    Send {
        size: u16,
        in_flight: bool,
        skip: bool,
    },
    /// Acknowledgment of `1 + width` orders, the highest of which is `back` below the newest one. If `twice`
    /// is set, a second range of the same width below it is acknowledged, too.
    Ack {
        back: u64,
        width: u64,
        twice: bool,
    },
    Pass {
        micros: u64,
    },
    Timeout,
    Migrate,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1..1500u16, prop::bool::weighted(0.8), prop::bool::weighted(0.05))
            .prop_map(|(size, in_flight, skip)| Step::Send { size, in_flight, skip }),
        4 => (0..12u64, 0..6u64, any::<bool>()).prop_map(|(back, width, twice)| Step::Ack { back, width, twice }),
        2 => (0..60_000u64).prop_map(|micros| Step::Pass { micros }),
        1 => Just(Step::Timeout),
        1 => prop::bool::weighted(0.05).prop_map(|yes| if yes { Step::Migrate } else { Step::Timeout }),
    ]
}

#[derive(Clone, Debug, PartialEq)]
enum Fate {
    UnderWay,
    Acked,
    Lost,
}

struct Naive {
    /// Packets by order: size, in flight, counted, send time and fate.
    packets: BTreeMap<u64, (u16, bool, bool, Time, Fate)>,
    next: u64,
    largest_acked: Option<u64>,
    spurious: bool,
}

impl Naive {
    fn in_flight(&self) -> u64 {
        let counted = self.packets.values().filter(|packet| packet.2 && packet.4 == Fate::UnderWay);
        counted.map(|packet| u64::from(packet.0)).sum()
    }

    /// Returns the packets that are lost by the thresholds of RFC 9002 §6.1.
    fn lost(&self, now: Time, recovery: &Recovery<u64>) -> Vec<u64> {
        let base = recovery.rtt().latest().max(recovery.rtt().smoothed());
        let delay = (base * 9 / 8).max(ms(1));
        let Some(largest) = self.largest_acked else { return Vec::new() };
        let candidates = self.packets.iter().filter(|(order, packet)| {
            **order < largest
                && packet.4 == Fate::UnderWay
                && (largest - **order >= 3 || packet.3 + delay <= now)
        });
        candidates.map(|(order, _)| *order).collect()
    }

    /// Applies the outcome of a call to the model, and checks every part of it.
    fn apply(&mut self, now: Time, path: &Path, ranges: &[RangeInclusive<u64>]) {
        let out = &path.out;
        for (order, sent) in &out.acked {
            assert!(ranges.iter().any(|range| range.contains(order)));
            assert_eq!(sent.owed, *order);
            let packet = self.packets.get_mut(order).unwrap();
            assert_eq!(out.spurious.contains(order), packet.4 == Fate::Lost);
            assert_ne!(packet.4, Fate::Acked, "acknowledged twice");
            packet.4 = Fate::Acked;
        }
        self.spurious |= !out.spurious.is_empty();
        for range in ranges {
            for (_, packet) in self.packets.range(range.clone()) {
                assert_ne!(packet.4, Fate::UnderWay, "acknowledged and not reported");
            }
            self.largest_acked = self.largest_acked.max(Some(*range.end()));
        }
        if !self.spurious && (!out.acked.is_empty() || ranges.is_empty()) {
            let lost: Vec<_> = out.lost.iter().map(|(order, _)| *order).collect();
            assert_eq!(lost, self.lost(now, &path.recovery));
        }
        for (order, sent) in &out.lost {
            assert_eq!(sent.owed, *order);
            let packet = self.packets.get_mut(order).unwrap();
            assert_eq!(packet.4, Fate::UnderWay, "lost twice, or after it was acknowledged");
            assert!(Some(*order) < self.largest_acked);
            packet.4 = Fate::Lost;
        }
    }
}

proptest! {
    #[test]
    fn sent_packets_are_settled_as_a_naive_list_would(steps in prop::collection::vec(step(), 1..200)) {
        let mut path = Path::new(&Config { congestion: Algorithm::Bbr, ..plain() });
        let mut naive = Naive { packets: BTreeMap::new(), next: 0, largest_acked: None, spurious: false };
        let mut now = at(1);
        for step in steps {
            match step {
                Step::Send { size, in_flight, skip } => {
                    let order = naive.next + u64::from(skip);
                    let sent = Sent {
                        time: now, size, ack_eliciting: in_flight, in_flight, ect: false, mtu_probe: false, owed: order,
                    };
                    path.recovery.on_sent(DATA, order, sent);
                    naive.packets.insert(order, (size, in_flight, in_flight, now, Fate::UnderWay));
                    naive.next = order + 1;
                }
                Step::Ack { back, width, twice } => {
                    let Some(high) = naive.next.checked_sub(1 + back) else { continue };
                    let low = high.saturating_sub(width);
                    let mut ranges = vec![low..=high];
                    if twice && low > width + 2 {
                        ranges.push(low - 2 - width..=low - 2);
                    }
                    let hole = ranges.iter().flat_map(Clone::clone).find(|order| !naive.packets.contains_key(order));
                    let result = path.try_ack(now, DATA, &ranges, None);
                    if hole.is_some() {
                        // The transport would close the connection here.
                        prop_assert!(matches!(result, Err(AckError::Unsent(_))));
                        return Ok(());
                    }
                    prop_assert!(result.is_ok());
                    naive.apply(now, &path, &ranges);
                }
                Step::Pass { micros } => now += Duration::from_micros(micros),
                Step::Timeout => {
                    if path.timeout(now) == Some(crate::Expired::Loss) {
                        naive.apply(now, &path, &[]);
                    }
                }
                Step::Migrate => {
                    path.recovery.migrate(now);
                    naive.packets.values_mut().for_each(|packet| packet.2 = false);
                }
            }
            prop_assert_eq!(path.recovery.bytes_in_flight(), naive.in_flight());
            let under_way = naive.packets.iter().filter(|(_, packet)| packet.4 == Fate::UnderWay);
            let under_way: Vec<_> = under_way.map(|(order, _)| *order).collect();
            let listed: Vec<_> = path.recovery.unacked(DATA).map(|sent| sent.owed).collect();
            prop_assert_eq!(listed, under_way);
            prop_assert_eq!(path.recovery.next_order(DATA), naive.next);
        }
    }
}
