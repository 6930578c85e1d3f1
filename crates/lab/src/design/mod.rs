//! Designs of experiments. A design is a list of points, each with rate, delay, queue and loss of its paths.
//! Points are read from a file or generated. A generated design consists of coordinates that fill a unit
//! cube, and of factors that map coordinates to values.

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

/// Maximum UDP payload on a link with an MTU of 1500 bytes, of which IPv4 and UDP headers take 28.
pub const MAX_UDP_PAYLOAD: usize = 1472;
/// Maximum number of paths of a point.
pub const MAX_PATHS: usize = 8;
/// Maximum number of changes of a path.
pub const MAX_CHANGES: usize = 100_000;
/// Maximum number of a point. The seed of a run has 32 bits for the number.
pub const MAX_NUMBER: u64 = u32::MAX as u64;

/// Point of a design: parallel links between two hosts.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Number of the point in the file, up to [`MAX_NUMBER`]; unique within a design.
    pub run: u64,
    /// Paths of the point; the first one carries the handshake.
    pub paths: Vec<PathDesign>,
}

/// Path of a point. Both directions are equal unless `up` is set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PathDesign {
    /// Rate on the wire in megabits (10⁶ bits) per second.
    pub rate_mbps: f64,
    /// One-way delay in milliseconds.
    pub owd_ms: f64,
    /// Maximum number of packets in the queue in front of the transmitter.
    pub queue_packets: usize,
    /// Random packet loss in each direction, in percent.
    pub loss_percent: f64,
    /// Changes of the parameters during the run, in order of time.
    pub changes: Vec<Change>,
    /// Maximum additional delay of a packet in milliseconds, uniformly distributed from zero; packets stay in
    /// order.
    pub jitter_ms: f64,
    /// Percentage of packets that are held back, so that later ones overtake them.
    pub reorder_percent: f64,
    /// Maximum time for which a packet is held back, in milliseconds; the time is uniformly distributed from
    /// zero.
    pub reorder_ms: f64,
    /// Rate over time, which replaces `rate_mbps`; `rate_mbps` is then its mean.
    pub trace: Option<RateTrace>,
    /// Parameters of the direction from client to server, if they differ. Their own `up` is ignored.
    pub up: Option<Box<PathDesign>>,
}

/// Change of a path during a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Change {
    /// Time since the start of the simulation.
    pub at: Duration,
    /// New rate, if it changes.
    pub rate_mbps: Option<f64>,
    /// New one-way delay, if it changes.
    pub owd_ms: Option<f64>,
    /// New loss, if it changes.
    pub loss_percent: Option<f64>,
}

impl Change {
    /// Returns the change without the rate, the delay or the loss for which `own` is `true`, because the
    /// direction sets this parameter itself.
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

/// Interpretation of a queuing delay of the 2017 experiments as the length of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueueRule {
    /// Intention of the paper: the queue holds this delay in addition to a bandwidth-delay product of the
    /// path.
    #[default]
    Intended,
    /// Behaviour of the authors' scripts, in which an error of units omitted the queuing delay.
    Scripts,
}

impl QueueRule {
    /// Returns the length of the queue in packets of 1500 bytes, at least ten.
    pub fn packets(self, rate_mbps: f64, owd_ms: f64, queuing_delay_ms: f64) -> usize {
        match self {
            Self::Intended => PathDesign::queue_of_delay(rate_mbps, owd_ms, queuing_delay_ms),
            Self::Scripts => PathDesign::queue_of_delay(rate_mbps, owd_ms, 0.0),
        }
    }
}

impl PathDesign {
    /// Returns the link. In each direction packets wait in a drop-tail queue, counted in packets, that is
    /// emptied at the path's rate. Delay follows, then jitter, reordering and loss as far as they are set.
    pub fn link(&self) -> LinkSpec {
        let link = LinkSpec::default().both(Mtu(MAX_UDP_PAYLOAD));
        let up = self.up.as_deref().unwrap_or(self);
        let link = up.direction().into_iter().fold(link, LinkSpec::there);
        self.direction().into_iter().fold(link, LinkSpec::back)
    }

    /// Returns the elements of one direction, in the order in which packets pass them.
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

    /// Returns the queue length of the 2017 experiments in packets of 1500 bytes, at least ten. The queue
    /// holds the bytes that the path carries in a round-trip time plus `queuing_delay_ms`.
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

    /// Returns true if both directions of each path are equal, and only rate, delay and queue are set. The
    /// fluid model has no other parameters.
    pub fn is_plain(&self) -> bool {
        let plain = |path: &PathDesign| {
            let shaped = [path.loss_percent, path.jitter_ms, path.reorder_percent];
            path.changes.is_empty()
                && path.trace.is_none()
                && path.up.is_none()
                && shaped.iter().all(|value| *value == 0.0)
        };
        self.paths.iter().all(plain)
    }

    /// Returns the point's paths in the fluid model.
    pub fn fluid(&self) -> Vec<FluidPath> {
        self.paths.iter().map(PathDesign::fluid).collect()
    }
}
