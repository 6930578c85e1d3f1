//! Effects of schedulers on a connection: copies, reinjection, routes, shares.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anabranch_wire::{Dir, Frame, Frames, PathId, Side, Time};
use bytes::Bytes;

use super::multipath::second_addr;
use super::pair::{Pair, client_addr, pattern, server_addr};
use super::paths::sent;
use crate::schedule::{Algorithm, Route};
use crate::trace::{Observer, TraceEvent};
use crate::{Event, FourTuple, MultipathConfig};

/// Returns a pair with two paths. The second one adds `lag` in each direction.
fn two_paths(scheduler: Algorithm, lag: Duration) -> Pair {
    let mut pair = Pair::with_transport(|transport| {
        transport.multipath = Some(MultipathConfig { scheduler, ..MultipathConfig::default() });
    });
    pair.network = Some(Box::new(move |side, mut flying| {
        let address = if side == Side::Client { flying.tuple.remote } else { flying.tuple.local };
        if address == second_addr() {
            flying.at += lag;
        }
        vec![flying]
    }));
    pair.connect();
    pair.run_until_quiet();
    let now = pair.now;
    let tuple = FourTuple { local: second_addr(), remote: server_addr() };
    assert_eq!(pair.client().open_path(now, tuple), Ok(PathId(1)));
    pair.run_until(Duration::from_secs(5), |pair| pair.server_events.contains(&Event::PathOpened(PathId(1))));
    pair.run_for(Duration::from_secs(1));
    pair
}

/// Returns the bytes sent on each path for a transfer from the server.
fn shares(pair: &mut Pair, len: usize) -> Vec<u64> {
    let before = sent(pair, Side::Server);
    let data = pattern(len);
    assert!(pair.transfer(Side::Server, &data) == data);
    sent(pair, Side::Server).iter().zip(before).map(|(after, before)| after - before).collect()
}

#[test]
fn every_scheduler_brings_everything_over_unequal_paths() {
    for name in Algorithm::NAMES {
        let mut pair = two_paths(name.parse().unwrap(), Duration::from_millis(40));
        let shares = shares(&mut pair, 600_000);
        assert!(shares.iter().sum::<u64>() > 600_000, "{name}: {shares:?}");
        let data = pattern(50_000);
        assert!(pair.transfer(Side::Client, &data) == data, "{name}");
    }
}

#[test]
fn redundancy_sends_everything_twice() {
    let mut pair = two_paths(Algorithm::Redundant, Duration::ZERO);
    let shares = shares(&mut pair, 600_000);
    assert!(shares.iter().all(|share| *share > 300_000), "{shares:?}");
    assert!(shares.iter().sum::<u64>() > 1_000_000, "{shares:?}");
}

#[test]
fn weights_decide_the_shares() {
    let mut pair = two_paths(Algorithm::Weighted, Duration::ZERO);
    pair.server().set_path_weight(PathId(0), 1).unwrap();
    pair.server().set_path_weight(PathId(1), 4).unwrap();
    pair.server().set_path_weight(PathId(7), 4).unwrap_err(); // path 7 does not exist
    let before = sent(&mut pair, Side::Server);
    for _ in 0..40 {
        let data = pattern(5_000);
        assert!(pair.transfer(Side::Server, &data) == data);
    }
    let after = sent(&mut pair, Side::Server);
    let shares = [after[0] - before[0], after[1] - before[1]];
    assert!(shares[1] > shares[0] * 3 && shares[1] < shares[0] * 5, "{shares:?}");
}

/// Returns the duration of a transfer over unequal paths and the bytes that the server sends for it.
fn tail(scheduler: Algorithm) -> (Duration, u64) {
    let mut pair = two_paths(scheduler, Duration::from_millis(300));
    let data = pattern(200_000);
    let before: u64 = sent(&mut pair, Side::Server).iter().sum();
    let began = pair.now;
    assert!(pair.transfer(Side::Server, &data) == data);
    (pair.now - began, sent(&mut pair, Side::Server).iter().sum::<u64>() - before)
}

#[test]
fn the_tail_on_a_slow_path_is_overtaken() {
    let (plain, _) = tail(Algorithm::MinRtt);
    let (ours, bytes) = tail(Algorithm::Confluence);
    assert!(plain > Duration::from_millis(300), "{plain:?}: something went the slow way");
    assert!(ours < Duration::from_millis(300), "{ours:?}");
    assert!(bytes < 300_000, "{bytes}");
}

#[test]
fn a_stream_stays_on_its_path() {
    for (route, used) in [(Route::Only(PathId(1)), 1), (Route::Avoid(PathId(1)), 0)] {
        let mut pair = two_paths(Algorithm::Confluence, Duration::from_millis(10));
        let before = sent(&mut pair, Side::Client);
        let id = pair.client().streams().open(Dir::Uni).unwrap();
        pair.client().streams().set_route(id, route);
        let data = pattern(200_000);
        let mut left = Bytes::from(data.clone());
        pair.client().streams().write_bytes(id, &mut left).unwrap();
        assert!(left.is_empty());
        pair.client().streams().finish(id).unwrap();
        pair.drain();
        let mut read = Vec::new();
        pair.run_until(Duration::from_secs(5), |pair| pair.read(Side::Server, id, &mut read));
        assert!(read == data);
        let after = sent(&mut pair, Side::Client);
        let share = |path: usize| after[path] - before[path];
        assert!(share(used) > 200_000 && share(1 - used) < 20_000, "{route:?}: {before:?} {after:?}");
    }
}

#[test]
fn a_stream_whose_path_dies_goes_on_elsewhere() {
    let mut pair = two_paths(Algorithm::Confluence, Duration::ZERO);
    let id = pair.client().streams().open(Dir::Uni).unwrap();
    pair.client().streams().set_route(id, Route::Only(PathId(0)));
    pair.network = Some(Box::new(|side, flying| {
        let address = if side == Side::Client { flying.tuple.remote } else { flying.tuple.local };
        if address == client_addr() { Vec::new() } else { vec![flying] }
    }));
    let data = pattern(100_000);
    pair.client().streams().write_bytes(id, &mut Bytes::from(data.clone())).unwrap();
    pair.client().streams().finish(id).unwrap();
    pair.drain();
    let mut read = Vec::new();
    pair.run_until(Duration::from_secs(5), |pair| pair.read(Side::Server, id, &mut read));
    assert!(read == data);
}

#[test]
fn a_datagram_takes_the_path_that_it_was_sent_on() {
    let mut pair = two_paths(Algorithm::MinRtt, Duration::from_millis(10));
    let before = sent(&mut pair, Side::Client);
    for _ in 0..20 {
        let message = Bytes::from(vec![7; 1_000]);
        pair.client().datagrams().send_on(message, Route::Only(PathId(1))).unwrap();
        pair.drain();
        pair.run_for(Duration::from_millis(30));
    }
    let after = sent(&mut pair, Side::Client);
    assert!(after[1] - before[1] > 20_000 && after[0] - before[0] < 10_000, "{before:?} {after:?}");
    let mut received = 0;
    while pair.server().datagrams().recv().is_some() {
        received += 1;
    }
    assert_eq!(received, 20);
}

/// Log of the paths on which one endpoint's packets leave: packets that repeat earlier stream offsets,
/// packets with new ones, and packets with acknowledgments.
#[derive(Clone, Default)]
struct Paths(Arc<Mutex<Left>>);

#[derive(Default)]
struct Left {
    offsets: BTreeSet<u64>,
    repeated: [u64; 2],
    new: [u64; 2],
    acks: [u64; 2],
}

impl Observer for Paths {
    fn event(&mut self, _: Time, event: &TraceEvent<'_>) {
        let TraceEvent::PacketSent(packet) = event else { return };
        let mut left = self.0.lock().unwrap();
        let path = packet.path.0 as usize;
        for frame in Frames::new(packet.payload, packet.direction).map_while(Result::ok) {
            match frame {
                Frame::Stream(stream) if !left.offsets.insert(stream.offset) => left.repeated[path] += 1,
                Frame::Stream(_) => left.new[path] += 1,
                Frame::Ack(_) => left.acks[path] += 1,
                _ => {}
            }
        }
    }
}

/// Runs a download in which the slow second path loses every tenth packet. Returns the logs of server and
/// client.
fn lossy(scheduler: Algorithm) -> (Left, Left) {
    let mut pair = two_paths(scheduler, Duration::from_millis(100));
    let watches = [Side::Server, Side::Client].map(|side| {
        let watch = Paths::default();
        let now = pair.now;
        pair.end(side).set_observer(now, Box::new(watch.clone()));
        watch
    });
    let mut count = 0;
    pair.network = Some(Box::new(move |side, mut flying| {
        let address = if side == Side::Client { flying.tuple.remote } else { flying.tuple.local };
        if address != second_addr() {
            return vec![flying];
        }
        flying.at += Duration::from_millis(100);
        count += u64::from(side == Side::Server);
        let is_lost = side == Side::Server && count % 10 == 0;
        if is_lost { Vec::new() } else { vec![flying] }
    }));
    let data = pattern(3_000_000);
    assert!(pair.transfer(Side::Server, &data) == data);
    watches.map(|watch| std::mem::take(&mut *watch.0.lock().unwrap())).into()
}

#[test]
fn lost_data_and_acknowledgments_go_where_the_scheduler_sends_them() {
    let (server, client) = lossy(Algorithm::Rescue);
    assert!(server.new[1] > 20, "the slow path carries new data: {:?}", server.new);
    let rescued = server.repeated;
    assert!(rescued[0] > 0 && rescued[1] == 0, "{rescued:?}");
    // A few acknowledgments are repeated on the slow path, so that its RTT estimate stays current
    // (`AckPath::Soonest`).
    assert!(client.acks[0] > 20 && client.acks[1] * 8 < client.acks[0], "{:?}", client.acks);

    let (server, _) = lossy(Algorithm::RoundRobin);
    let shared = server.repeated;
    assert!(shared[1] > rescued[1], "others send lost data on both: {shared:?}, {rescued:?}");
}
