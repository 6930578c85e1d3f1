//! Batches of packets: their effects equal those of packets processed one by one.

use std::cell::RefCell;
use std::fmt::Write;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anabranch_wire::{
    Dir, Direction, Ecn, Frame, PacketKind, PathId, Side, Stream, StreamId, Time, TransportErrorCode as Code,
    VarInt, Version,
};

use super::injector::encode;
use super::multipath::second_addr;
use super::pair::{Flying, Pair, client_addr, direction, over, pattern};
use super::paths::{NUMBERINGS, SIDES, far_apart, far_apart_with};
use super::place::hostile;
use crate::connection::{Forged, IN_RUNS, IN_TRAINS};
use crate::recovery::MtuConfig;
use crate::stream::{FAULT, Fault, ReceivedBytes};
use crate::trace::{Observer, TraceEvent};
use crate::{
    AckScope, ConnectionError, ConnectionStats, Event, MultipathConfig, Numbering, NumberingChoice,
    TransportConfig,
};

/// Scenario of an exchange.
#[derive(Clone, Copy, Debug)]
enum Scenario {
    Quiet,
    /// Loss, reordering, duplication, forgery and ECN marks. Datagrams that arrive within two milliseconds
    /// form a batch.
    Hostile(u64),
    /// Windows that are little larger than a flight of packets.
    Tight,
    TwoPaths(Numbering),
    /// Two paths, of which the first is the slow one.
    SlowFirst(Numbering),
    /// Two paths that share their numbers, the first one slow, the hostile network, and ACKs that count the
    /// packets of both together.
    HostileTwoPaths(u64),
}

const WAYS: [Scenario; 11] = [
    Scenario::Quiet,
    Scenario::Hostile(1),
    Scenario::Hostile(2),
    Scenario::Hostile(3),
    Scenario::Tight,
    Scenario::TwoPaths(Numbering::Multiple),
    Scenario::TwoPaths(Numbering::Single),
    Scenario::SlowFirst(Numbering::Multiple),
    Scenario::SlowFirst(Numbering::Single),
    Scenario::HostileTwoPaths(4),
    Scenario::HostileTwoPaths(5),
];

impl Scenario {
    fn pair(self) -> Pair {
        match self {
            Self::TwoPaths(numbering) => far_apart(numbering),
            Self::SlowFirst(numbering) => far_apart_with(numbering, client_addr(), |_| {}),
            Self::HostileTwoPaths(_) => far_apart_with(Numbering::Single, client_addr(), |transport| {
                transport.ack.scope = AckScope::Connection;
                transport.ack.threshold = 7;
                transport.ack.frequency = false;
                self.configure(transport);
            }),
            _ => Pair::with_transport(|transport| self.configure(transport)),
        }
    }

    fn configure(self, transport: &mut TransportConfig) {
        transport.key_update_after = Some(300);
        if matches!(self, Self::Tight) {
            transport.streams.stream_window = 20_000;
            transport.streams.stream_window_max = 30_000;
            transport.streams.connection_window = 30_000;
            transport.streams.connection_window_max = 60_000;
        }
    }
}

/// Returns all datagrams that the network carried, and a log of both endpoints.
fn story(way: Scenario, one_by_one: bool) -> (Vec<(Side, Flying)>, String) {
    let mut pair = way.pair();
    pair.one_by_one = one_by_one;
    let carried = Rc::new(RefCell::new(Vec::new()));
    let log = Rc::clone(&carried);
    let mut delay = pair.network.take().unwrap_or_else(|| Box::new(|_, flying| vec![flying]));
    let mut network = match way {
        Scenario::Hostile(seed) | Scenario::HostileTwoPaths(seed) => {
            let mut hostile = hostile(seed);
            Box::new(move |from, flying| {
                delay(from, flying).into_iter().flat_map(|flying| hostile(from, flying)).collect()
            })
        }
        _ => delay,
    };
    let is_hostile = matches!(way, Scenario::Hostile(_) | Scenario::HostileTwoPaths(_));
    pair.network = Some(Box::new(move |from, mut flying| {
        let count = log.borrow().len();
        log.borrow_mut().push((from, flying.clone()));
        if is_hostile {
            flying.ecn = [None, Some(Ecn::Ect0), Some(Ecn::Ce)][count / 8 % 3];
        }
        let mut arriving = network(from, flying);
        if is_hostile {
            arriving.iter_mut().for_each(|flying| flying.at = rounded(flying.at));
        }
        arriving
    }));
    pair.connect();
    exchange(&mut pair);
    let mut says = String::new();
    for side in SIDES {
        write!(says, "{:?}", stats(&mut pair, side)).unwrap();
    }
    for events in [&pair.client_events, &pair.server_events] {
        // The state of a path is reported once for a batch, after its last packet. The last state is in the
        // statistics.
        let counts = matches!(way, Scenario::HostileTwoPaths(_));
        let told = events.iter().filter(|event| !counts || !matches!(event, Event::PathState { .. }));
        write!(says, "{:?}", told.collect::<Vec<_>>()).unwrap();
    }
    (carried.take(), says)
}

/// Returns the statistics of an endpoint. In version 1 the packets of a train alone are decrypted to their
/// places, so the bytes are not told apart by the way they reached the buffer.
fn stats(pair: &mut Pair, side: Side) -> ConnectionStats {
    let mut stats = pair.end(side).stats();
    if direction() == Direction::Forward {
        let ReceivedBytes { placed, copied, restored } = stats.received;
        stats.received = ReceivedBytes { placed: 0, copied: placed + copied, restored };
    }
    stats
}

fn rounded(at: Time) -> Time {
    const GRAIN: u128 = 2_000;
    let micros = at.saturating_since(Time::ZERO).as_micros().next_multiple_of(GRAIN);
    Time::ZERO + Duration::from_micros(micros as u64)
}

/// Stream in transfer.
struct Sent {
    id: StreamId,
    data: Vec<u8>,
    written: usize,
    received: Vec<u8>,
    is_over: bool,
}

impl Sent {
    /// Writes and reads as much as possible.
    fn go_on(&mut self, pair: &mut Pair, from: Side) {
        let streams = pair.end(from).streams();
        if self.written < self.data.len() {
            self.written += streams.write(self.id, &self.data[self.written..]).unwrap_or(0);
            if self.written == self.data.len() {
                streams.finish(self.id).unwrap();
            }
        }
        self.is_over = self.is_over || pair.read(from.peer(), self.id, &mut self.received);
    }
}

/// Transfers one stream alone and several at once, in both directions.
fn exchange(pair: &mut Pair) {
    for from in [Side::Server, Side::Client] {
        let data = pattern(400_000);
        assert!(pair.transfer(from, &data) == data);
        let mut streams: Vec<Sent> = (1..=5)
            .map(|n| Sent {
                id: pair.end(from).streams().open(Dir::Uni).unwrap(),
                data: pattern(n * 11_000),
                written: 0,
                received: Vec::new(),
                is_over: false,
            })
            .collect();
        pair.run_until(Duration::from_secs(60), |pair| {
            streams.iter_mut().for_each(|sent| sent.go_on(pair, from));
            streams.iter().all(|sent| sent.is_over)
        });
        assert!(streams.iter().all(|sent| sent.received == sent.data));
        // The receiver stops one stream while it is in transfer.
        let unwanted = pair.end(from).streams().open(Dir::Uni).unwrap();
        pair.end(from).streams().write(unwanted, &pattern(100_000)).unwrap();
        pair.run_for(Duration::from_millis(25));
        pair.run_until(Duration::from_secs(1), |pair| {
            pair.end(from.peer()).streams().stop(unwanted, VarInt::from_u32(7)).is_ok()
        });
        pair.run_for(Duration::from_millis(100));
    }
    pair.run_until_quiet();
}

fn check() {
    for way in WAYS {
        IN_TRAINS.take();
        let (together, says_together) = story(way, false);
        let (alone, says_alone) = story(way, true);
        let first = together.iter().zip(&alone).position(|(a, b)| format!("{a:?}") != format!("{b:?}"));
        assert_eq!((first, together.len()), (None, alone.len()), "{way:?}");
        assert_eq!(says_together, says_alone, "{way:?}");
        let [in_trains, overtaken] = IN_TRAINS.take();
        let shares = matches!(
            way,
            Scenario::TwoPaths(Numbering::Single)
                | Scenario::SlowFirst(Numbering::Single)
                | Scenario::HostileTwoPaths(_)
        );
        assert!(in_trains > 100, "{way:?}: {in_trains}");
        assert_eq!(overtaken > 0, shares, "{way:?}: {overtaken}");
        assert!(together.len() > 500, "{way:?}: {}", together.len());
    }
}

#[test]
fn a_batch_does_what_its_packets_do() {
    check();
}

#[test]
fn a_batch_of_packets_in_their_places_does_what_they_do() {
    over(Version::REVERSO, check);
}

fn check_runs() {
    for way in WAYS {
        IN_RUNS.set(Some(0));
        let (together, says_together) = story(way, false);
        let in_runs = IN_RUNS.replace(None).unwrap();
        let (alone, says_alone) = story(way, false);
        IN_RUNS.set(Some(0));
        let first = together.iter().zip(&alone).position(|(a, b)| format!("{a:?}") != format!("{b:?}"));
        assert_eq!((first, together.len()), (None, alone.len()), "{way:?}");
        assert_eq!(says_together, says_alone, "{way:?}");
        assert!(in_runs > 50, "{way:?}: {in_runs}");
    }
}

#[test]
fn packets_that_are_written_in_runs_are_those_that_are_written_alone() {
    check_runs();
}

#[test]
fn packets_with_named_streams_that_are_written_in_runs_are_those_that_are_written_alone() {
    over(Version::REVERSO, check_runs);
}

/// Returns all datagrams of a transfer from the server, and how the server's connection is afterwards.
fn download(change: impl Fn(&mut TransportConfig), prepare: impl Fn(&mut Pair)) -> (Vec<Flying>, String) {
    let mut pair = Pair::with_transport(change);
    let carried = Rc::new(RefCell::new(Vec::new()));
    let log = Rc::clone(&carried);
    pair.network = Some(Box::new(move |_, flying| {
        log.borrow_mut().push(flying.clone());
        vec![flying]
    }));
    pair.connect();
    pair.run_until_quiet();
    prepare(&mut pair);
    let id = pair.server().streams().open(Dir::Uni).unwrap();
    let mut data = bytes::Bytes::from(pattern(300_000));
    let mut received = Vec::new();
    let (stream, begin) = (id, pair.now);
    while pair.now < begin + Duration::from_secs(5) && pair.closed(Side::Server).is_none() {
        let _ = pair.server().streams().write_bytes(stream, &mut data);
        if pair.closed(Side::Client).is_none() {
            pair.read(Side::Client, stream, &mut received);
        }
        if !pair.step() {
            break;
        }
    }
    let says = format!("{:?} {}", pair.closed(Side::Server), received.len());
    (carried.take(), says)
}

/// Checks that a download is the same with runs and without. Returns the number of packets in runs, all datagrams, and how the
/// connection is afterwards.
fn same_download(
    change: impl Fn(&mut TransportConfig),
    prepare: impl Fn(&mut Pair),
) -> (u64, Vec<Flying>, String) {
    IN_RUNS.set(Some(0));
    let (together, says) = download(&change, &prepare);
    let in_runs = IN_RUNS.replace(None).unwrap();
    let (alone, says_alone) = download(&change, &prepare);
    IN_RUNS.set(Some(0));
    let first = together.iter().zip(&alone).position(|(a, b)| format!("{a:?}") != format!("{b:?}"));
    assert_eq!((first, together.len()), (None, alone.len()));
    assert_eq!(says, says_alone);
    (in_runs, together, says)
}

/// Checks that a packet of a run which cannot be filled to the last byte, because of the length of its frame's length, ends the batch.
#[test]
fn a_run_ends_with_a_packet_that_is_not_full() {
    for version in [Version::V1, Version::REVERSO] {
        over(version, || {
            let (mut short, mut runs) = (0, 0);
            // Room for 16,384 and 16,385 bytes of data is somewhere in between.
            for mtu in 16_384..16_450 {
                let (in_runs, datagrams, says) = same_download(
                    |transport| {
                        let mtu =
                            MtuConfig::default().with_initial(mtu).with_maximum(mtu).with_discovery(false);
                        transport.recovery = transport.recovery.clone().with_mtu(mtu);
                    },
                    |_| {},
                );
                assert_eq!(says, "None 300000", "{mtu}");
                runs += in_runs;
                short += datagrams
                    .iter()
                    .filter(|one| (1..3).contains(&(usize::from(mtu) - one.bytes.len())))
                    .count();
            }
            assert!(short > 10 && runs > 100, "{short} packets are not full, {runs} are in runs");
        });
    }
}

#[test]
fn a_connection_that_fails_in_a_run_has_sent_the_packets_before() {
    let (in_runs, _, says) = same_download(
        |_| {},
        |pair| {
            pair.server().limit_keys(20, u64::MAX, 1);
            pair.server().update_keys();
            let mut network = pair.network.take().unwrap();
            pair.network = Some(Box::new(move |from, flying| {
                let arriving = network(from, flying);
                if from.is_client() { Vec::new() } else { arriving }
            }));
        },
    );
    assert!(in_runs > 3 && says.contains("too many packets"), "{in_runs} {says}");
}

/// Bytes of stream data in each packet of a test with [`Amid`].
const PART: u64 = 1_000;

/// Change or event between the packets of a stream.
#[derive(Clone, Copy, Debug)]
enum Amid {
    /// No event, but the data reaches the stream's limit.
    StreamLimit,
    /// No event, but the data reaches the connection's limit.
    ConnectionLimit,
    /// No event, but an observer is attached.
    Observed,
    ReservedBits,
    /// No event, but the client's address changes.
    Move,
    Frames(fn(StreamId, u64) -> Vec<Frame<'static>>),
}

static DATA: [u8; PART as usize] = [7; PART as usize];

fn part(id: StreamId, offset: u64, fin: bool) -> Frame<'static> {
    Frame::Stream(Stream { id, offset, fin, data: &DATA })
}

const AMID: [Amid; 16] = [
    Amid::StreamLimit,
    Amid::ConnectionLimit,
    Amid::Observed,
    Amid::ReservedBits,
    Amid::Move,
    Amid::Frames(|id, at| vec![part(id, at + 2 * PART, false)]),
    Amid::Frames(|_, _| vec![Frame::Ping]),
    Amid::Frames(|id, at| vec![part(id, at, false), Frame::Ping]),
    Amid::Frames(|id, at| vec![part(id, at, true)]),
    Amid::Frames(|id, at| vec![part(id, at + PART, true)]),
    Amid::Frames(|id, at| vec![Frame::ResetStream { id, code: VarInt::from_u32(3), final_size: at }]),
    Amid::Frames(|_, _| vec![part(StreamId::new(Side::Client, Dir::Uni, 0), 0, false)]),
    Amid::Frames(|_, _| vec![part(StreamId::new(Side::Server, Dir::Uni, 1 << 20), 0, false)]),
    Amid::Frames(|_, _| vec![Frame::Datagram { data: &DATA }]),
    Amid::Frames(|_, _| vec![Frame::PathChallenge([1; 8])]),
    Amid::Frames(|_, _| vec![Frame::RetireConnectionId { path: Some(PathId(9)), sequence: 0 }]),
];

/// Observer that writes every event to a log.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<String>>);

impl Observer for Log {
    fn event(&mut self, _: Time, event: &TraceEvent<'_>) {
        write!(self.0.lock().unwrap(), "{event:?}").unwrap();
    }
}

/// Sends a stream's packets with `amid` between them, and returns the client's log.
fn made_of(amid: Amid, numbering: Numbering, one_by_one: bool) -> String {
    let mut pair = Pair::with_transport(|transport| {
        let choice = NumberingChoice::Only(numbering);
        transport.multipath = match numbering {
            Numbering::Single => Some(MultipathConfig { numbering: choice, ..MultipathConfig::default() }),
            _ => None,
        };
        transport.streams.stream_window = 20_500;
        transport.streams.connection_window = 40_500;
        transport.streams.stream_window_max =
            if matches!(amid, Amid::ConnectionLimit) { 1 << 20 } else { 20_500 };
        if matches!(amid, Amid::ConnectionLimit) {
            transport.streams.stream_window = 1 << 20;
        }
    });
    pair.connect();
    pair.run_until_quiet();
    pair.one_by_one = one_by_one;
    let log = Log::default();
    if matches!(amid, Amid::Observed) {
        let now = pair.now;
        pair.client().set_observer(now, Box::new(log.clone()));
    }
    let id = StreamId::new(Side::Server, Dir::Uni, 0);
    let ordinary = |at: u64| vec![part(id, at * PART, false)];
    let parts = if matches!(amid, Amid::StreamLimit | Amid::ConnectionLimit) { 45 } else { 12 };
    for at in 0..parts {
        if at == 6
            && let Amid::Frames(frames) = amid
        {
            pair.inject_frames(Side::Server, &frames(id, at * PART));
        }
        let reserved = at == 6 && matches!(amid, Amid::ReservedBits);
        let payload = encode(&ordinary(at));
        pair.inject(Side::Server, &Forged { reserved, ..Forged::new(PacketKind::OneRtt, &payload) });
        if at >= 6 && matches!(amid, Amid::Move) {
            pair.to_client.back_mut().expect("a packet").tuple.local = second_addr();
        }
    }
    pair.step();
    let stats = stats(&mut pair, Side::Client);
    let news = format!("{:?} {stats:?}", pair.client_events);
    pair.run_until_quiet();
    let mut received = Vec::new();
    if pair.closed(Side::Client).is_none() {
        pair.read(Side::Client, id, &mut received);
    }
    let sent = pair.bytes_to_server;
    format!("{news} {:?} {} {sent} {}", pair.closed(Side::Client), received.len(), log.0.lock().unwrap())
}

fn check_amid() {
    for numbering in NUMBERINGS {
        for (index, amid) in AMID.into_iter().enumerate() {
            IN_TRAINS.take();
            let together = made_of(amid, numbering, false);
            assert_eq!(IN_TRAINS.take()[0] > 2, !matches!(amid, Amid::Observed), "{numbering:?} {index}");
            assert_eq!(together, made_of(amid, numbering, true), "{numbering:?} {index}");
        }
    }
}

#[test]
fn whatever_comes_amid_a_batch_does_what_it_does_alone() {
    check_amid();
}

#[test]
fn whatever_comes_amid_packets_in_their_places_does_what_it_does_alone() {
    over(Version::REVERSO, check_amid);
}

/// A connection that has rested does not rest again after a PING if the same batch brings data.
#[test]
fn a_train_behind_a_keep_alive_keeps_a_connection_awake() {
    for one_by_one in [true, false] {
        let mut pair = Pair::new();
        pair.one_by_one = one_by_one;
        pair.connect();
        pair.run_for(Duration::from_secs(2));
        let now = pair.now;
        pair.client().rest(now);
        assert_eq!(pair.client().rest_at(), None);
        pair.run_for(Duration::from_secs(2));
        pair.inject_frames(Side::Server, &[Frame::Ping, Frame::Padding(3)]);
        let id = StreamId::new(Side::Server, Dir::Uni, 0);
        (0..3).for_each(|at| pair.inject_frames(Side::Server, &[part(id, at * PART, false)]));
        IN_TRAINS.take();
        pair.step();
        assert_eq!(IN_TRAINS.take()[0], if one_by_one { 0 } else { 3 });
        assert_eq!(pair.client().rest_at(), Some(pair.now + Duration::from_secs(1)));
        assert!(!pair.client().rests_once_acknowledged());
    }
}

/// Data that cannot be stored or counted is not acknowledged. The connection closes at both endpoints with
/// INTERNAL_ERROR.
#[test]
fn data_of_a_run_that_is_not_kept_ends_the_connection() {
    for version in [Version::V1, Version::REVERSO] {
        over(version, || {
            for fault in [Fault::NotTaken, Fault::NotCredited] {
                let mut pair = Pair::new();
                pair.connect();
                pair.run_until_quiet();
                let id = pair.server().streams().open(Dir::Uni).unwrap();
                let data = pattern(100_000);
                let written = pair.server().streams().write(id, &data).unwrap();
                FAULT.set(Some(fault));
                pair.run_for(Duration::from_millis(15));
                FAULT.set(None);
                let Some(ConnectionError::Transport(error)) = pair.closed(Side::Client) else {
                    panic!("{fault:?}: {:?}", pair.closed(Side::Client));
                };
                assert_eq!(error.code, Code::INTERNAL_ERROR);
                pair.run_for(Duration::from_millis(25));
                assert_eq!(pair.code_seen_by(Side::Server), Some(Code::INTERNAL_ERROR));
                assert_eq!(
                    pair.server().streams().buffered_bytes(),
                    written as u64,
                    "{fault:?}: acknowledged"
                );
            }
        });
    }
}
