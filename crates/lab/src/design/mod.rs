//! Designs of experiments: points, each with rate, delay, queue and loss of its paths. They come from a file,
//! or are generated: coordinates in a unit cube that fill it in one way or another, and factors that say what
//! these mean.

mod columns;
mod cube;
mod error;
mod factor;
mod factorial;
mod file;
mod latin;
mod trace;
mod wsp;

use core::time::Duration;

use anabranch_wire::Time;

use crate::fluid::FluidPath;
use crate::link::{Delay, Jitter, Limit, LinkSpec, Loss, Mtu, Queue, Rate, Reorder, Stage, VaryingDelay};

pub use cube::{Coordinates, MAX_DIMENSIONS, MAX_GENERATED, smallest_distance};
pub use error::DesignError;
pub use factor::Factor;
pub use factorial::factorial;
pub use file::{parse, read, read_with};
pub use latin::Latin;
pub use trace::{RateTrace, parse_changes, read_changes};
pub use wsp::Wsp;

/// Largest UDP payload on a link with an MTU of 1500 bytes that charges 28 of them for IPv4 and UDP.
pub const MAX_UDP_PAYLOAD: usize = 1472;
/// Paths that a point may have.
pub const MAX_PATHS: usize = 8;
/// Changes that a path may have.
pub const MAX_CHANGES: usize = 100_000;
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

/// A path of a point, the same in both directions unless it says otherwise.
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
    /// Later changes of the parameters, in order of time.
    pub changes: Vec<Change>,
    /// Milliseconds that a packet may take longer, evenly distributed; order is kept.
    pub jitter_ms: f64,
    /// Packets that are held back, in percent, so that later ones overtake them.
    pub reorder_percent: f64,
    /// Milliseconds that such a packet is held back at most, evenly distributed.
    pub reorder_ms: f64,
    /// The rate over time, which goes before `rate_mbps`, its mean.
    pub trace: Option<RateTrace>,
    /// The direction from client to server, where it is not as the other one. Its own `up` means nothing.
    pub up: Option<Box<PathDesign>>,
}

/// A change of a path in the course of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Change {
    /// Time since the start of the simulation.
    pub at: Duration,
    /// The rate from then on.
    pub rate_mbps: Option<f64>,
    /// The one-way delay from then on.
    pub owd_ms: Option<f64>,
    /// The loss from then on.
    pub loss_percent: Option<f64>,
}

impl Change {
    /// Returns the change without rate, delay or loss where `own` is set, because a direction has its own.
    pub(crate) fn without(&self, own: [bool; 3]) -> Self {
        let [rate, delay, loss] = own;
        Self {
            at: self.at,
            rate_mbps: self.rate_mbps.filter(|_| !rate),
            owd_ms: self.owd_ms.filter(|_| !delay),
            loss_percent: self.loss_percent.filter(|_| !loss),
        }
    }
}

/// Meaning of a queuing delay of the 2017 experiments for the length of the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueueRule {
    /// The paper's intention: the queue holds this delay in addition to what the path holds in a round trip.
    #[default]
    Intended,
    /// The behaviour of the authors' scripts, in which an error of units left out the queuing delay.
    Scripts,
}

impl QueueRule {
    /// Returns the number of packets of 1500 bytes that the queue holds, at least ten.
    pub fn packets(self, rate_mbps: f64, owd_ms: f64, queuing_delay_ms: f64) -> usize {
        match self {
            Self::Intended => PathDesign::queue_of_delay(rate_mbps, owd_ms, queuing_delay_ms),
            Self::Scripts => PathDesign::queue_of_delay(rate_mbps, owd_ms, 0.0),
        }
    }
}

impl PathDesign {
    /// Returns the link: serialization behind a drop-tail queue counted in packets, delay, and loss, in each
    /// direction.
    pub fn link(&self) -> LinkSpec {
        let link = LinkSpec::default().both(Mtu(MAX_UDP_PAYLOAD));
        let up = self.up.as_deref().unwrap_or(self);
        let link = up.direction().into_iter().fold(link, LinkSpec::there);
        self.direction().into_iter().fold(link, LinkSpec::back)
    }

    /// Returns the elements that packets pass in one direction.
    fn direction(&self) -> Vec<Stage> {
        let mut stages: Vec<Stage> = vec![Queue::new(self.rate(), Limit::Packets(self.queue_packets)).into()];
        let delays = self.steps(self.owd_ms, |change| change.owd_ms, millis);
        stages.push(match delays[..] {
            [(_, constant)] => Delay(constant).into(),
            _ => VaryingDelay::steps(delays).into(),
        });
        if self.jitter_ms > 0.0 {
            stages.push(Jitter::new(millis(self.jitter_ms)).into());
        }
        if self.reorder_percent > 0.0 {
            stages.push(Reorder::new(self.reorder_percent / 100.0, millis(self.reorder_ms)).into());
        }
        let losses = self.steps(self.loss_percent, |change| change.loss_percent, |percent| percent / 100.0);
        if losses.iter().any(|(_, probability)| *probability != 0.0) {
            stages.push(Loss::steps(losses).into());
        }
        stages
    }

    fn rate(&self) -> Rate {
        match &self.trace {
            Some(trace) => trace.rate(),
            None => Rate::steps(self.steps(
                self.rate_mbps,
                |change| change.rate_mbps,
                |mbps| (mbps * 1e6).round() as u64,
            )),
        }
    }

    /// Returns the values of a parameter over time.
    fn steps<T>(&self, first: f64, of: fn(&Change) -> Option<f64>, unit: fn(f64) -> T) -> Vec<(Time, T)> {
        let later = self.changes.iter().filter_map(|change| Some((time(change.at), unit(of(change)?))));
        core::iter::once((Time::ZERO, unit(first))).chain(later).collect()
    }

    /// Returns the queue of the 2017 experiments, at least ten packets of 1500 bytes. It holds what the path
    /// carries in a round trip and in `queuing_delay_ms` more.
    pub fn queue_of_delay(rate_mbps: f64, owd_ms: f64, queuing_delay_ms: f64) -> usize {
        let bytes = rate_mbps * 1e6 / 8.0 * (2.0 * owd_ms + queuing_delay_ms) / 1e3;
        ((bytes / 1500.0) as usize).max(10)
    }

    /// Returns the path in the fluid model.
    pub fn fluid(&self) -> FluidPath {
        FluidPath { bits_per_second: self.rate_mbps * 1e6, delay: self.owd_ms / 1e3 }
    }
}

fn millis(ms: f64) -> Duration {
    Duration::from_nanos((ms * 1e6).round() as u64)
}

fn time(since_start: Duration) -> Time {
    Time::ZERO + since_start
}

impl Point {
    /// Returns the links of the point.
    pub fn links(&self) -> Vec<LinkSpec> {
        self.paths.iter().map(PathDesign::link).collect()
    }

    /// Returns the point's paths in the fluid model.
    pub fn fluid(&self) -> Vec<FluidPath> {
        self.paths.iter().map(PathDesign::fluid).collect()
    }
}
