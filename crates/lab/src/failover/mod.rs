//! Kill schedules: one of several paths falls silent at a random instant, and every byte must still arrive,
//! soon.
//!
//! Everything follows from a seed, so that each schedule can be run again by itself.

mod app;
mod run;

use core::time::Duration;

use anabranch_transport::TransportConfig;

use crate::link::LinkSpec;
use crate::random::Seed;

pub use run::Outcome;

/// Kills come at a uniform instant of this period after the path's first round-trip sample at both ends.
const SPREAD: f64 = 1.0;
/// Round-trip times of the paths: those of the handover experiment of 2017, and a third one.
const ROUND_TRIPS: [Duration; 3] =
    [Duration::from_millis(15), Duration::from_millis(25), Duration::from_millis(40)];
/// Bits per second of each path, with a queue of one bandwidth-delay product.
const RATE: u64 = 10_000_000;
/// Bytes of an IP packet as large as they get.
const FULL_PACKET: u64 = 1500;
/// Bytes of an IP packet with acknowledgments, a path's status and a request.
const SMALL_PACKET: u64 = 100;
/// Bytes of a bulk transfer: it lasts longer than [`SPREAD`] over three paths.
const BULK: u64 = 5_000_000;

/// Activity of the connection when the path dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// The client sends.
    Upload,
    /// The server sends.
    Download,
    /// Either sends, and only what comes back is lost: the acknowledgments.
    Acks,
    /// Nothing; a request comes afterwards.
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

/// Directions in which a link is dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dead {
    /// Nothing gets through.
    Both,
    /// Nothing reaches the server.
    ToServer,
    /// Nothing reaches the client.
    ToClient,
}

/// One schedule.
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
    /// Time of the kill, counted from the first moment at which both ends have a round-trip sample of the
    /// path.
    pub after: Duration,
    /// For how long; `None` for ever.
    pub lasts: Option<Duration>,
    /// Time at which an idle connection gets a request, counted from the kill.
    pub request_after: Duration,
}

impl KillSchedule {
    /// Creates the schedule that follows from `seed`. Classes take turns.
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

    /// Runs the schedule with this transport at both ends and, if `watch`, prints everything that happens to
    /// standard error.
    ///
    /// # Errors
    /// If the connection did not come to the point at which the path could die.
    pub fn run(&self, transport: &TransportConfig, watch: bool) -> Result<Outcome, String> {
        run::run(self, transport, watch)
    }

    /// Returns the duration of a round trip over the empty link of the path `path`: the delay, a packet of
    /// full size one way and a small one the other way.
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
