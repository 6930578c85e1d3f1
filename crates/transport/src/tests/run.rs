//! Packets that arrive together: what they do is what they would do one by one.

use std::cell::RefCell;
use std::fmt::Write;
use std::rc::Rc;
use std::time::Duration;

use anabranch_wire::{Dir, Ecn, Side, StreamId, Version};

use super::pair::{Flying, Pair, over, pattern};
use super::paths::{SIDES, far_apart};
use super::place::hostile;
use crate::{Numbering, TransportConfig};

/// How an exchange is made, and what is in its way.
#[derive(Clone, Copy, Debug)]
enum Way {
    Quiet,
    /// Loss, reordering, repetition, forgery, and marks.
    Hostile(u64),
    /// Windows of little more than a flight of packets.
    Tight,
    TwoPaths(Numbering),
}

const WAYS: [Way; 7] = [
    Way::Quiet,
    Way::Hostile(1),
    Way::Hostile(2),
    Way::Hostile(3),
    Way::Tight,
    Way::TwoPaths(Numbering::Multiple),
    Way::TwoPaths(Numbering::Single),
];

impl Way {
    fn pair(self) -> Pair {
        match self {
            Self::TwoPaths(numbering) => far_apart(numbering),
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

/// Everything that the network carried, and what both ends say of it.
fn story(way: Way, one_by_one: bool) -> (Vec<(Side, Flying)>, String) {
    let mut pair = way.pair();
    pair.one_by_one = one_by_one;
    let carried = Rc::new(RefCell::new(Vec::new()));
    let log = Rc::clone(&carried);
    let mut network = match way {
        Way::Hostile(seed) => hostile(seed),
        _ => pair.network.take().unwrap_or_else(|| Box::new(|_, flying| vec![flying])),
    };
    pair.network = Some(Box::new(move |from, mut flying| {
        let count = log.borrow().len();
        log.borrow_mut().push((from, flying.clone()));
        if matches!(way, Way::Hostile(_)) {
            flying.ecn = [None, Some(Ecn::Ect0), Some(Ecn::Ce)][count / 8 % 3];
        }
        network(from, flying)
    }));
    pair.connect();
    exchange(&mut pair);
    let mut says = String::new();
    for side in SIDES {
        write!(says, "{:?}", pair.end(side).stats()).unwrap();
    }
    write!(says, "{:?} {:?}", pair.client_events, pair.server_events).unwrap();
    (carried.take(), says)
}

/// A stream on its way.
struct Sent {
    id: StreamId,
    data: Vec<u8>,
    written: usize,
    received: Vec<u8>,
    is_over: bool,
}

impl Sent {
    /// Writes and reads what can be written and read.
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

/// Streams alone and several at once, both ways.
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
    }
    pair.settle();
}

fn check() {
    for way in WAYS {
        let (together, says_together) = story(way, false);
        let (alone, says_alone) = story(way, true);
        let first = together.iter().zip(&alone).position(|(a, b)| format!("{a:?}") != format!("{b:?}"));
        assert_eq!((first, together.len()), (None, alone.len()), "{way:?}");
        assert_eq!(says_together, says_alone, "{way:?}");
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
