//! Coupled congestion control of whole connections: a connection with two paths over one bottleneck competes
//! with a connection with one path.

use std::time::Duration;

use anabranch_wire::{Dir, PathId, Side, StreamId, Time};

use super::multipath::second_addr;
use super::pair::{Pair, server_addr};
use crate::recovery::congestion::Algorithm;
use crate::stream::{ReadError, WriteError};
use crate::{Event, FourTuple, Handle, MultipathConfig};

/// Transmission time of a byte at 10 Mbit/s.
const PER_BYTE: Duration = Duration::from_nanos(800);
const ROUND_TRIP: Duration = Duration::from_millis(40);
/// Time for which all connections send; the first quarter is not counted.
const RUN: Duration = Duration::from_secs(40);

/// A client's connection that sends on one stream as fast as possible.
struct Flow {
    client: Handle,
    server: Handle,
    stream: StreamId,
    received: u64,
}

impl Flow {
    fn new(pair: &mut Pair) -> Self {
        let stream = pair.client().streams().open(Dir::Uni).unwrap();
        Self { client: pair.client_handle, server: pair.server_handle.unwrap(), stream, received: 0 }
    }

    fn go_on(&mut self, pair: &mut Pair) {
        let client = pair.client.connection(self.client).unwrap().streams();
        loop {
            match client.write(self.stream, &[7; 16_384]) {
                Ok(_) => {}
                Err(WriteError::Blocked) => break,
                Err(error) => panic!("{error}"),
            }
        }
        let server = pair.server.connection(self.server).unwrap().streams();
        loop {
            match server.peek(self.stream) {
                Ok(bytes) => {
                    let len = bytes.len();
                    self.received += len as u64;
                    server.consume(self.stream, len).unwrap();
                }
                Err(ReadError::Blocked | ReadError::Closed) => return,
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// Returns the rate of a connection with two paths that competes with a single-path connection, as a multiple
/// of the fair share.
fn part_of_fair_share(congestion: Algorithm, queue: Duration) -> f64 {
    let mut pair = Pair::with_transport(|transport| {
        transport.recovery = transport.recovery.clone().with_congestion(congestion);
        transport.multipath = Some(MultipathConfig::default());
    });
    let mut busy = Time::ZERO;
    pair.delay = Duration::ZERO;
    pair.network = Some(Box::new(move |side, mut flying| {
        if side == Side::Client {
            busy = busy.max(flying.at);
            if busy - flying.at > queue {
                return Vec::new();
            }
            busy += PER_BYTE * u32::try_from(flying.bytes.len()).unwrap();
            flying.at = busy;
        }
        flying.at += ROUND_TRIP / 2;
        vec![flying]
    }));
    pair.connect();
    let now = pair.now;
    let tuple = FourTuple { local: second_addr(), remote: server_addr() };
    pair.run_until(Duration::from_secs(1), |pair| pair.client().open_path(now, tuple).is_ok());
    pair.run_until(Duration::from_secs(1), |pair| pair.server_events.contains(&Event::PathOpened(PathId(1))));
    let mut flows = vec![Flow::new(&mut pair)];
    pair.reconnect();
    pair.connect();
    flows.push(Flow::new(&mut pair));
    let mut run = |pair: &mut Pair, until: Time| {
        while pair.now < until {
            flows.iter_mut().for_each(|flow| flow.go_on(pair));
            assert!(pair.step());
        }
        flows.iter().map(|flow| flow.received as f64).collect::<Vec<_>>()
    };
    let began = pair.now;
    let before = run(&mut pair, began + RUN / 4);
    let after = run(&mut pair, began + RUN);
    let [several, single] = [0, 1].map(|flow| after[flow] - before[flow]);
    2.0 * several / (several + single)
}

/// Returns the mean over queues of one half to two bandwidth-delay products. With drop-tail, the phase
/// decides which connection loses packets, so a single case is not representative.
fn mean_part(congestion: Algorithm) -> f64 {
    let queues = [4, 5, 6, 8, 11, 16].map(|eighths| ROUND_TRIP * eighths / 8);
    let parts = queues.map(|queue| part_of_fair_share(congestion, queue));
    println!("{congestion}: {parts:.3?}");
    parts.iter().sum::<f64>() / parts.len() as f64
}

#[test]
fn two_coupled_paths_over_one_bottleneck_take_no_more_than_one() {
    // The recovery crate's simulation also covers LIA and BALIA, in more cases than whole connections could
    // run.
    let part = mean_part(Algorithm::Olia);
    assert!((0.7..=1.15).contains(&part), "{part}");
}

#[test]
fn two_paths_that_are_not_coupled_take_more_than_one() {
    let part = mean_part(Algorithm::NewReno);
    assert!(part > 1.2, "{part}");
}
