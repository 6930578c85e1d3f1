//! Packets that schedulers deal to several paths: the same as those of one turn for each.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use anabranch_wire::{Dir, PathId, Side, Time, VarInt, Version};
use bytes::Bytes;

use super::multipath::second_addr;
use super::pair::{Flying, Pair, client_addr, over, pattern};
use super::paths::open_and_wait;
use crate::connection::IN_RUNS;
use crate::schedule::{Algorithm, CustomScheduler, PathView, Pick, Scheduler, SchedulerFactory, Work};
use crate::{MultipathConfig, Numbering, NumberingChoice, SocketBlock, TransmitBuf};

/// Bytes of a download.
const LEN: usize = 600_000;

/// Scheduler whose picks differ in their number of packets, and each ninth of which has a copy.
#[derive(Debug)]
struct Motley;

#[derive(Debug, Default)]
struct MotleyState(usize);

impl SchedulerFactory for Motley {
    fn name(&self) -> &'static str {
        "motley"
    }

    fn build(&self) -> Box<dyn Scheduler> {
        Box::new(MotleyState::default())
    }
}

impl Scheduler for MotleyState {
    fn pick(&mut self, _: Time, _: &Work, paths: &[PathView]) -> Pick {
        let open: Vec<PathId> = paths.iter().filter(|path| path.has_room()).map(|path| path.id).collect();
        self.0 += 1;
        let Some(path) = open.get(self.0 % open.len().max(1)) else { return Pick::wait() };
        let others = open.iter().copied().filter(|other| other != path && self.0.is_multiple_of(9));
        let mut pick = Pick::packet_on(*path).and_also(others);
        pick.packets = 1 + self.0 % 3;
        pick
    }
}

fn motley() -> Algorithm {
    Algorithm::Custom(CustomScheduler(&Motley))
}

/// Returns a pair with two paths, of which the second one is slower.
fn two_paths(scheduler: Algorithm, numbering: Numbering) -> Pair {
    let mut pair = Pair::with_transport(|transport| {
        let numbering = NumberingChoice::Only(numbering);
        transport.multipath = Some(MultipathConfig { scheduler, numbering, ..MultipathConfig::default() });
    });
    pair.connect();
    pair.run_until_quiet();
    open_and_wait(&mut pair, second_addr());
    pair
}

/// Datagrams of the server, by the client's address.
type Sent = BTreeMap<std::net::SocketAddr, Vec<Flying>>;

/// Returns all datagrams of a download, and how the server's connection is afterwards.
fn download(scheduler: Algorithm, numbering: Numbering) -> (Sent, String) {
    let mut pair = two_paths(scheduler, numbering);
    let sent = Rc::new(RefCell::new(Sent::new()));
    let log = Rc::clone(&sent);
    pair.network = Some(Box::new(move |from, mut flying| {
        let address = if from == Side::Client { flying.tuple.remote } else { flying.tuple.local };
        if from == Side::Server {
            log.borrow_mut().entry(address).or_default().push(flying.clone());
        }
        if address == second_addr() {
            flying.at += Duration::from_micros(30_137);
        }
        vec![flying]
    }));
    let data = pattern(LEN);
    assert!(pair.transfer(Side::Server, &data) == data);
    let says = format!("{:?} {:?}", pair.server().stats(), pair.server().paths().collect::<Vec<_>>());
    (sent.take(), says)
}

fn check() {
    let schedulers = [Algorithm::RoundRobin, Algorithm::FewestPackets, Algorithm::LeastRecent, motley()];
    for scheduler in schedulers {
        for numbering in [Numbering::Multiple, Numbering::Single] {
            IN_RUNS.set(Some(0));
            let (dealt, says) = download(scheduler, numbering);
            let in_runs = IN_RUNS.replace(None).unwrap();
            let (alone, says_alone) = download(scheduler, numbering);
            IN_RUNS.set(Some(0));
            for ((path, dealt), alone) in dealt.iter().zip(alone.values()) {
                let differs = dealt.iter().zip(alone).position(|(a, b)| format!("{a:?}") != format!("{b:?}"));
                assert_eq!((differs, dealt.len()), (None, alone.len()), "{scheduler:?} {numbering:?} {path}");
            }
            assert_eq!(says, says_alone, "{scheduler:?} {numbering:?}");
            assert!(in_runs > 100, "{scheduler:?} {numbering:?}: {in_runs}");
        }
    }
}

#[test]
fn dealt_packets_are_those_of_one_turn_for_each() {
    check();
}

#[test]
fn dealt_packets_with_named_streams_are_those_of_one_turn_for_each() {
    over(Version::REVERSO, check);
}

/// Returns the next batches of an endpoint, up to `most`, as the client's port and the number of datagrams.
fn batches(pair: &mut Pair, side: Side, most: usize) -> Vec<(u16, usize)> {
    let (now, mut out) = (pair.now, TransmitBuf::new(16));
    let next = |_| {
        let transmit = pair.end(side).poll_transmit(now, &mut out)?;
        assert_eq!(out.filled(&transmit).len(), transmit.len);
        let tuple = transmit.tuple;
        let address = if side == Side::Client { tuple.local } else { tuple.remote };
        Some((address.port(), transmit.len.div_ceil(transmit.segment_size)))
    };
    (0..most).map_while(next).collect()
}

/// Returns a pair of which one endpoint has much to send, and nothing but one stream's data.
fn sending(side: Side) -> Pair {
    let mut pair = two_paths(Algorithm::RoundRobin, Numbering::Multiple);
    let data = pattern(LEN);
    assert!(pair.transfer(side, &data) == data, "the windows have grown");
    pair.run_until_quiet();
    let id = pair.end(side).streams().open(Dir::Uni).unwrap();
    pair.end(side).streams().write(id, &data).unwrap();
    // Each path's first packet ends a rest.
    assert_eq!(batches(&mut pair, side, 2).iter().map(|batch| batch.1).collect::<Vec<_>>(), [1, 1]);
    pair
}

#[test]
fn each_path_has_one_batch() {
    for side in [Side::Client, Side::Server] {
        let batches = batches(&mut sending(side), side, 2);
        assert!(batches[0].0 != batches[1].0 && batches.iter().all(|batch| batch.1 == 16), "{batches:?}");
    }
}

#[test]
fn a_dealt_batch_waits_for_its_socket() {
    let mut pair = sending(Side::Client);
    let first = batches(&mut pair, Side::Client, 1)[0];
    let held = if first.0 == second_addr().port() { client_addr() } else { second_addr() };
    assert_eq!(pair.client().set_socket_blocked(|local| local == held), SocketBlock::Some);
    let others = batches(&mut pair, Side::Client, 2);
    assert!(others.iter().all(|batch| batch.0 == first.0), "{first:?} {others:?}");
    assert_eq!(pair.client().set_socket_blocked(|_| false), SocketBlock::Nothing);
    assert_eq!(batches(&mut pair, Side::Client, 1), [(held.port(), 16)]);
}

#[test]
fn a_close_takes_the_place_of_dealt_batches() {
    let mut pair = sending(Side::Client);
    assert_eq!(batches(&mut pair, Side::Client, 1)[0].1, 16);
    let now = pair.now;
    pair.client().close(now, VarInt::ZERO, Bytes::new());
    assert_eq!(batches(&mut pair, Side::Client, 9).iter().map(|batch| batch.1).sum::<usize>(), 1);
}
