//! Silent paths and the connection's reaction, over links of 10 Mbit/s with delays of 15 ms and 25 ms.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anabranch_wire::{Dir, Frame, Frames, PacketKind, PathId, Side, StreamId, Time, VarInt};
use bytes::Bytes;

use super::injector::encode;
use super::multipath::second_addr;
use super::pair::{Pair, client_addr, pattern, server_addr};
use super::paths::{SECOND, SIDES};
use crate::connection::Forged;
use crate::stream::WriteError;
use crate::trace::{Observer, TraceEvent};
use crate::{
    AckConfig, AckPath, Event, FourTuple, IdleReason, MultipathConfig, PathInfo, PathState, PathStatus,
};

const MS: Duration = Duration::from_millis(1);
/// Maximum gap in the received data that a failure may cause.
const LONGEST_GAP: Duration = Duration::from_millis(200);

/// Link with two directions; the client's comes first.
struct Wire {
    delay: Duration,
    busy: [Time; 2],
    dead: [bool; 2],
    /// Additional delay.
    extra: Duration,
}

/// Transmission time of a byte at 10 Mbit/s.
const PER_BYTE: Duration = Duration::from_nanos(800);

/// Maximum queueing delay: one bandwidth-delay product of the slower path.
const QUEUE: Duration = Duration::from_millis(25);

#[derive(Clone)]
struct Wires(Rc<RefCell<[Wire; 2]>>);

impl Wires {
    fn new() -> Self {
        let wire = |micros| Wire {
            delay: Duration::from_micros(micros),
            busy: [Time::ZERO; 2],
            dead: [false; 2],
            extra: Duration::ZERO,
        };
        Self(Rc::new(RefCell::new([wire(7_500), wire(12_500)])))
    }

    /// Drops all datagrams from now on, in the directions that are set in `dead`.
    fn cut(&self, path: usize, dead: [bool; 2]) {
        self.0.borrow_mut()[path].dead = dead;
    }

    fn delay(&self, path: usize, extra: Duration) {
        self.0.borrow_mut()[path].extra = extra;
    }
}

/// Returns a pair with two paths, both measured.
fn two_paths(change: impl Fn(&mut MultipathConfig)) -> (Pair, Wires) {
    acknowledging(AckConfig::default().path, change)
}

/// Returns a pair with two paths, whose acknowledgments use `path`.
fn acknowledging(path: AckPath, change: impl Fn(&mut MultipathConfig)) -> (Pair, Wires) {
    let mut pair = Pair::with_transport(|transport| {
        let mut config = MultipathConfig::default();
        change(&mut config);
        transport.multipath = Some(config);
        transport.ack.path = path;
    });
    let wires = Wires::new();
    let inner = wires.clone();
    pair.delay = Duration::ZERO;
    pair.network = Some(Box::new(move |side, mut flying| {
        let client = if side == Side::Client { flying.tuple.remote } else { flying.tuple.local };
        let wire = &mut inner.0.borrow_mut()[usize::from(client == second_addr())];
        let way = usize::from(side == Side::Server);
        let busy = wire.busy[way].max(flying.at);
        if wire.dead[way] || busy - flying.at > QUEUE {
            return Vec::new();
        }
        wire.busy[way] = busy + PER_BYTE * u32::try_from(flying.bytes.len()).unwrap();
        flying.at = wire.busy[way] + wire.delay + wire.extra;
        vec![flying]
    }));
    pair.connect();
    pair.run_until_quiet();
    let now = pair.now;
    let tuple = FourTuple { local: second_addr(), remote: server_addr() };
    assert_eq!(pair.client().open_path(now, tuple), Ok(PathId(1)));
    pair.run_until_quiet();
    (pair, wires)
}

fn path(pair: &mut Pair, side: Side, id: usize) -> PathInfo {
    pair.end(side).paths().find(|path| path.id.0 as usize == id).unwrap()
}

fn state(pair: &mut Pair, side: Side, id: usize) -> PathState {
    path(pair, side, id).state
}

fn states(events: &[Event]) -> Vec<(u32, PathState)> {
    let state = |event: &Event| match event {
        Event::PathState { path, state } => Some((path.0, *state)),
        _ => None,
    };
    events.iter().filter_map(state).collect()
}

/// Stream that is written as fast as possible, and the times at which new data could be read.
struct Transfer {
    from: Side,
    id: StreamId,
    rest: Bytes,
    received: Vec<u8>,
    arrivals: Vec<Time>,
    done: bool,
}

impl Transfer {
    fn new(pair: &mut Pair, from: Side, data: &[u8]) -> Self {
        let id = pair.end(from).streams().open(Dir::Uni).unwrap();
        let rest = Bytes::copy_from_slice(data);
        Self { from, id, rest, received: Vec::new(), arrivals: vec![pair.now], done: false }
    }

    /// Writes and reads as much as possible. Returns `true` at the end of the stream.
    fn go_on(&mut self, pair: &mut Pair) -> bool {
        let mut wrote = false;
        while !self.rest.is_empty() {
            match pair.end(self.from).streams().write_bytes(self.id, &mut self.rest) {
                Ok(_) => wrote = true,
                Err(WriteError::Blocked) => break,
                Err(error) => panic!("{error}"),
            }
        }
        if wrote && self.rest.is_empty() {
            pair.end(self.from).streams().finish(self.id).unwrap();
        }
        let before = self.received.len();
        self.done |= pair.read(self.from.peer(), self.id, &mut self.received);
        if self.received.len() > before {
            self.arrivals.push(pair.now);
        }
        self.done
    }

    /// Returns the longest gap between arrivals that ended at `since` or later.
    fn longest_gap(&self, since: Time) -> Duration {
        let waits = self.arrivals.windows(2).filter(|wait| wait[1] >= since);
        waits.map(|wait| wait[1] - wait[0]).max().unwrap_or_default()
    }
}

/// Directions in which a cut may drop datagrams.
const CUTS: [[bool; 2]; 3] = [[true, true], [true, false], [false, true]];

#[test]
fn no_cut_in_a_transfer_is_felt_for_longer_than_a_probe_timeout_and_a_round_trip() {
    let data = pattern(1_500_000);
    for (from, ack_path) in
        SIDES.into_iter().flat_map(|from| [(from, AckPath::Same), (from, AckPath::Soonest)])
    {
        for (dead, cut) in [0, 1].into_iter().flat_map(|dead| CUTS.map(|cut| (dead, cut))) {
            for at in [5, 40, 130, 300] {
                let (mut pair, wires) = acknowledging(ack_path, |_| {});
                let mut transfer = Transfer::new(&mut pair, from, &data);
                let kill = pair.now + MS * at;
                pair.run_until(SECOND * 10, |pair| transfer.go_on(pair) || pair.now >= kill);
                wires.cut(dead, cut);
                let cut_at = pair.now;
                // PTO and round-trip time at the moment when the failure is detected.
                let mut noticed = None;
                pair.run_until(SECOND * 10, |pair| {
                    if state(pair, from, dead) != PathState::Failing {
                        noticed = Some((path(pair, from, dead).pto, path(pair, from, 1 - dead).smoothed_rtt));
                    }
                    transfer.go_on(pair)
                });
                assert!(transfer.received == data);
                let gap = transfer.longest_gap(cut_at);
                let (pto, rtt) = noticed.unwrap();
                // The round trip includes the receiver's queue and the transmission of the packet itself.
                let allowed = (pto + rtt + QUEUE + PER_BYTE * 1_500).min(LONGEST_GAP);
                let case = format!(
                    "{from:?} sends, {ack_path}, path {dead} cut {cut:?} after {at} ms, {pto:?} + {rtt:?}"
                );
                assert!(gap <= allowed, "{case}: {gap:?}");
            }
        }
    }
}

#[test]
fn a_request_on_a_path_that_died_while_nothing_was_said_is_answered_in_time() {
    for (asks, cut) in SIDES.into_iter().flat_map(|side| CUTS.map(|cut| (side, cut))) {
        let (mut pair, wires) = two_paths(|_| {});
        pair.run_for(SECOND * 3);
        wires.cut(0, cut);
        pair.run_for(SECOND);
        let began = pair.now;
        let request = pattern(400);
        assert!(pair.transfer(asks, &request) == request);
        let response = pattern(3_000);
        assert!(pair.transfer(asks.peer(), &response) == response);
        assert!(pair.now - began <= LONGEST_GAP, "{asks:?}, {cut:?}: {:?}", pair.now - began);
    }
}

/// Log of an endpoint's packets: the path, and the relevant frames in order.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<Packet>>>);

type Packet = (u32, Vec<Said>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    Status(u32, bool),
    Stream,
    Ack(u32),
}

impl Observer for Log {
    fn event(&mut self, _: Time, event: &TraceEvent<'_>) {
        let TraceEvent::PacketSent(packet) = event else { return };
        let said = Frames::new(packet.payload, packet.direction).filter_map(|frame| match frame.unwrap() {
            Frame::PathStatus { path, available, .. } => Some(Said::Status(path.0, available)),
            Frame::Stream(_) => Some(Said::Stream),
            Frame::Ack(ack) => Some(Said::Ack(ack.path.unwrap_or(PathId::ZERO).0)),
            _ => None,
        });
        self.0.lock().unwrap().push((packet.path.0, said.collect()));
    }
}

fn watch(pair: &mut Pair, side: Side) -> Log {
    let log = Log::default();
    let now = pair.now;
    pair.end(side).set_observer(now, Box::new(log.clone()));
    log
}

#[test]
fn the_peer_is_told_in_the_packet_that_repeats_the_data_and_again_on_recovery() {
    for from in SIDES {
        let (mut pair, wires) = two_paths(|_| {});
        let log = watch(&mut pair, from);
        let data = pattern(1_000_000);
        let mut transfer = Transfer::new(&mut pair, from, &data);
        let kill = pair.now + MS * 200;
        pair.run_until(SECOND * 10, |pair| transfer.go_on(pair) || pair.now >= kill);
        wires.cut(0, [true; 2]);
        pair.run_until(SECOND * 10, |pair| transfer.go_on(pair));
        assert!(transfer.received == data);
        let sent = log.0.lock().unwrap().clone();
        let told = sent.iter().find(|(_, said)| said.contains(&Said::Status(0, false))).expect("told");
        let status = told.1.iter().position(|said| *said == Said::Status(0, false));
        let stream = told.1.iter().position(|said| *said == Said::Stream);
        assert!(told.0 == 1 && status < stream && stream.is_some(), "{told:?}");
        for side in SIDES {
            // The other endpoint may have no data in flight on the path, and then only knows the peer's
            // status.
            let state = state(&mut pair, side, 0);
            let told = side != from && state == PathState::Backup;
            assert!(told || state == PathState::Failing, "{from:?} {side:?}: {state}");
        }
        wires.cut(0, [false; 2]);
        let healed = pair.now;
        pair.run_until(SECOND, |pair| SIDES.iter().all(|side| state(pair, *side, 0) == PathState::Open));
        // Both endpoints use the path again after a challenge and its response on that path, and a status on
        // the other.
        let longest = crate::path::MAX_PROBE_INTERVAL + MS * 60;
        assert!(pair.now - healed <= longest, "{:?}", pair.now - healed);
        let events = if from.is_client() { &pair.client_events } else { &pair.server_events };
        let states = states(events);
        assert_eq!(states.first(), Some(&(0, PathState::Failing)));
        assert_eq!(states.last(), Some(&(0, PathState::Open)));
        let before = path(&mut pair, from, 0).bytes_sent;
        assert!(pair.transfer(from, &data) == data);
        assert!(path(&mut pair, from, 0).bytes_sent - before > 100_000, "back in use");
    }
}

#[test]
fn a_path_that_was_only_slow_costs_one_repetition_of_what_was_under_way() {
    for from in SIDES {
        let (mut pair, wires) = two_paths(|config| config.scheduler = crate::schedule::Algorithm::MinRtt);
        let data = pattern(1_000_000);
        let mut transfer = Transfer::new(&mut pair, from, &data);
        let slow = pair.now + MS * 200;
        pair.run_until(SECOND * 10, |pair| transfer.go_on(pair) || pair.now >= slow);
        let before: u64 = pair.end(from).paths().map(|path| path.bytes_sent).sum();
        let window = path(&mut pair, from, 0).in_flight;
        let left = (data.len() - transfer.received.len()) as u64;
        let under_way: u64 = pair.end(from).paths().map(|path| path.in_flight).sum();
        wires.delay(0, MS * 300);
        pair.run_until(SECOND * 10, |pair| transfer.go_on(pair));
        assert!(transfer.received == data);
        pair.run_for(SECOND * 2);
        let sent: u64 = pair.end(from).paths().map(|path| path.bytes_sent).sum::<u64>() - before;
        // The bound allows 10 % and 60,000 bytes for headers, challenges and a few losses in the queue.
        let most = (left - under_way.min(left) + window) * 11 / 10 + 60_000;
        assert!(sent <= most, "{from:?}: {sent} bytes for {left}, {window} of them twice");
        assert_eq!(state(&mut pair, from, 0), PathState::Open, "late answers are answers");
    }
}

#[test]
fn when_everything_is_silent_nothing_is_moved_to_and_fro() {
    for from in SIDES {
        let (mut pair, wires) = two_paths(|_| {});
        let data = pattern(1_000_000);
        let mut transfer = Transfer::new(&mut pair, from, &data);
        let kill = pair.now + MS * 200;
        pair.run_until(SECOND * 10, |pair| transfer.go_on(pair) || pair.now >= kill);
        (0..2).for_each(|path| wires.cut(path, [true; 2]));
        pair.run_for(SECOND * 2);
        let failing =
            |pair: &mut Pair| (0..2).filter(|id| state(pair, from, *id) == PathState::Failing).count();
        assert!(failing(&mut pair) <= 1, "{from:?}");
        // The path that recovers first takes over.
        wires.cut(1, [false; 2]);
        pair.run_until(SECOND * 10, |pair| transfer.go_on(pair));
        assert!(transfer.received == data);
        assert_eq!(state(&mut pair, from, 0), PathState::Failing, "{from:?}");
    }
}

#[test]
fn a_path_that_stays_dead_is_given_up_if_another_works() {
    let (mut pair, wires) = two_paths(|config| config.path_idle_timeout = Some(SECOND * 5));
    wires.cut(0, [true; 2]);
    let data = pattern(100_000);
    assert!(pair.transfer(Side::Client, &data) == data);
    pair.run_for(SECOND * 4);
    assert_eq!(pair.client().paths().count(), 2);
    pair.run_for(SECOND * 4);
    let given_up = Event::PathAbandoned { path: PathId(0), code: VarInt::from_u32(0x3e76) };
    assert!(pair.client_events.contains(&given_up) && pair.server_events.contains(&given_up));
    assert_eq!((pair.client().paths().count(), pair.server().paths().count()), (1, 1));
    // The last path is not abandoned.
    wires.cut(1, [true; 2]);
    pair.run_for(SECOND * 8);
    assert_eq!(pair.client().paths().count(), 1);
    wires.cut(1, [false; 2]);
    assert!(pair.transfer(Side::Server, &data) == data);
}

#[test]
fn a_quiet_path_is_found_out_while_the_connection_is_in_use_and_not_kept_alive_otherwise() {
    let (mut pair, wires) = two_paths(|config| {
        config.path_idle_timeout = Some(SECOND * 5);
        config.scheduler = crate::schedule::Algorithm::MinRtt;
    });
    wires.cut(1, [true; 2]);
    let data = pattern(2_000);
    let mut spoken = 0;
    while pair.client().paths().count() > 1 {
        // The first path alone can carry this little data.
        assert!(pair.transfer(Side::Client, &data) == data);
        pair.run_for(SECOND);
        spoken += 1;
        assert!(spoken < 20, "the second path is dead");
    }
    let (mut pair, _) = two_paths(|config| config.path_idle_timeout = Some(SECOND * 5));
    pair.run_for(SECOND * 60);
    assert!(
        SIDES.iter().all(|side| pair.closed(*side).is_some()),
        "the idle timeout still ends the connection"
    );
}

#[test]
fn keep_alive_pings_every_path() {
    let (mut pair, _) = two_paths(|config| config.path_keep_alive = Some(SECOND * 4));
    let before: Vec<u64> = pair.client().paths().map(|path| path.datagrams_received).collect();
    pair.run_for(SECOND * 60);
    assert_eq!((pair.closed(Side::Client), pair.closed(Side::Server)), (None, None));
    let after: Vec<u64> = pair.client().paths().map(|path| path.datagrams_received).collect();
    for id in 0..2 {
        let received = after[id] - before[id];
        assert!((14..=40).contains(&received), "{before:?} {after:?}");
    }
}

#[test]
fn the_applications_wish_outlasts_a_failure() {
    use crate::PathStatus::{Available, Backup};
    for (wish, other) in [(Backup, Available), (Available, Backup)] {
        let (mut pair, wires) = two_paths(|_| {});
        pair.client().set_path_status(PathId(1), wish).unwrap();
        pair.run_until_quiet();
        wires.cut(1, [true; 2]);
        pair.client().ping(PathId(1));
        pair.run_until_quiet();
        assert_eq!(state(&mut pair, Side::Client, 1), PathState::Failing);
        assert!(!pair.server().peer_available(PathId(1)));
        wires.cut(1, [false; 2]);
        pair.run_for(SECOND);
        let expected = if wish.is_available() { PathState::Open } else { PathState::Backup };
        for side in SIDES {
            assert_eq!(state(&mut pair, side, 1), expected, "{side:?}");
        }
        assert_eq!(pair.server().peer_available(PathId(1)), wish.is_available());
        // A status that changes during a failure applies afterwards.
        wires.cut(1, [true; 2]);
        pair.client().ping(PathId(1));
        pair.run_until_quiet();
        pair.client().set_path_status(PathId(1), other).unwrap();
        pair.run_until_quiet();
        assert!(!pair.server().peer_available(PathId(1)), "it still fails");
        wires.cut(1, [false; 2]);
        pair.run_for(SECOND);
        assert_eq!(pair.server().peer_available(PathId(1)), other.is_available());
    }
}

#[test]
fn a_backup_by_choice_does_not_look_like_a_failure() {
    let (mut pair, _) = two_paths(|_| {});
    let data = pattern(600_000);
    let mut transfer = Transfer::new(&mut pair, Side::Server, &data);
    let middle = pair.now + MS * 150;
    pair.run_until(SECOND * 10, |pair| transfer.go_on(pair) || pair.now >= middle);
    pair.client().set_path_status(PathId(0), PathStatus::Backup).unwrap();
    let told = pair.now + MS * 40;
    pair.run_until(SECOND, |pair| transfer.go_on(pair) || pair.now >= told);
    assert_eq!(states(&pair.server_events), [(0, PathState::Backup)], "with data of its own under way");
    pair.run_until(SECOND * 10, |pair| transfer.go_on(pair));
    assert!(transfer.received == data);
    assert_eq!(states(&pair.client_events), [(0, PathState::Backup)]);
}

#[test]
fn a_peer_that_changes_its_mind_all_the_time_makes_few_events_and_no_traffic() {
    for from in SIDES {
        let (mut pair, _) = two_paths(|_| {});
        let before = path(&mut pair, from.peer(), 0).bytes_sent + path(&mut pair, from.peer(), 1).bytes_sent;
        for round in 0..50_u64 {
            let frames = (0..200).map(|n| Frame::PathStatus {
                path: PathId(1),
                available: n % 2 == 1,
                sequence: round * 200 + n,
            });
            let payload = encode(&frames.collect::<Vec<_>>());
            pair.inject(from, &Forged::new(PacketKind::OneRtt, &payload));
            pair.run_for(MS * 30);
        }
        let events = if from.is_client() { &pair.server_events } else { &pair.client_events };
        assert!(states(events).len() <= 50, "{}", states(events).len());
        let after = path(&mut pair, from.peer(), 0).bytes_sent + path(&mut pair, from.peer(), 1).bytes_sent;
        // The victim sends one acknowledgment for each packet.
        assert!(after - before < 50 * 100, "{} bytes", after - before);
    }
}

#[test]
fn acknowledgments_leave_a_path_that_is_given_up_or_fails() {
    for from in SIDES {
        let (mut pair, wires) = two_paths(|_| {});
        let log = watch(&mut pair, from.peer());
        // The return direction of path 0 is dead: its data arrives, its acknowledgments do not.
        let mut cut = [false; 2];
        cut[usize::from(from.is_client())] = true;
        let data = pattern(1_000_000);
        let mut transfer = Transfer::new(&mut pair, from, &data);
        let kill = pair.now + MS * 200;
        pair.run_until(SECOND * 10, |pair| transfer.go_on(pair) || pair.now >= kill);
        wires.cut(0, cut);
        let cut_at = pair.now;
        log.0.lock().unwrap().clear();
        pair.run_until(SECOND * 10, |pair| transfer.go_on(pair));
        assert!(transfer.longest_gap(cut_at) <= LONGEST_GAP);
        let moved = |(on, said): &Packet| *on == 1 && said.contains(&Said::Ack(0));
        assert!(log.0.lock().unwrap().iter().any(moved), "{from:?}");

        let (mut pair, _) = two_paths(|_| {});
        let log = watch(&mut pair, from.peer());
        let now = pair.now;
        pair.end(from).abandon_path(now, PathId(0), VarInt::from_u32(0x3e)).unwrap();
        pair.run_for(MS * 30);
        // RFC 10069 §3.4: the receiver promptly acknowledges the packets received on the path.
        assert!(log.0.lock().unwrap().iter().any(moved), "{from:?}");
    }
}

#[test]
fn the_end_is_told_on_a_path_that_works_and_answered() {
    for closer in SIDES {
        for dead in 0..2 {
            let (mut pair, wires) = two_paths(|_| {});
            wires.cut(dead, [true; 2]);
            let data = pattern(100_000);
            assert!(pair.transfer(closer, &data) == data);
            pair.run_until_quiet();
            let now = pair.now;
            let before = path(&mut pair, closer.peer(), 1 - dead).bytes_sent;
            pair.end(closer).close(now, VarInt::from_u32(7), Bytes::new());
            pair.run_for(MS * 30);
            assert!(pair.closed(closer.peer()).is_some(), "{closer:?}, path {dead} dead");
            assert!(path(&mut pair, closer.peer(), 1 - dead).bytes_sent > before, "answered where it came");
            pair.run_for(SECOND * 4);
            assert!(pair.client.is_empty() && pair.server.is_empty());
        }
    }
}

#[test]
fn each_path_says_why_it_is_idle() {
    let (mut pair, wires) = two_paths(|config| config.scheduler = crate::schedule::Algorithm::MinRtt);
    let idle = |pair: &mut Pair, id| path(pair, Side::Client, id).idle;
    assert_eq!(idle(&mut pair, 0), Some(IdleReason::NothingToSend));
    let id = pair.client().streams().open(Dir::Uni).unwrap();
    pair.client().streams().write(id, &pattern(4_000_000)).unwrap();
    pair.drain();
    let reasons = [0, 1].map(|id| idle(&mut pair, id));
    let waits = [Some(IdleReason::CongestionWindow), Some(IdleReason::Pacing)];
    assert!(reasons.iter().all(|reason| waits.contains(reason)), "{reasons:?}");
    pair.run_for(SECOND);
    pair.client().set_path_status(PathId(1), PathStatus::Backup).unwrap();
    assert_eq!(idle(&mut pair, 1), Some(IdleReason::BackupHere));
    pair.run_until_quiet();
    assert_eq!(path(&mut pair, Side::Server, 1).idle, Some(IdleReason::BackupByPeer));
    wires.cut(1, [true; 2]);
    pair.client().ping(PathId(1));
    pair.run_for(SECOND);
    assert_eq!(idle(&mut pair, 1), Some(IdleReason::PotentiallyFailed));
    let now = pair.now;
    pair.client().abandon_path(now, PathId(1), VarInt::from_u32(0x3e)).unwrap();
    assert_eq!(idle(&mut pair, 1), Some(IdleReason::Abandoned));
    let tuple = FourTuple { local: ([127, 0, 0, 9], 50_009).into(), remote: server_addr() };
    let opening = pair.client().open_path(now, tuple).unwrap();
    let info = pair.client().paths().find(|path| path.id == opening).unwrap();
    assert_eq!((info.state, info.idle), (PathState::Opening, Some(IdleReason::NotValidated)));
}

#[test]
fn a_path_that_fails_is_announced_unless_that_is_turned_off() {
    let announced = |signalling| {
        let (mut pair, wires) = two_paths(|config| config.path_signalling = signalling);
        let data = pattern(50_000);
        assert!(pair.transfer(Side::Client, &data) == data);
        // The client's packets on the second path are lost. The server has no way to notice that.
        wires.cut(1, [true, false]);
        pair.client().ping(PathId(1));
        pair.run_for(SECOND);
        assert_eq!(state(&mut pair, Side::Client, 1), PathState::Failing, "{signalling}");
        state(&mut pair, Side::Server, 1)
    };
    assert_eq!(announced(true), PathState::Backup);
    assert_eq!(announced(false), PathState::Open);
}

/// Checks that a path works again although its server went back to the client's old address, where nobody is, when the new one did
/// not answer in time.
#[test]
fn a_path_whose_server_went_back_to_an_address_that_was_left_works_again() {
    let (mut pair, wires) = two_paths(|_| {});
    let mut network = pair.network.take().unwrap();
    pair.network = Some(Box::new(move |side, flying| {
        let is_left = side == Side::Server && flying.tuple.local == client_addr();
        if is_left { Vec::new() } else { network(side, flying) }
    }));
    let (now, local) = (pair.now, SocketAddr::from(([127, 0, 0, 1], 50_009)));
    wires.cut(0, [false, true]);
    pair.client().relocate(now, local).unwrap();
    pair.run_until(10_000 * MS, |pair| path(pair, Side::Server, 0).tuple.remote == local);
    pair.run_until(10_000 * MS, |pair| path(pair, Side::Server, 0).tuple.remote == client_addr());
    wires.cut(0, [false; 2]);
    pair.run_for(10_000 * MS);
    for side in SIDES {
        assert_eq!(state(&mut pair, side, 0), PathState::Open, "{side:?}");
    }
    assert_eq!(path(&mut pair, Side::Server, 0).tuple.remote, local);
}

/// Checks that a failing path is probed although the validation that did so was cancelled, as it is when the peer moves.
#[test]
fn a_failing_path_is_probed_whatever_has_cancelled_its_validation() {
    let (mut pair, wires) = two_paths(|_| {});
    wires.cut(0, [false, true]);
    let mut transfer = Transfer::new(&mut pair, Side::Server, &pattern(300_000));
    pair.run_until(10_000 * MS, |pair| transfer.go_on(pair));
    assert_eq!(state(&mut pair, Side::Server, 0), PathState::Failing);
    pair.server().cancel_validations(PathId(0));
    wires.cut(0, [false; 2]);
    pair.run_for(10_000 * MS);
    for side in SIDES {
        assert_eq!(state(&mut pair, side, 0), PathState::Open, "{side:?}");
    }
}
