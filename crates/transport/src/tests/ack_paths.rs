//! Paths of acknowledgments with several paths, and their effects at the other endpoint.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anabranch_wire::{Frame, Frames, PacketKind, PathId, Side, Time, VarInt, Version, Writer, write_ack};

use super::multipath::second_addr;
use super::pair::{Flying, Pair, direction, pattern, server_addr, version};
use super::paths::{address, ids, open_and_wait};
use crate::acknowledge::{
    AckArrival, AckRule, AckStrategy, AckStrategyFactory, AckTiming, CustomAckStrategy,
};
use crate::connection::Forged;
use crate::trace::{Observer, TraceEvent};
use crate::{AckPath, AckScope, Event, FourTuple, MultipathConfig, PathInfo, TransportConfig};

const FAST: PathId = PathId(1);
const SLOW: PathId = PathId(0);

/// Log of one endpoint's packets: acknowledgments, by acknowledged path and carrying path, and the newest
/// packet of each path.
#[derive(Clone, Default)]
struct Watch(Arc<Mutex<Seen>>);

#[derive(Default)]
struct Seen {
    acks: BTreeMap<(PathId, PathId), u64>,
    newest: BTreeMap<PathId, u64>,
}

impl Observer for Watch {
    fn event(&mut self, _: Time, event: &TraceEvent<'_>) {
        let TraceEvent::PacketSent(packet) = event else { return };
        let mut seen = self.0.lock().unwrap();
        if packet.kind == PacketKind::OneRtt {
            seen.newest.insert(packet.path, packet.number);
        }
        for frame in Frames::new(packet.payload, packet.direction).map_while(Result::ok) {
            if let Frame::Ack(ack) = frame
                && let Some(of) = ack.path
            {
                *seen.acks.entry((of, packet.path)).or_default() += 1;
            }
        }
    }
}

impl Watch {
    fn on(pair: &mut Pair, side: Side) -> Self {
        let watch = Self::default();
        let now = pair.now;
        pair.end(side).set_observer(now, Box::new(watch.clone()));
        watch
    }

    /// Returns the number of acknowledgments of packets on `of` that were sent on `on`.
    fn acks(&self, of: PathId, on: PathId) -> u64 {
        self.0.lock().unwrap().acks.get(&(of, on)).copied().unwrap_or(0)
    }
}

/// Returns a pair with two paths, whose round-trip times are 60 ms and 20 ms.
fn uneven(change: impl Fn(&mut TransportConfig)) -> Pair {
    let mut pair = Pair::with_transport(|transport| {
        transport.multipath = Some(MultipathConfig::default());
        change(transport);
    });
    pair.network = Some(Box::new(|side, mut flying: Flying| {
        let address = if side == Side::Client { flying.tuple.remote } else { flying.tuple.local };
        if address != second_addr() {
            flying.at += Duration::from_millis(20);
        }
        vec![flying]
    }));
    pair.connect();
    pair.run_until_quiet();
    let now = pair.now;
    let tuple = FourTuple { local: second_addr(), remote: server_addr() };
    assert_eq!(pair.client().open_path(now, tuple), Ok(FAST));
    pair.run_until(Duration::from_secs(1), |pair| pair.server_events.contains(&Event::PathOpened(FAST)));
    pair
}

/// Runs a download. Returns the pair and a log of the client's acknowledgments.
fn download(path: AckPath) -> (Pair, Watch) {
    download_with(|transport| transport.ack.path = path)
}

fn download_with(change: impl Fn(&mut TransportConfig)) -> (Pair, Watch) {
    let mut pair = uneven(change);
    // The first acknowledgments measure which path is faster.
    assert!(pair.transfer(Side::Server, &pattern(200_000)) == pattern(200_000));
    let watch = Watch::on(&mut pair, Side::Client);
    let data = pattern(2_000_000);
    assert!(pair.transfer(Side::Server, &data) == data);
    (pair, watch)
}

fn path_info(pair: &mut Pair, side: Side, id: PathId) -> PathInfo {
    pair.end(side).paths().find(|path| path.id == id).unwrap()
}

#[test]
fn acknowledgments_stay_on_their_path() {
    let (mut pair, watch) = download(AckPath::Same);
    assert!(watch.acks(FAST, FAST) > 10 && watch.acks(SLOW, SLOW) > 10, "{:?}", watch.0.lock().unwrap().acks);
    assert_eq!((watch.acks(FAST, SLOW), watch.acks(SLOW, FAST)), (0, 0));
    let rtt = path_info(&mut pair, Side::Server, SLOW).min_rtt;
    assert!(rtt >= Duration::from_millis(60), "{rtt:?}");
}

#[test]
fn acknowledgments_go_the_way_on_which_they_arrive_soonest_and_on_their_own() {
    let (mut pair, watch) = download(AckPath::Soonest);
    let (first, copies) = (watch.acks(SLOW, FAST), watch.acks(SLOW, SLOW));
    assert!(first > 10 && copies * 10 >= first * 8, "{first} and {copies} copies");
    assert!(watch.acks(FAST, FAST) > 10);
    assert_eq!(watch.acks(FAST, SLOW), 0, "they would come later");
    // 30 ms to the client and 10 ms back.
    let rtt = path_info(&mut pair, Side::Server, SLOW).smoothed_rtt;
    assert!((40..60).contains(&rtt.as_millis()), "{rtt:?}");
}

/// Returns a connected pair that permits several paths and has one.
fn acknowledging(path: AckPath) -> Pair {
    let mut pair = Pair::with_transport(|transport| {
        transport.multipath = Some(MultipathConfig::default());
        transport.ack.path = path;
    });
    pair.connect();
    pair.run_until_quiet();
    pair
}

#[test]
fn acknowledgments_of_paths_that_are_alike_stay_on_them() {
    let mut pair = acknowledging(AckPath::Soonest);
    let other = open_and_wait(&mut pair, address(4));
    let watch = Watch::on(&mut pair, Side::Client);
    assert!(pair.transfer(Side::Server, &pattern(2_000_000)) == pattern(2_000_000));
    assert!(watch.acks(SLOW, SLOW) > 10 && watch.acks(other, other) > 10);
    assert_eq!((watch.acks(SLOW, other), watch.acks(other, SLOW)), (0, 0));
}

#[test]
fn the_farewell_takes_the_path_that_is_shortest_without_queues() {
    let mut pair = uneven(|transport| transport.ack.path = AckPath::Same);
    for _ in 0..3 {
        pair.client().ping(FAST);
        pair.run_for(Duration::from_millis(300));
    }
    // The queue builds up gradually, so that the path does not appear dead.
    for extra in 1..40 {
        pair.network = Some(Box::new(move |side, mut flying| {
            let address = if side == Side::Client { flying.tuple.remote } else { flying.tuple.local };
            flying.at += Duration::from_millis(if address == second_addr() { extra } else { 20 });
            vec![flying]
        }));
        pair.client().ping(FAST);
        pair.run_for(Duration::from_millis(300));
    }
    let [slow, fast] = [SLOW, FAST].map(|id| path_info(&mut pair, Side::Client, id));
    assert!(fast.smoothed_rtt > slow.smoothed_rtt && fast.min_rtt < slow.min_rtt, "{fast:?} and {slow:?}");
    let left = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&left);
    pair.network = Some(Box::new(move |side, flying| {
        if side == Side::Client {
            log.lock().unwrap().push(flying.tuple.remote);
        }
        vec![flying]
    }));
    let now = pair.now;
    pair.client().close(now, VarInt::from_u32(0), bytes::Bytes::new());
    pair.run_for(Duration::from_millis(5));
    assert_eq!(*left.lock().unwrap(), [second_addr()]);
}

#[test]
fn acknowledgments_take_the_fastest_path() {
    let (mut pair, watch) = download(AckPath::Fastest);
    assert!(watch.acks(FAST, FAST) > 20 && watch.acks(SLOW, FAST) > 20, "{:?}", watch.0.lock().unwrap().acks);
    assert_eq!((watch.acks(FAST, SLOW), watch.acks(SLOW, SLOW)), (0, 0));
    // 30 ms to the client and 10 ms back.
    let rtt = path_info(&mut pair, Side::Server, SLOW).smoothed_rtt;
    assert!((40..60).contains(&rtt.as_millis()), "{rtt:?}");
}

#[test]
fn acknowledgments_are_repeated_on_every_other_path() {
    let (_, watch) = download(AckPath::All);
    for (of, other) in [(FAST, SLOW), (SLOW, FAST)] {
        assert!(watch.acks(of, of) > 10, "{:?}", watch.0.lock().unwrap().acks);
        // Each acknowledgment is copied at most once, in a packet that is sent anyway.
        assert!((10..=watch.acks(of, of)).contains(&watch.acks(of, other)), "{of:?}");
    }
}

#[test]
fn what_is_to_be_repeated_is_forgotten_with_the_paths() {
    let mut pair = acknowledging(AckPath::All);
    for round in 0..4 {
        let paths = [4, 5].map(|last| open_and_wait(&mut pair, address(last)));
        pair.run_until_quiet();
        // The client acknowledges the PING on one path. The copy for the other path waits for the next packet
        // there.
        pair.server().ping(paths[0]);
        pair.run_for(Duration::from_millis(100));
        assert!(pair.client().held().ack_copies > 0, "round {round}");
        let now = pair.now;
        for path in paths {
            pair.client().abandon_path(now, path, VarInt::from_u32(0x3e)).unwrap();
        }
        pair.run_for(Duration::from_secs(5));
        assert_eq!(ids(&mut pair, Side::Client), [0]);
        assert_eq!(pair.client().held().ack_copies, 0, "round {round}");
    }
}

#[test]
fn acknowledgments_take_turns() {
    let (mut pair, watch) = download_with(|transport| {
        transport.ack.path = AckPath::InTurn;
        transport.ack.mixed_round_trips = Some(true);
    });
    let acks = |of, on| watch.acks(of, on);
    // The number depends on the room for an ACK in a packet, which differs in VReverso.
    let least = if version() == Version::V1 { 10 } else { 5 };
    for of in [FAST, SLOW] {
        assert!(acks(of, FAST) > least && acks(of, SLOW) > least, "{:?}", watch.0.lock().unwrap().acks);
    }
    // 30 ms to the client, and 10 or 30 ms back. The minimum remains, regardless of the latest return path.
    let rtt = path_info(&mut pair, Side::Server, SLOW).min_rtt;
    assert!((40..50).contains(&rtt.as_millis()), "{rtt:?}");
}

#[test]
fn acknowledgments_go_out_on_the_fastest_path_and_at_once_on_the_others() {
    let (_, watch) = download(AckPath::FastestAndAll);
    for of in [FAST, SLOW] {
        let (first, copies) = (watch.acks(of, FAST), watch.acks(of, SLOW));
        assert!(first > 10 && copies * 10 >= first * 8, "{first} and {copies} copies");
    }
}

#[test]
fn opportunistic_copies_wait_for_a_packet_that_is_sent_anyway() {
    let (_, watch) = download(AckPath::FastestAndOpportunistic);
    for of in [FAST, SLOW] {
        let (first, copies) = (watch.acks(of, FAST), watch.acks(of, SLOW));
        // The client of a download sends hardly any other packets, so copies are rare.
        assert!(first > 10 && copies * 5 <= first, "{first} and {copies} copies");
    }
}

#[test]
fn whichever_path_sends_takes_the_acknowledgments_of_all_along() {
    let (_, watch) = download_with(|transport| transport.ack.scope = AckScope::Connection);
    // Acknowledgments are sent more often on the short path, and each of them also covers the other path.
    assert!(watch.acks(SLOW, FAST) > 10, "{:?}", watch.0.lock().unwrap().acks);
}

#[test]
fn what_is_due_on_one_path_is_due_on_every_path() {
    let frames = |scope| {
        let (_, watch) = download_with(|transport| transport.ack.scope = scope);
        let seen = &watch.0.lock().unwrap().acks;
        let of = |id| seen.iter().filter(|((of, _), _)| *of == id).map(|(_, count)| *count).sum::<u64>();
        (of(FAST), of(SLOW))
    };
    let (fast, slow) = frames(AckScope::EveryPath);
    assert!(fast.abs_diff(slow) <= 5, "{fast} and {slow}: as many of one path as of the other");
    let (one, other) = frames(AckScope::Connection);
    assert!(one + other < fast + slow, "{one} and {other} where only news is told");
}

#[test]
fn totals_of_acknowledgments() {
    let (mut pair, watch) = download(AckPath::Same);
    let stats = pair.client().stats().acks;
    let seen: u64 = watch.0.lock().unwrap().acks.values().sum();
    assert!(stats.frames > seen && stats.frames < 2 * seen, "with those before: {} and {seen}", stats.frames);
    assert!(stats.ranges >= stats.frames && stats.bytes > 5 * stats.frames && stats.full_frames == 0);
}

/// Row M13: an ACK on another path with an impossibly long delay.
#[test]
fn row_m13_a_forged_delay_on_another_path_neither_shortens_the_round_trip_nor_opens_a_window() {
    let mut pair = uneven(|_| {});
    assert!(pair.transfer(Side::Server, &pattern(500_000)) == pattern(500_000));
    pair.run_for(Duration::from_secs(1));
    let before = [SLOW, FAST].map(|id| path_info(&mut pair, Side::Server, id));
    // The packet on the fast path will not arrive.
    pair.network = Some(Box::new(|_, _| Vec::new()));
    let watch = Watch::on(&mut pair, Side::Server);
    pair.server().ping(FAST);
    pair.run_for(Duration::from_millis(15));
    let number = watch.0.lock().unwrap().newest[&FAST];
    let mut bytes = [0; 64];
    let mut writer = Writer::new(&mut bytes, direction());
    write_ack(&mut writer, Some(FAST), [number..=number].into_iter(), 1 << 60, None).unwrap();
    pair.network = None;
    pair.delay = Duration::ZERO;
    pair.inject(Side::Client, &Forged::new(PacketKind::OneRtt, writer.written()));
    pair.run_for(Duration::from_millis(1));
    let after = [SLOW, FAST].map(|id| path_info(&mut pair, Side::Server, id));
    assert!(pair.closed(Side::Server).is_none());
    assert_eq!(after[1].recovery.acked_packets, before[1].recovery.acked_packets + 1, "it was accepted");
    // This endpoint measures 15 ms itself; the claimed delay cannot reduce that.
    let measured = Duration::from_millis(15);
    let least = (before[1].smoothed_rtt * 7 + measured) / 8;
    assert!(after[1].smoothed_rtt >= least, "{:?} after {:?}", after[1].smoothed_rtt, before[1].smoothed_rtt);
    assert!(after[1].min_rtt >= measured, "{:?}", after[1].min_rtt);
    assert_eq!(after[0].smoothed_rtt, before[0].smoothed_rtt, "the path it came on is not measured");
    // One packet did not use the window of its path.
    assert_eq!(after.each_ref().map(|path| path.window), before.each_ref().map(|path| path.window));
}

/// Strategy that requests an ACK after this many packets or after an hour, and ignores reordering.
#[derive(Clone, Copy, Debug)]
struct After(u64);

impl AckStrategy for After {
    fn rule(&mut self, _: Time, arrival: &AckArrival) -> AckRule {
        assert!(arrival.packets > 0);
        AckRule { threshold: self.0, max_delay: Duration::from_secs(3600), reordering_threshold: 0 }
    }
}

impl AckStrategyFactory for After {
    fn name(&self) -> &'static str {
        "after"
    }

    fn build(&self) -> Box<dyn AckStrategy> {
        Box::new(*self)
    }
}

/// Returns the number of ACK frames that the client sends during a download of 300,000 bytes, and the
/// duration in milliseconds.
fn acks_with(timing: AckTiming) -> (u64, u128) {
    let mut pair = Pair::with_transport(|transport| {
        transport.ack.frequency = false;
        transport.ack.timing = timing;
    });
    pair.connect();
    let before = (pair.client().stats().acks.frames, pair.now);
    let data = pattern(300_000);
    assert_eq!(pair.transfer(Side::Server, &data), data);
    (pair.client().stats().acks.frames - before.0, (pair.now - before.1).as_millis())
}

/// A custom strategy decides when ACKs are sent, but cannot delay them for longer than the peer's probe
/// timeouts allow.
#[test]
fn a_strategy_of_its_own_decides_when_acks_leave() {
    static EACH: After = After(0);
    static RARE: After = After(30);
    static NEVER: After = After(u64::MAX);
    let custom = |factory| AckTiming::Custom(CustomAckStrategy(factory));
    let standard = acks_with(AckTiming::Standard);
    let (each, rare) = (acks_with(custom(&EACH)), acks_with(custom(&RARE)));
    let never = acks_with(custom(&NEVER));
    assert!(each.0 >= standard.0, "{each:?} {standard:?}");
    assert!(rare.0 < standard.0 / 2, "{rare:?} {standard:?}");
    assert!(never.0 > 0 && never.1 < 5_000, "an ACK leaves after max_ack_delay: {never:?}");
}
