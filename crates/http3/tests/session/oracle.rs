//! One oracle for attacks on sessions: bytes that the victim allocates, and processor time for each message of the attacker, in comparison
//! with an honest client's request and its response.
//!
//! A session shares nothing with those of other connections; latencies of neighbours are those of the transport's tests.

use std::time::Duration;

use anabranch_http3::{Code, reserved};
use anabranch_testkit::share_of;
use anabranch_wire::{Dir, Side, StreamId};

use crate::attacks::{Waste, answer, expansion, priority_update, waste};
use crate::by_hand::{Duel, data, encoder_stream, frame, headers};

const KIB: i64 = 1_024;
/// Factor of the limits of processor time in builds with assertions, whose checks cost each frame more than they cost its bytes.
const WITH_ASSERTIONS: f64 = if cfg!(debug_assertions) { 4.0 } else { 1.0 };
/// Number of runs after which an attack's time counts as too long: other programs disturb the caches.
const RUNS: usize = 3;
/// Number of messages in a round.
const MESSAGES: u64 = 20;

/// An attack on a session.
struct Attack {
    /// Row of docs/threats.md.
    row: &'static str,
    name: &'static str,
    victim: Side,
    /// Number of messages in full.
    messages: u64,
    /// Maximum number of bytes that the victim may allocate for it.
    memory: i64,
    /// Maximum processor time for each message; an honest request takes 1.
    work: f64,
    /// Code with which the victim ends the connection; `None` if it goes on.
    ends: Option<Code>,
    /// Sends the [`MESSAGES`] messages of this round.
    send: fn(&mut Duel, u64),
}

impl Attack {
    const fn new(row: &'static str, name: &'static str, messages: u64, send: fn(&mut Duel, u64)) -> Self {
        Self { row, name, victim: Side::Server, messages, memory: 64 * KIB, work: 4.0, ends: None, send }
    }

    /// Sets a client as the victim, whose requests the attacker answers.
    const fn of_a_server(mut self) -> Self {
        self.victim = Side::Client;
        self
    }

    const fn memory(mut self, bytes: i64) -> Self {
        self.memory = bytes;
        self
    }

    const fn work(mut self, work: f64) -> Self {
        self.work = work;
        self
    }

    const fn ends(mut self, code: Code) -> Self {
        self.ends = Some(code);
        self
    }

    /// Runs the attack until a run keeps all limits, [`RUNS`] times at most. Prints the last run as a row of a table, and returns that row
    /// if it is beyond a limit.
    fn check(&self) -> Option<String> {
        let rounds = share_of(self.messages).div_ceil(MESSAGES);
        let mut row = String::new();
        for _ in 0..RUNS {
            let seen = measure(self.victim, rounds, self.send);
            let honest = measure(self.victim, seen.rounds.max(20), |duel, _| {
                honest_messages(duel);
            });
            let work = seen.work.as_secs_f64() / honest.work.as_secs_f64();
            let messages = seen.rounds * MESSAGES;
            let end = seen.ended.map_or("–".to_owned(), |code| code.to_string());
            row = format!(
                "| {} | {} | {:?} | 1 | – | {messages} | {} | {} | {work:.1} | {} | – | {end} |",
                self.row, self.name, self.victim, seen.memory, self.memory, self.work
            );
            if seen.memory <= self.memory && seen.ended == self.ends && work <= self.work * WITH_ASSERTIONS {
                println!("attack {row}");
                return None;
            }
        }
        println!("attack {row}");
        Some(row)
    }
}

/// Values that an attack, or honest requests, took.
struct Seen {
    rounds: u64,
    memory: i64,
    /// Processor time of a round.
    work: Duration,
    ended: Option<Code>,
}

/// Has the peer of a victim on this side send `rounds` rounds of messages, as long as the connection is open.
fn measure(victim: Side, rounds: u64, send: impl Fn(&mut Duel, u64)) -> Seen {
    let mut duel = Duel::against(victim);
    // Vectors and maps have grown to the size that any peer needs.
    (0..3).for_each(|_| honest_messages(&mut duel));
    let before = duel.victim().meter.begin();
    let mut sent = 0;
    while sent < rounds && duel.peer().closed.is_none() {
        send(&mut duel, sent);
        duel.pair.pump();
        duel.victim().charge(|host| host.events.clear());
        duel.peer().raw.clear();
        read_streams(&mut duel);
        sent += 1;
    }
    let meter = &duel.victim().meter;
    let (memory, work) = (meter.peak() - before, meter.busy() / u32::try_from(sent).unwrap());
    Seen { rounds: sent, memory, work, ended: duel.peer().close_code() }
}

/// Reads the victim's unidirectional streams, so that they have credit: control and QPACK.
fn read_streams(duel: &mut Duel) {
    if !duel.peer().is_gone() {
        let side = duel.side;
        (0..3).for_each(|index| _ = duel.received(StreamId::new(side, Dir::Uni, index)));
    }
}

/// Sends a round's honest messages: requests, which the victim answers, or responses to its requests.
fn honest_messages(duel: &mut Duel) {
    let head = duel.head();
    messages(duel, &head);
}

/// Sends `message` as each of a round's requests, or as each response to a round of requests.
fn messages(duel: &mut Duel, message: &[u8]) {
    match duel.side {
        Side::Server => requests(duel, message),
        Side::Client => responses(duel, message),
    }
}

/// Sends `message` as each of a round's requests. The victim's application answers those that it accepts.
fn requests(duel: &mut Duel, message: &[u8]) {
    let ids: Vec<StreamId> = (0..MESSAGES).map(|_| duel.peer().open(Dir::Bi, message, true)).collect();
    serve(duel);
    for id in ids {
        if !duel.peer().is_gone() {
            duel.received(id);
        }
    }
}

/// Has the victim make a round's requests, and sends `message` as each response, which the victim's application reads to its end.
fn responses(duel: &mut Duel, message: &[u8]) {
    let ids: Vec<StreamId> = (0..MESSAGES).map(|_| duel.begin_request("GET")).collect();
    duel.pair.pump();
    for id in &ids {
        duel.received(*id);
        duel.peer().write(*id, message, true);
    }
    duel.pair.pump();
    for id in ids {
        if !duel.victim().is_gone() {
            duel.victim().http(|session, streams| {
                while session.response(id).is_some() {}
                // The content may be wrong.
                while let Ok(len) = session.peek(streams, id).map(<[u8]>::len) {
                    session.consume(streams, id, len);
                }
                session.release(streams, id);
            });
        }
    }
    duel.pair.pump();
}

fn serve(duel: &mut Duel) {
    duel.pair.pump();
    while !duel.victim().is_gone()
        && let Some(id) = duel.accept()
    {
        duel.victim().http(|session, streams| {
            // The content is read to its end, and may be wrong.
            while let Ok(len) = session.peek(streams, id).map(<[u8]>::len) {
                session.consume(streams, id, len);
            }
        });
        answer(duel, id);
    }
    duel.pair.pump();
}

/// Opens requests and wastes them.
fn wasted(duel: &mut Duel, how: Waste) {
    let ids: Vec<StreamId> = (0..MESSAGES).map(|_| duel.peer().open(Dir::Bi, b"", false)).collect();
    waste(duel, &ids, how);
}

/// Writes to a stream of the peer that exists until the connection ends; the first call opens it with `beginning`.
fn write_on(duel: &mut Duel, round: u64, beginning: &[u8], bytes: &[u8]) {
    // The control stream is the first one.
    let id = StreamId::new(duel.side.peer(), Dir::Uni, 1);
    if round == 0 {
        assert_eq!(duel.peer().open(Dir::Uni, beginning, false), id);
    }
    duel.peer().write(id, bytes, false);
}

/// Sends field sections that repeat a large entry of the dynamic table.
fn expand(duel: &mut Duel, round: u64) {
    let (instructions, bomb) = match duel.side {
        Side::Server => expansion(b"\xd4\xd7\xc1\x50\x0aserver.lab", b"\x80"),
        Side::Client => expansion(b"\xd9", b"\x80"),
    };
    if round == 0 {
        write_on(duel, round, &instructions, b"");
        duel.pair.pump();
    }
    messages(duel, &bomb);
}

/// Sends field sections that refer to an entry of the dynamic table which never arrives.
fn refer(duel: &mut Duel, _: u64) {
    messages(duel, &frame(0x1, b"\x02\0\x80"));
}

/// Inserts entries into the dynamic table, which has room for four of them.
fn evict(duel: &mut Duel, round: u64) {
    let entry = [&b"\x41a\x7f\xe9\x06"[..], &[b'v'; 1_000]].concat();
    let beginning = encoder_stream(b"\x3f\xe1\x1f");
    write_on(duel, round, &beginning, &entry.repeat(MESSAGES as usize));
}

/// Sends messages with frames that have no meaning between header and content.
fn idle(duel: &mut Duel, _: u64) {
    let idle = frame(reserved(1), b"").repeat(200);
    messages(duel, &[duel.head(), idle, data(b"x")].concat());
}

/// All attacks.
const ATTACKS: &[Attack] = &[
    Attack::new("12", "requests that are reset before they are seen", 1_000_000, |duel, _| {
        wasted(duel, Waste::ResetUnseen);
    })
    .ends(Code::EXCESSIVE_LOAD),
    Attack::new("12", "requests whose handlers have begun when they are reset", 1_000_000, |duel, _| {
        wasted(duel, Waste::ResetBegun);
    })
    .ends(Code::EXCESSIVE_LOAD),
    Attack::new("12", "requests that are reset, as many as are served", 1_000_000, |duel, round| {
        if round % 2 == 0 { honest_messages(duel) } else { wasted(duel, Waste::Both) }
    }),
    Attack::new("14", "field sections of 1 KB that expand to 4 MB", 20_000, expand)
        .memory(256 * KIB)
        .work(16.0)
        .ends(Code::EXCESSIVE_LOAD),
    Attack::new("14", "field sections of 1 KB that expand to 4 MB", 20_000, expand)
        .of_a_server()
        .memory(256 * KIB)
        .work(16.0),
    Attack::new("15", "sections that refer to entries which never arrive", 1_000, refer)
        .ends(Code::QPACK_DECOMPRESSION_FAILED),
    Attack::new("15", "sections that refer to entries which never arrive", 1_000, refer)
        .of_a_server()
        .ends(Code::QPACK_DECOMPRESSION_FAILED),
    Attack::new("15", "insertions of entries that evict each other", 200_000, evict).memory(256 * KIB),
    Attack::new("15", "insertions of entries that evict each other", 200_000, evict)
        .of_a_server()
        .memory(256 * KIB),
    Attack::new("16", "messages with 200 frames that bring nothing", 10_000, idle).work(8.0),
    Attack::new("16", "messages with 200 frames that bring nothing", 10_000, idle).of_a_server().work(8.0),
    Attack::new("16", "1,000 interim responses before a response", 10_000, |duel, _| {
        let interim = headers(&[(":status", "103")]).repeat(1_000);
        messages(duel, &[interim, duel.head()].concat());
    })
    .of_a_server()
    .memory(256 * KIB)
    .work(8.0),
    // 20 requests wait, for each of which sections of 64 KiB in all may wait.
    Attack::new("16", "interim responses of 60 KB", 2_000, |duel, round| {
        if round == 0 {
            write_on(duel, round, &expansion(b"", b"\x80").0, b"");
            duel.pair.pump();
        }
        let interim = frame(0x1, &[&b"\x02\0\xd8"[..], &[0x80; 15]].concat());
        messages(duel, &interim.repeat(16));
    })
    .of_a_server()
    .memory(2 * 1_024 * KIB)
    .work(60.0),
    Attack::new("16", "GOAWAY frames with the same stream ID", 200_000, |duel, _| {
        let control = duel.control;
        duel.peer().write(control, &frame(0x7, b"\x7f\xfc").repeat(MESSAGES as usize), false);
    })
    .of_a_server(),
    Attack::new("16", "priorities of requests that have not been made", 200_000, |duel, round| {
        let control = duel.control;
        // There is credit for requests up to 127.
        let stream = |n| 4 * (32 + (MESSAGES * round + n) % 64);
        let updates: Vec<u8> =
            (0..MESSAGES).flat_map(|n| priority_update(stream(n), (n % 8) as u8)).collect();
        duel.peer().write(control, &updates, false);
    }),
];

#[test]
fn attacks_cost_what_the_table_allows() {
    let faults: Vec<String> = ATTACKS.iter().filter_map(Attack::check).collect();
    assert!(faults.is_empty(), "beyond the limits:\n{}", faults.join("\n"));
}
