//! Kill schedules. One of several paths becomes silent at a random instant. Every byte must still arrive
//! within a bounded time.
//!
//! Everything follows from a seed, so that each schedule can be repeated individually.

mod app;
mod run;

use core::time::Duration;

use anabranch_transport::TransportConfig;

use crate::link::LinkSpec;
use crate::random::Seed;

pub use run::Outcome;

/// Period in seconds after the path's first round-trip sample at both ends. The time of a kill is uniformly
/// distributed in it.
const SPREAD: f64 = 1.0;
/// Round-trip times of the paths: the two of the 2017 handover experiment, and a third one.
const ROUND_TRIPS: [Duration; 3] =
    [Duration::from_millis(15), Duration::from_millis(25), Duration::from_millis(40)];
/// Rate of each path in bits per second. Each path has a queue of one bandwidth-delay product.
const RATE: u64 = 10_000_000;
/// Size of a full-sized IP packet in bytes.
const FULL_PACKET: u64 = 1500;
/// Size in bytes of an IP packet that carries acknowledgments, a path's status and a request.
const SMALL_PACKET: u64 = 100;
/// Number of bytes of a bulk transfer. Over three paths it lasts longer than [`SPREAD`].
const BULK: u64 = 5_000_000;

/// Activity of the connection when the path dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// The client sends.
    Upload,
    /// The server sends.
    Download,
    /// One of the ends sends. Only the direction of the acknowledgments fails.
    Acks,
    /// No data; a request follows after the kill.
    Idle,
}

impl Class {
    /// All classes.
    pub const ALL: [Self; 4] = [Self::Upload, Self::Download, Self::Acks, Self::Idle];

    /// Returns the name of the class.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Upload => "upload",
            Self::Download => "download",
            Self::Acks => "acks",
            Self::Idle => "idle",
        }
    }
}

/// Directions in which a link fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dead {
    /// No packet arrives in either direction.
    Both,
    /// No packet reaches the server.
    ToServer,
    /// No packet reaches the client.
    ToClient,
}

/// Schedule of one path failure.
#[derive(Clone, Debug)]
pub struct KillSchedule {
    /// Seed from which the schedule was drawn.
    pub seed: u64,
    /// Activity of the connection when the path dies.
    pub class: Class,
    /// `true` if the client sends the data.
    pub upload: bool,
    /// Bytes of the transfer.
    pub bytes: u64,
    /// Round-trip times of the paths; the handshake uses the first.
    pub round_trips: Vec<Duration>,
    /// The path that dies.
    pub victim: usize,
    /// Directions in which the path is dead.
    pub dead: Dead,
    /// Time of the kill, counted from the moment at which both ends have a round-trip sample of the path.
    pub after: Duration,
    /// Duration of the failure; `None` if it is permanent.
    pub lasts: Option<Duration>,
    /// Time from the kill to the request on an idle connection.
    pub request_after: Duration,
}

impl KillSchedule {
    /// Creates the schedule that follows from `seed`. Consecutive seeds cycle through the classes.
    pub fn random(seed: u64) -> Self {
        let mut rng = Seed(seed).rng("kill schedule");
        let class = Class::ALL[(seed % Class::ALL.len() as u64) as usize];
        let upload = match class {
            Class::Upload => true,
            Class::Download => false,
            Class::Acks | Class::Idle => rng.chance(0.5),
        };
        let mut round_trips = ROUND_TRIPS[..rng.between(2, 3) as usize].to_vec();
        for last in (1..round_trips.len()).rev() {
            round_trips.swap(last, rng.between(0, last as u64) as usize);
        }
        let dead = match class {
            Class::Acks if upload => Dead::ToClient,
            Class::Acks => Dead::ToServer,
            _ => rng.pick(&[Dead::Both, Dead::ToServer, Dead::ToClient]),
        };
        Self {
            seed,
            class,
            upload,
            bytes: if class == Class::Idle { rng.between(750, 100_000) } else { BULK },
            victim: rng.below(round_trips.len() as u64) as usize,
            round_trips,
            dead,
            after: Duration::from_secs_f64(rng.unit() * SPREAD),
            lasts: rng.chance(0.5).then(|| Duration::from_secs_f64(0.2 + rng.unit() * 2.8)),
            request_after: Duration::from_secs_f64(rng.unit() * 0.9),
        }
    }

    /// Runs the schedule with `transport` at both ends. If `watch` is `true`, prints all events to standard
    /// error.
    ///
    /// # Errors
    /// Fails if the connection did not reach the point at which the path could die.
    pub fn run(&self, transport: &TransportConfig, watch: bool) -> Result<Outcome, String> {
        run::run(self, transport, watch)
    }

    /// Returns the duration of a round trip over the empty link of path number `path`: the delay, plus the
    /// serialization of a full-sized packet one way and of a small one the other way.
    pub fn round_trip(&self, path: usize) -> Duration {
        let on_the_wire = Duration::from_nanos((FULL_PACKET + SMALL_PACKET) * 8 * 1_000_000_000 / RATE);
        self.round_trips.get(path).copied().unwrap_or_default() + on_the_wire
    }

    fn links(&self) -> Vec<LinkSpec> {
        self.round_trips.iter().map(|rtt| LinkSpec::new(RATE, *rtt)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_reach_every_corner() {
        let schedules: Vec<_> = (0..400).map(KillSchedule::random).collect();
        for class in Class::ALL {
            let of: Vec<_> = schedules.iter().filter(|schedule| schedule.class == class).collect();
            assert_eq!(of.len(), 100);
            for paths in 2..=3 {
                for victim in 0..paths {
                    let found =
                        of.iter().filter(|one| one.round_trips.len() == paths && one.victim == victim);
                    assert!(found.count() > 5, "{class:?}: path {victim} of {paths}");
                }
            }
            let both = of.iter().filter(|one| one.dead == Dead::Both).count();
            assert_eq!(both > 10, class != Class::Acks);
            assert!(of.iter().any(|one| one.lasts.is_none()) && of.iter().any(|one| one.lasts.is_some()));
        }
        let acks = schedules.iter().filter(|one| one.class == Class::Acks);
        assert!(acks.clone().all(|one| one.upload == (one.dead == Dead::ToClient)));
        assert!(acks.clone().any(|one| one.upload) && acks.clone().any(|one| !one.upload));
    }
}
