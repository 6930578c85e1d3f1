//! One oracle for attacks: bytes that the victim allocates, processor time for each packet of the attacker, and latencies of a neighbour.
//!
//! Each attack is compared with an upload of as many packets at the same times by an honest peer.

mod peers;
mod strangers;
mod world;

use std::time::Duration;

use anabranch_testkit::share_of;
use anabranch_wire::{Dir, Side, TransportErrorCode as Code, Version};

use self::world::World;
use super::pair::version;
use crate::{ConnectionError, MultipathConfig, Numbering, TransportConfig};

/// Maximum ratio of the neighbour's latencies to those beside an honest peer.
const MAX_LATENCY: f64 = 1.1;
/// Factor of the limits of processor time in builds with assertions, whose checks cost each frame more than they cost its bytes.
const WITH_ASSERTIONS: f64 = if cfg!(debug_assertions) { 4.0 } else { 1.0 };
/// Number of runs after which an attack's time counts as too long: other programs disturb the caches.
const RUNS: usize = 3;
/// Minimum number of packets of the upload, so that its time can be measured.
const MIN_UPLOAD: u64 = 200 * world::BURST;

/// Numberings of the attacked connection; `None` for one without several paths.
const NUMBERINGS: [Option<Numbering>; 3] = [None, Some(Numbering::Multiple), Some(Numbering::Single)];

const BOTH: &[Side] = &[Side::Client, Side::Server];
const KIB: i64 = 1_024;

/// An attack on a connection or on an endpoint.
struct Attack {
    /// Row of docs/threats.md.
    row: &'static str,
    name: &'static str,
    /// Roles of the victim.
    victims: &'static [Side],
    /// Numberings of the attacked connection.
    numberings: &'static [Option<Numbering>],
    /// Number of packets in full.
    packets: u64,
    /// Maximum number of bytes that the victim may allocate for it.
    memory: i64,
    /// Maximum processor time for each of its packets; a packet of the upload takes 1.
    work: f64,
    /// Code with which the victim ends the connection; `None` if it goes on.
    ends: Option<Code>,
    /// `true` if the attacker receives what the victim sends, and acknowledges it.
    acknowledges: bool,
    /// Sends the packet of this number.
    send: fn(&mut World, u64),
}

impl Attack {
    const fn new(row: &'static str, name: &'static str, packets: u64, send: fn(&mut World, u64)) -> Self {
        Self {
            row,
            name,
            victims: BOTH,
            numberings: &NUMBERINGS,
            packets,
            memory: 64 * KIB,
            work: 8.0,
            ends: None,
            acknowledges: false,
            send,
        }
    }

    const fn ends(mut self, code: Code) -> Self {
        self.ends = Some(code);
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

    const fn on(mut self, victims: &'static [Side]) -> Self {
        self.victims = victims;
        self
    }

    const fn with(mut self, numberings: &'static [Option<Numbering>]) -> Self {
        self.numberings = numberings;
        self
    }

    const fn acknowledges(mut self) -> Self {
        self.acknowledges = true;
        self
    }

    /// Runs the attack until a run keeps all limits, [`RUNS`] times at most. Prints the last run as a row of a table, and returns that row
    /// if it is beyond a limit.
    fn check(&self, victim: Side, numbering: Option<Numbering>) -> Option<String> {
        let packets = share_of(self.packets).max(world::BURST);
        let mut row = String::new();
        for _ in 0..RUNS {
            let mut world = world(victim, numbering);
            world.withhold = !self.acknowledges;
            let seen = measure(world, |world| world.attack(packets, self.send));
            let honest = upload(victim, numbering, seen.packets.max(MIN_UPLOAD));
            let work = seen.work.as_secs_f64() / honest.work.as_secs_f64();
            let latency = seen.latency.as_secs_f64() / honest.latency.as_secs_f64();
            let end = match &seen.ended {
                Some(ConnectionError::Transport(error)) => Some(error.code),
                None => None,
                Some(other) => panic!("{}: {other}", self.name),
            };
            let numbering = numbering.map_or("–".to_owned(), |numbering| format!("{numbering:?}"));
            let name = end.map_or("–", |code| code.name().unwrap_or("unknown"));
            row = format!(
                "| {} | {} | {victim:?} | {} | {numbering} | {} | {} | {} | {work:.1} | {} | {latency:.3} | {name} |",
                self.row,
                self.name,
                wire(),
                seen.packets,
                seen.memory,
                self.memory,
                self.work
            );
            let is_fast = work <= self.work * WITH_ASSERTIONS;
            if seen.memory <= self.memory && latency <= MAX_LATENCY && end == self.ends && is_fast {
                println!("attack {row}");
                return None;
            }
        }
        println!("attack {row}");
        Some(row)
    }
}

fn wire() -> &'static str {
    if version() == Version::REVERSO { "VReverso" } else { "1" }
}

/// Values that an attack, or an upload, took.
struct Seen {
    packets: u64,
    /// Maximum number of bytes allocated in addition to those before.
    memory: i64,
    /// Processor time for each packet.
    work: Duration,
    /// 99th percentile of the neighbour's latencies.
    latency: Duration,
    ended: Option<ConnectionError>,
}

fn world(victim: Side, numbering: Option<Numbering>) -> World {
    World::new(victim, |config: &mut TransportConfig| {
        // An attack may take minutes.
        config.max_idle_timeout = None;
        config.multipath = numbering
            .map(|numbering| MultipathConfig { numbering: numbering.into(), ..MultipathConfig::default() });
    })
}

/// Runs `phase`, which returns the number of packets that it sent, and measures it.
fn measure(mut world: World, phase: impl FnOnce(&mut World) -> u64) -> Seen {
    let before = world.meter.begin();
    let packets = phase(&mut world);
    let work = world.meter.busy() / u32::try_from(packets).unwrap();
    // The neighbour goes on if the attack ends at once.
    world.run_for(Duration::from_millis(50));
    let mut latencies = std::mem::take(&mut world.latencies);
    latencies.sort_unstable();
    let latency = latencies[latencies.len() * 99 / 100];
    Seen { packets, memory: world.meter.peak() - before, work, latency, ended: world.closed }
}

/// Has an honest peer upload as many packets.
fn upload(victim: Side, numbering: Option<Numbering>, packets: u64) -> Seen {
    measure(world(victim, numbering), |world| {
        let id = world.attacker().streams().open(Dir::Uni).unwrap();
        world.attack(packets, |world, _| {
            // Less if the window is full.
            let _ = world.attacker().streams().write(id, &[3; 1_100]);
        })
    })
}

/// Runs attacks against all their victims.
fn check(attacks: &[Attack]) {
    let mut faults = Vec::new();
    for attack in attacks {
        for &victim in attack.victims {
            faults.extend(attack.numberings.iter().filter_map(|numbering| attack.check(victim, *numbering)));
        }
    }
    assert!(faults.is_empty(), "beyond the limits:\n{}", faults.join("\n"));
}

#[test]
fn attacks_of_peers_cost_what_the_table_allows() {
    check(peers::ATTACKS);
}

#[test]
fn attacks_of_strangers_cost_what_the_table_allows() {
    check(strangers::ATTACKS);
}

/// The oracle sees memory that grows with the attack, and a neighbour that has to wait.
#[test]
fn the_oracle_finds_victims_without_bounds() {
    let unread = |world: &mut World| {
        world.is_reading = false;
        let id = world.attacker().streams().open(Dir::Uni).unwrap();
        world.attack(600, |world, _| {
            let _ = world.attacker().streams().write(id, &[3; 1_100]);
        })
    };
    let seen = measure(world(Side::Server, None), unread);
    assert!(seen.memory > 500 * KIB, "{} bytes of an upload that nobody reads", seen.memory);
    let bursts = |datagrams: u64| {
        measure(world(Side::Server, None), |world| {
            world.attack(1_600, |world, _| {
                (0..datagrams).for_each(|_| world.send(None, vec![0x40; 40]));
            })
        })
    };
    let [few, many] = [1, 5].map(|datagrams| bursts(datagrams).latency.as_secs_f64());
    assert!(many > MAX_LATENCY * few, "{many} s beside five times as many datagrams, {few} s before");
}
