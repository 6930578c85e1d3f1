//! Two endpoints communicate over a network that loses, repeats and reorders packets. Every byte and all
//! credit must arrive.

use std::collections::BTreeMap;

use anabranch_wire::VarInt;
use proptest::prelude::*;

use super::*;

/// Small random number generator. A failing case is identified by a single number.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// Data that one endpoint sends on a stream, and its progress.
struct Script {
    len: u64,
    written: u64,
    end: End,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Finish,
    Reset,
    Done,
}

#[derive(Default)]
struct Heard {
    data: Vec<u8>,
    ended: Option<ReadError>,
    stop_at: Option<u64>,
}

struct Host {
    streams: Streams,
    /// Streams on which this host sends.
    scripts: BTreeMap<StreamId, Script>,
    heard: BTreeMap<StreamId, Heard>,
    to_open: u64,
    in_flight: Vec<Packet>,
}

fn byte(id: StreamId, offset: u64) -> u8 {
    (id.as_u64().wrapping_mul(31) + offset * 7 + offset / 251) as u8
}

impl Host {
    fn new(side: Side, config: &StreamsConfig, to_open: u64) -> Self {
        Self {
            streams: streams(side, config),
            scripts: BTreeMap::new(),
            heard: BTreeMap::new(),
            to_open,
            in_flight: Vec::new(),
        }
    }

    fn start(&mut self, id: StreamId, is_ours: bool, dice: &mut Dice) {
        let both = id.dir() == Dir::Bi;
        if is_ours || both {
            let end = if dice.chance(15) { End::Reset } else { End::Finish };
            self.scripts.insert(id, Script { len: dice.below(6000), written: 0, end });
        }
        if !is_ours || both {
            let stop_at = dice.chance(10).then(|| dice.below(3000));
            self.heard.insert(id, Heard { stop_at, ..Heard::default() });
        }
        if dice.chance(30) {
            let priority = Priority { level: dice.below(3) as i32, incremental: dice.chance(50) };
            self.streams.set_priority(id, priority);
        }
    }

    fn act(&mut self, dice: &mut Dice) {
        while self.streams.poll_event().is_some() {}
        let dir = if dice.chance(50) { Dir::Bi } else { Dir::Uni };
        if self.to_open > 0
            && let Some(id) = self.streams.open(dir)
        {
            self.to_open -= 1;
            self.start(id, true, dice);
        }
        for dir in [Dir::Bi, Dir::Uni] {
            while let Some(id) = self.streams.accept(dir) {
                self.start(id, false, dice);
            }
        }
        for (id, script) in self.scripts.iter_mut().filter(|(_, script)| script.end != End::Done) {
            let n = dice.below(1500).min(script.len - script.written);
            let data: Vec<u8> = (script.written..script.written + n).map(|at| byte(*id, at)).collect();
            let wrote = if dice.chance(50) {
                self.streams.write(*id, &data)
            } else {
                self.streams.write_bytes(*id, &mut Bytes::from(data))
            };
            match wrote {
                Ok(wrote) => script.written += wrote as u64,
                Err(WriteError::Blocked) => {}
                Err(_) => script.end = End::Done,
            }
            if script.written == script.len {
                match script.end {
                    End::Finish => self.streams.finish(*id).unwrap(),
                    End::Reset => self.streams.reset(*id, VarInt::from_u32(9)).unwrap(),
                    End::Done => {}
                }
                script.end = End::Done;
            }
        }
        for (id, heard) in self.heard.iter_mut().filter(|(_, heard)| heard.ended.is_none()) {
            if heard.stop_at.is_some_and(|at| heard.data.len() as u64 >= at) {
                heard.ended = self.streams.stop(*id, VarInt::from_u32(8)).ok().map(|()| ReadError::Closed);
                continue;
            }
            for _ in 0..dice.below(4) {
                let max = 1 + dice.below(1200) as usize;
                match self.streams.take(*id, max) {
                    Ok(data) => heard.data.extend_from_slice(&data),
                    Err(ReadError::Blocked) => break,
                    Err(error) => {
                        heard.ended = Some(error);
                        break;
                    }
                }
            }
        }
    }

    fn is_done(&self) -> bool {
        self.to_open == 0
            && self.scripts.values().all(|script| script.end == End::Done)
            && self.heard.values().all(|heard| heard.ended.is_some())
            && self.in_flight.is_empty()
            // Data that waits to be sent has not reached the other endpoint yet.
            && !self.streams.has_pending_data()
            && self.streams.buffered_bytes() == 0
    }
}

/// Performs one step of the network from `a` to `b`.
fn step(a: &mut Host, b: &mut Host, dice: &mut Dice, loss: u64) {
    if dice.chance(70) {
        a.in_flight.extend(send(&mut a.streams, 60 + dice.below(1140) as usize));
    }
    if a.in_flight.is_empty() || dice.chance(30) {
        return;
    }
    let at = dice.below(a.in_flight.len() as u64) as usize;
    if dice.chance(loss) {
        let packet = a.in_flight.swap_remove(at);
        lost(&mut a.streams, &packet);
    } else if dice.chance(loss) {
        // The packet is delivered, and later repeated or nevertheless declared lost.
        deliver(&mut b.streams, &a.in_flight[at]);
        if dice.chance(50) {
            lost(&mut a.streams, &a.in_flight[at]);
        }
    } else {
        let packet = a.in_flight.swap_remove(at);
        deliver(&mut b.streams, &packet);
        acked(&mut a.streams, &packet);
    }
}

fn check(from: &Host, to: &Host) {
    for (id, heard) in &to.heard {
        let script = &from.scripts[id];
        assert!(heard.data.iter().enumerate().all(|(at, data)| *data == byte(*id, at as u64)), "stream {id}");
        if heard.ended == Some(ReadError::Finished) {
            assert_eq!(heard.data.len() as u64, script.len, "stream {id}");
        }
    }
}

fn check_quiet(host: &mut Host, peer: &Streams) {
    let streams = &host.streams;
    assert_eq!(streams.open_streams(), 0);
    assert_eq!((streams.pending_bytes(), streams.buffered_bytes()), (0, 0));
    assert_eq!(streams.flow.receive_credit.outstanding(), 0, "all credit has been returned");
    assert_eq!(streams.bytes_received(), peer.bytes_sent());
    assert_eq!(peer.flow.send_credit.limit() - peer.flow.send_credit.available(), peer.bytes_sent());
    assert!(!streams.has_pending_data() && !streams.has_pending_control());
    assert!(streams.waiting.parked.is_empty());
}

fn run(seed: u64, loss: u64, to_open: u64) {
    let config = StreamsConfig { max_bidi: 4, max_uni: 3, stream_window_max: 4000, ..config() };
    let config = StreamsConfig { send_buffer: 3000, ..config };
    let mut dice = Dice(seed);
    let mut client = Host::new(Side::Client, &config, to_open);
    let mut server = Host::new(Side::Server, &config, to_open);
    for round in 0..200_000 {
        client.act(&mut dice);
        server.act(&mut dice);
        // Both hosts have now processed everything that had arrived.
        if client.is_done() && server.is_done() {
            break;
        }
        assert!(round < 199_999, "no progress");
        for _ in 0..3 {
            step(&mut client, &mut server, &mut dice, loss);
            step(&mut server, &mut client, &mut dice, loss);
        }
    }
    exchange(&mut client.streams, &mut server.streams);
    check(&client, &server);
    check(&server, &client);
    check_quiet(&mut client, &server.streams);
    check_quiet(&mut server, &client.streams);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn everything_arrives(seed: u64, loss in 0u64..35, to_open in 1u64..30) {
        run(seed, loss, to_open);
    }
}
