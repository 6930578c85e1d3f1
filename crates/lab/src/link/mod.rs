//! Links: chains of small elements that delay, lose, damage and reorder packets.
//!
//! An element receives each packet with its arrival time, and passes it on with its departure time, which may
//! lie in the future. So the way through a whole chain is computed when a packet enters it, and each packet
//! needs only one entry in the event queue: its arrival at the other end.

mod rate;
mod spec;

use std::fmt::Debug;

use anabranch_wire::Time;

pub use nat::Rebinding;
pub use queue::Limit;
pub use rate::Rate;
pub use spec::{LinkSpec, ParseLinkError};

use crate::packet::{Buffers, Packet};
use crate::random::{Rng, Seed};

/// Element of a link, which delays, drops or changes packets.
pub trait Element: Clone + Debug + Send {
    /// Handles `packet`, which arrives at `at`. Arrival times are in ascending order unless an earlier
    /// element reorders packets. The element passes the packet on with [`Next::push`], once or several times,
    /// or drops it with [`Next::lose`].
    fn push(&mut self, at: Time, packet: Packet, next: &mut Next<'_>);

    /// Sets the element's own random number generator. Deterministic elements ignore it.
    fn seed(&mut self, _rng: Rng) {}
}

/// Declares the elements, one line each, in the order in which packets pass them.
macro_rules! registry {
    ($($module:ident::$name:ident),* $(,)?) => {
        $(mod $module;
        pub use $module::$name;)*

        /// Any link element, dispatched statically.
        #[derive(Clone, Debug)]
        #[allow(missing_docs, reason = "each variant is the element of its name")]
        pub enum Stage { $($name($name)),* }

        /// Position of each kind of element in the chain.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        enum Rank { $($name),* }

        impl Stage {
            fn push(&mut self, at: Time, packet: Packet, next: &mut Next<'_>) {
                match self { $(Self::$name(element) => element.push(at, packet, next)),* }
            }

            fn seed(&mut self, seed: Seed, label: &str) {
                match self { $(Self::$name(element) => element.seed(seed.rng(&format!("{label}/{}", stringify!($name))))),* }
            }

            fn rank(&self) -> Rank {
                match self { $(Self::$name(_) => Rank::$name),* }
            }
        }

        $(impl From<$name> for Stage {
            fn from(element: $name) -> Self { Self::$name(element) }
        })*
    };
}

// Elements at the sender's side come first. Loss and damage happen on the wire, after a packet has used its
// share of the rate. Elements that reorder packets come last, because the others rely on ascending times.
registry! {
    nat::Nat,
    mtu::Mtu,
    queue::Queue,
    blackout::Blackout,
    loss::Loss,
    burst::BurstLoss,
    corrupt::Corrupt,
    delay::Delay,
    varying::VaryingDelay,
    jitter::Jitter,
    duplicate::Duplicate,
    reorder::Reorder,
}

/// Reason that a packet did not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Lost {
    /// The queue was full.
    Overflow,
    /// Random loss, single or in a burst.
    Chance,
    /// The link was down.
    Blackout,
    /// The packet exceeded the link's MTU.
    TooLarge,
    /// The NAT has no mapping for the packet, or the mapping is no longer valid.
    Unmapped,
}

/// Counters of one direction of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that entered.
    pub entered: u64,
    /// UDP payload bytes that entered.
    pub entered_bytes: u64,
    /// Packets that reached the other end, including duplicates.
    pub delivered: u64,
    /// UDP payload bytes that reached the other end.
    pub delivered_bytes: u64,
    /// Maximum number of packets that waited in the queue at the same time.
    pub longest_queue: u64,
    /// Length of the longest run of packets that were lost by chance without a delivery in between.
    pub longest_bad_luck: u64,
    /// Number of packets lost by chance since the last delivery.
    bad_luck: u64,
    lost: [u64; 5],
}

impl Counters {
    /// Returns the number of packets that did not arrive because of `why`.
    pub fn lost(&self, why: Lost) -> u64 {
        self.lost[why as usize]
    }

    /// Returns the number of packets that did not arrive.
    pub fn lost_in_all(&self) -> u64 {
        self.lost.iter().sum()
    }
}

/// One direction of a link: elements in the order of the registry, at most one of each kind.
#[derive(Clone, Debug, Default)]
pub struct Chain {
    stages: Vec<Stage>,
    counters: Counters,
}

impl Chain {
    /// Adds an element. It replaces an element of the same kind.
    pub fn set(&mut self, element: impl Into<Stage>) {
        let stage = element.into();
        match self.stages.binary_search_by_key(&stage.rank(), Stage::rank) {
            Ok(index) => self.stages[index] = stage,
            Err(index) => self.stages.insert(index, stage),
        }
    }

    /// Returns the NAT in the chain.
    #[cfg(feature = "sim")]
    pub(crate) fn nat(&self) -> Option<&Nat> {
        self.stages.iter().find_map(|stage| match stage {
            Stage::Nat(nat) => Some(nat),
            _ => None,
        })
    }

    /// Seeds the random numbers of every element from `seed` and `label`.
    pub fn seed(&mut self, seed: Seed, label: &str) {
        for stage in &mut self.stages {
            stage.seed(seed, label);
        }
    }

    /// Passes on a packet that enters at `now`. Adds the resulting deliveries to `arrivals`.
    pub fn push(
        &mut self,
        now: Time,
        packet: Packet,
        buffers: &mut Buffers,
        arrivals: &mut Vec<(Time, Packet)>,
    ) {
        self.counters.entered += 1;
        self.counters.entered_bytes += packet.payload.len() as u64;
        let counters = &mut self.counters;
        Next { rest: &mut self.stages, buffers, arrivals, counters }.push(now, packet);
    }

    /// Returns the counters so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }
}

/// Remainder of the chain behind an element.
pub struct Next<'a> {
    rest: &'a mut [Stage],
    buffers: &'a mut Buffers,
    arrivals: &'a mut Vec<(Time, Packet)>,
    counters: &'a mut Counters,
}

impl Next<'_> {
    /// Passes on `packet`, which leaves the element at `at`.
    pub fn push(&mut self, at: Time, packet: Packet) {
        if let Some((stage, rest)) = self.rest.split_first_mut() {
            let Self { buffers, arrivals, counters, .. } = self;
            stage.push(at, packet, &mut Next { rest, buffers, arrivals, counters });
        } else {
            self.counters.delivered += 1;
            self.counters.bad_luck = 0;
            self.counters.delivered_bytes += packet.payload.len() as u64;
            self.arrivals.push((at, packet));
        }
    }

    /// Drops `packet` for the reason `why`.
    pub fn lose(&mut self, packet: Packet, why: Lost) {
        let counters = &mut self.counters;
        counters.lost[why as usize] += 1;
        if why == Lost::Chance {
            counters.bad_luck += 1;
            counters.longest_bad_luck = counters.longest_bad_luck.max(counters.bad_luck);
        }
        self.buffers.give(packet.payload);
    }

    /// Records that `packets` packets wait in a queue.
    fn waiting(&mut self, packets: usize) {
        self.counters.longest_queue = self.counters.longest_queue.max(packets as u64);
    }

    /// Returns a copy of `packet`.
    pub fn copy(&mut self, packet: &Packet) -> Packet {
        Packet { payload: self.buffers.copy(&packet.payload), ..*packet }
    }
}

#[cfg(test)]
mod tests;
