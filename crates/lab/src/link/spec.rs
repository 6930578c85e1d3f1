//! Descriptions of links. They are parsed from a line of text or built element by element.

use core::fmt;
use core::ops::Range;
use core::str::FromStr;
use core::time::Duration;
use std::net::IpAddr;

use anabranch_wire::Time;

use super::{Blackout, Chain, Corrupt, Delay, Duplicate, Limit, Loss, Mtu, Nat, Queue, Rate, Rebinding};
use super::{Reorder, Stage};
use crate::random::Seed;

/// Minimum default queue in bytes, so that slow or short links can still queue a burst of ten full packets.
const MIN_QUEUE_BYTES: u64 = 10 * 1500;

/// Description of a link between two hosts, before it has carried any packet.
///
/// Text form: `RATE/RTT[/LOSS]`, for example `50mbit/20ms/1%` or `unlimited/0ms`.
#[derive(Clone, Debug, Default)]
pub struct LinkSpec {
    there: Chain,
    back: Chain,
    rebindings: Vec<Rebinding>,
}

impl LinkSpec {
    /// Creates a link whose directions each carry `bits_per_second` with a delay of half of `rtt`. Each
    /// direction has a queue of one bandwidth-delay product, but at least ten packets of 1500 bytes.
    pub fn new(bits_per_second: u64, rtt: Duration) -> Self {
        let product = u128::from(bits_per_second) * rtt.as_nanos() / 8_000_000_000;
        let queue = u64::try_from(product).unwrap_or(u64::MAX).max(MIN_QUEUE_BYTES);
        Self::unlimited(rtt).queue(Rate::constant(bits_per_second), Limit::Bytes(queue))
    }

    /// Creates a link with unlimited rate and a delay of half of `rtt` in each direction.
    pub fn unlimited(rtt: Duration) -> Self {
        Self::default().both(Delay(rtt / 2))
    }

    /// Adds an element to both directions. It replaces an element of the same kind.
    pub fn both(self, element: impl Into<Stage>) -> Self {
        let stage = element.into();
        self.there(stage.clone()).back(stage)
    }

    /// Adds an element to the direction from the first to the second host.
    pub fn there(mut self, element: impl Into<Stage>) -> Self {
        self.there.set(element);
        self
    }

    /// Adds an element to the direction from the second to the first host.
    pub fn back(mut self, element: impl Into<Stage>) -> Self {
        self.back.set(element);
        self
    }

    /// Sets this rate and queue in both directions.
    pub fn queue(self, rate: Rate, limit: Limit) -> Self {
        self.both(Queue::new(rate, limit))
    }

    /// Adds random loss to both directions.
    pub fn loss(self, probability: f64) -> Self {
        self.both(Loss::new(probability))
    }

    /// Adds random corruption to both directions.
    pub fn corrupt(self, probability: f64) -> Self {
        self.both(Corrupt::new(probability))
    }

    /// Adds random duplication to both directions.
    pub fn duplicate(self, probability: f64) -> Self {
        self.both(Duplicate::new(probability))
    }

    /// Adds random reordering to both directions: packets are held back for up to `longest`.
    pub fn reorder(self, probability: f64, longest: Duration) -> Self {
        self.both(Reorder::new(probability, longest))
    }

    /// Adds an outage of both directions during `window`.
    pub fn blackout(self, window: Range<Time>) -> Self {
        self.both(Blackout::new([window]))
    }

    /// Sets the maximum UDP payload in both directions.
    pub fn mtu(self, bytes: usize) -> Self {
        self.both(Mtu(bytes))
    }

    /// Adds a rebinding of the NAT in front of the first host. From `from` on, the public ports are the
    /// private ones plus `port_shift`, and the public IP address is `ip` if given.
    pub fn rebind(mut self, from: Time, ip: Option<IpAddr>, port_shift: u16) -> Self {
        self.rebindings.push(Rebinding { from, ip, port_shift });
        self.rebindings.sort_by_key(|rebinding| rebinding.from);
        self
    }

    /// Returns the changes of the NAT's mapping, in order of time.
    pub fn rebindings(&self) -> &[Rebinding] {
        &self.rebindings
    }

    /// Returns the initial bits per second from the first to the second host; `None` if the rate is
    /// unlimited.
    pub fn rate(&self) -> Option<u64> {
        self.there.stages.iter().find_map(|stage| match stage {
            Stage::Queue(queue) => Some(queue.rate().at(Time::ZERO)),
            _ => None,
        })
    }

    /// Builds the two directions. Their randomness follows from `seed` and `label`. `behind_nat` is the first
    /// host's address if its NAT is part of the link.
    pub fn build(&self, behind_nat: Option<IpAddr>, seed: Seed, label: &str) -> [Chain; 2] {
        let (mut there, mut back) = (self.there.clone(), self.back.clone());
        if let Some(first) = behind_nat.filter(|_| !self.rebindings.is_empty()) {
            let [outbound, inbound] = Nat::pair(first, &self.rebindings);
            there.set(outbound);
            back.set(inbound);
        }
        there.seed(seed, &format!("{label}/there"));
        back.seed(seed, &format!("{label}/back"));
        [there, back]
    }
}

/// Error in a link's text form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("link `{text}`: {fault}; expected RATE/RTT[/LOSS], for example 50mbit/20ms/1%")]
pub struct ParseLinkError {
    text: String,
    fault: Fault,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Fault {
    Parts,
    Rate(String),
    Rtt(String),
    Loss(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Parts => f.write_str("has not two or three parts"),
            Self::Rate(part) => {
                write!(f, "`{part}` is no rate (positive, in bit, kbit, mbit or gbit, or `unlimited`)")
            }
            Self::Rtt(part) => write!(f, "`{part}` is no round-trip time (in us, ms or s)"),
            Self::Loss(part) => write!(f, "`{part}` is no loss (0% to 100%)"),
        }
    }
}

impl FromStr for LinkSpec {
    type Err = ParseLinkError;

    fn from_str(text: &str) -> Result<Self, ParseLinkError> {
        parse(text).map_err(|fault| ParseLinkError { text: text.to_owned(), fault })
    }
}

fn parse(text: &str) -> Result<LinkSpec, Fault> {
    let parts: Vec<&str> = text.split('/').map(str::trim).collect();
    let (rate, rtt, loss) = match parts[..] {
        [rate, rtt] => (rate, rtt, None),
        [rate, rtt, loss] => (rate, rtt, Some(loss)),
        _ => return Err(Fault::Parts),
    };
    let nanos =
        number(rtt, &[("us", 1e3), ("ms", 1e6), ("s", 1e9)]).ok_or_else(|| Fault::Rtt(rtt.to_owned()))?;
    let rtt = Duration::from_nanos(nanos as u64);
    let spec = if rate == "unlimited" {
        LinkSpec::unlimited(rtt)
    } else {
        let bits = number(rate, &[("kbit", 1e3), ("mbit", 1e6), ("gbit", 1e9), ("bit", 1.0)]);
        let bits = bits.filter(|bits| *bits >= 1.0).ok_or_else(|| Fault::Rate(rate.to_owned()))?;
        LinkSpec::new(bits as u64, rtt)
    };
    match loss {
        None => Ok(spec),
        Some(loss) => match number(loss, &[("%", 1e-2)]) {
            Some(probability) if probability <= 1.0 => Ok(spec.loss(probability)),
            _ => Err(Fault::Loss(loss.to_owned())),
        },
    }
}

/// Parses a finite, non-negative number with a suffix of `units`, and returns it in base units. The first
/// suffix that matches counts.
fn number(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let (digits, factor) =
        units.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)))?;
    let value: f64 = digits.trim().parse().ok()?;
    let value = value * factor;
    (value.is_finite() && value >= 0.0).then_some(value)
}
