//! Links: chains of small elements that delay, lose, damage and reorder packets.
//!
//! An element is given each packet with the time at which it arrives and passes it on with the time at which
//! it leaves, which may lie in the future. A whole chain is therefore computed when a packet enters it, and a
//! packet costs the event queue one entry, its arrival at the other end.

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

/// One thing that happens to packets on their way.
pub trait Element: Clone + Debug + Send {
    /// Takes `packet`, which arrives at `at`. Times never go backwards as long as no element before this one
    /// reorders. Pass it on, now or later, once or more often, with [`Next::push`], or end its way with
    /// [`Next::lose`].
    fn push(&mut self, at: Time, packet: Packet, next: &mut Next<'_>);

    /// Gives the element random numbers of its own. Elements without chance ignore it.
    fn seed(&mut self, _rng: Rng) {}
}

/// Makes the element list: one line per element, in the order in which packets pass them.
macro_rules! registry {
    ($($module:ident::$name:ident),* $(,)?) => {
        $(mod $module;
        pub use $module::$name;)*

        /// Any element, dispatched statically.
        #[derive(Clone, Debug)]
        #[allow(missing_docs, reason = "each variant is the element of its name")]
        pub enum Stage { $($name($name)),* }

        /// Positions in the list.
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

// What belongs to the sender's side comes first; loss and damage happen on the wire, after a packet has used
// up its share of the rate; whatever lets packets overtake each other comes last, where order no longer
// matters to anyone.
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
    /// Bad luck, alone or in a burst.
    Chance,
    /// The link was down.
    Blackout,
    /// Larger than the link carries.
    TooLarge,
    /// The NAT knows no such mapping (any longer).
    Unmapped,
}

/// Numbers of a link's one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that entered.
    pub entered: u64,
    /// UDP payload bytes that entered.
    pub entered_bytes: u64,
    /// Packets that left at the other end, duplicates included.
    pub delivered: u64,
    /// UDP payload bytes that left at the other end.
    pub delivered_bytes: u64,
    /// Most packets that waited in the queue at the same time.
    pub longest_queue: u64,
    /// Most packets in a row that had bad luck, none between them arriving.
    pub longest_bad_luck: u64,
    /// Those of late.
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
    /// Adds an element, in place of one of the same kind if there is one.
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

    /// Gives every element random numbers that follow from `seed` and `label`.
    pub fn seed(&mut self, seed: Seed, label: &str) {
        for stage in &mut self.stages {
            stage.seed(seed, label);
        }
    }

    /// Takes a packet that enters at `now`, and adds the packets that will arrive because of it to
    /// `arrivals`.
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

/// The rest of the way as an element sees it.
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

    /// Loses `packet`, which goes no further.
    pub fn lose(&mut self, packet: Packet, why: Lost) {
        let counters = &mut self.counters;
        counters.lost[why as usize] += 1;
        if why == Lost::Chance {
            counters.bad_luck += 1;
            counters.longest_bad_luck = counters.longest_bad_luck.max(counters.bad_luck);
        }
        self.buffers.give(packet.payload);
    }

    /// Notes that this many packets wait in a queue.
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
