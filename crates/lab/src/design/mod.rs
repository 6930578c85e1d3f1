//! Designs of experiments: points, each with rate, delay, queue and loss of its paths. They come from a file, or are
//! generated: coordinates in a unit cube that fill it in one way or another, and factors that say what these mean.

mod cube;
mod factor;
mod factorial;
mod file;
mod latin;
mod wsp;

use core::time::Duration;

use anabranch_wire::Time;

use crate::fluid::FluidPath;
use crate::link::{Delay, Limit, LinkSpec, Loss, Queue, Rate};

pub use cube::{Coordinates, MAX_DIMENSIONS, MAX_GENERATED, smallest_distance};
pub use factor::Factor;
pub use factorial::factorial;
pub use file::{DesignError, parse, read, read_with};
pub use latin::Latin;
pub use wsp::Wsp;

/// Largest UDP payload on a link with an MTU of 1500 bytes that charges 28 of them for IPv4 and UDP.
pub const MAX_UDP_PAYLOAD: usize = 1472;
/// Paths that a point may have.
pub const MAX_PATHS: usize = 8;
/// Largest number of a point; seeds of runs have this many bits for it.
pub const MAX_NUMBER: u64 = u32::MAX as u64;

/// A point of a design: links in parallel between two hosts.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Its number in the file, up to [`MAX_NUMBER`]; no two points of a design have the same.
    pub run: u64,
    /// Its paths; the first one carries the handshake.
    pub paths: Vec<PathDesign>,
}

/// A path of a point, the same in both directions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PathDesign {
    /// Megabits (10⁶ bits) per second on the wire.
    pub rate_mbps: f64,
    /// One-way delay in milliseconds.
    pub owd_ms: f64,
    /// Packets that the queue in front of the transmitter holds.
    pub queue_packets: usize,
    /// Packets lost at random in each direction, in percent.
    pub loss_percent: f64,
    /// What changes later, in order of time.
    pub changes: Vec<Change>,
}

/// A change of a path in the course of a run, both ways.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// Time since the start of the simulation.
    pub at: Duration,
    /// The rate from then on.
    pub rate_mbps: Option<f64>,
    /// The loss from then on.
    pub loss_percent: Option<f64>,
}

/// What a queuing delay of the 2017 experiments means for the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueueRule {
    /// What the paper means: the queue holds this delay beyond what the path holds in a round trip.
    #[default]
    Intended,
    /// What the authors' scripts did, where a slip of units left the queuing delay out.
    Scripts,
}

impl QueueRule {
    /// Packets of 1500 bytes that the queue holds, at least ten.
    pub fn packets(self, rate_mbps: f64, owd_ms: f64, queuing_delay_ms: f64) -> usize {
        match self {
            Self::Intended => PathDesign::queue_of_delay(rate_mbps, owd_ms, queuing_delay_ms),
            Self::Scripts => PathDesign::queue_of_delay(rate_mbps, owd_ms, 0.0),
        }
    }
}

impl PathDesign {
    /// The link: serialization behind a drop-tail queue counted in packets, a constant delay, and loss, both ways.
    pub fn link(&self) -> LinkSpec {
        let bits = |mbps: f64| (mbps * 1e6).round() as u64;
        let rates = self.changes.iter().filter_map(|change| Some((time(change.at), bits(change.rate_mbps?))));
        let rate = Rate::steps([(Time::ZERO, bits(self.rate_mbps))].into_iter().chain(rates));
        let link = LinkSpec::default()
            .both(Queue::new(rate, Limit::Packets(self.queue_packets)))
            .both(Delay(Duration::from_nanos((self.owd_ms * 1e6).round() as u64)))
            .mtu(MAX_UDP_PAYLOAD);
        let losses = self.changes.iter().filter_map(|change| Some((time(change.at), change.loss_percent?)));
        let losses = [(Time::ZERO, self.loss_percent)].into_iter().chain(losses);
        let losses: Vec<_> = losses.map(|(at, percent)| (at, percent / 100.0)).collect();
        if losses.iter().all(|(_, probability)| *probability == 0.0) {
            return link;
        }
        link.both(Loss::steps(losses))
    }

    /// The queue of the 2017 experiments: what the path holds in a round trip and in `queuing_delay_ms` more, at
    /// least ten packets of 1500 bytes.
    pub fn queue_of_delay(rate_mbps: f64, owd_ms: f64, queuing_delay_ms: f64) -> usize {
        let bytes = rate_mbps * 1e6 / 8.0 * (2.0 * owd_ms + queuing_delay_ms) / 1e3;
        ((bytes / 1500.0) as usize).max(10)
    }

    /// The path in the fluid model.
    pub fn fluid(&self) -> FluidPath {
        FluidPath { bits_per_second: self.rate_mbps * 1e6, delay: self.owd_ms / 1e3 }
    }
}

fn time(since_start: Duration) -> Time {
    Time::ZERO + since_start
}

impl Point {
    /// Its links.
    pub fn links(&self) -> Vec<LinkSpec> {
        self.paths.iter().map(PathDesign::link).collect()
    }

    /// Its paths in the fluid model.
    pub fn fluid(&self) -> Vec<FluidPath> {
        self.paths.iter().map(PathDesign::fluid).collect()
    }
}
