//! Which path the next packet takes.
//!
//! A [`Scheduler`] gets the data, control frames and acknowledgments that wait ([`Work`]) and read-only [`PathView`]s of the
//! paths that may carry them, and chooses a path for each kind ([`Pick`]). It is asked once for a batch. Probes and
//! challenges, which only one path can carry, leave without asking it.
//!
//! A program brings its own scheduler along with a [`SchedulerFactory`] in [`Algorithm::Custom`].

mod custom;
mod route;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use anabranch_wire::{PathId, Time, custom};
use smallvec::SmallVec;

pub use self::custom::SchedulerFactory;
pub use self::route::Route;
pub(crate) use self::route::{Carrier, Kinds};

/// A path as a scheduler sees it.
#[derive(Clone, Copy, Debug)]
pub struct PathView {
    /// Its identifier.
    pub id: PathId,
    /// Whether both ends want it used like others; a backup carries data only if no other path is there.
    pub is_available: bool,
    /// Whether the peer has been silent on it for longer than it should.
    pub is_failing: bool,
    /// Smoothed round-trip time; an assumption before the first sample.
    pub smoothed_rtt: Duration,
    /// Smallest round-trip time; the same assumption before the first sample.
    pub min_rtt: Duration,
    /// How much of it is the way back: half, or the other path's half if acknowledgments come back on another one.
    pub way_back: Duration,
    /// How much round-trip times vary (RFC 9002 §5.3).
    pub rtt_variation: Duration,
    /// Whether there has been a sample.
    pub has_rtt: bool,
    /// Bytes that the congestion window has room for; 0 if not even one packet fits.
    pub room: u64,
    /// Congestion window in bytes.
    pub window: u64,
    /// Bytes in flight.
    pub in_flight: u64,
    /// Largest UDP payload in bytes.
    pub mtu: u64,
    /// Packets sent so far.
    pub packets_sent: u64,
    /// Bytes sent so far.
    pub bytes_sent: u64,
    /// When a packet that asks for an acknowledgment was last sent; zero before the first.
    pub last_sent: Time,
    /// What the application weighs it with; 1 unless it says otherwise.
    pub weight: u32,
}

impl PathView {
    /// Whether a full packet fits the window.
    pub fn has_room(&self) -> bool {
        self.room > 0
    }

    /// How long a packet takes to arrive: the smallest round trip without the way back, and whatever the path has queued, which
    /// is on its way to the peer more often than on the way back.
    pub fn one_way(&self) -> Duration {
        self.smoothed_rtt.saturating_sub(self.way_back)
    }

    /// Bytes per second that the window lets through.
    pub fn rate(&self) -> u64 {
        let nanos = self.smoothed_rtt.as_nanos().max(1);
        u64::try_from(u128::from(self.window) * 1_000_000_000 / nanos).unwrap_or(u64::MAX)
    }
}

/// Data, control frames and acknowledgments that wait to be sent.
#[derive(Clone, Debug, Default)]
pub struct Work {
    /// Bytes of streams and datagrams that wait to be sent for the first time.
    pub new: u64,
    /// Bytes of streams that were lost and wait to be sent again.
    pub repeated: u64,
    /// Whether frames wait that belong to no path: flow control, connection IDs, resets.
    pub control: bool,
    /// Paths whose received packets wait to be acknowledged.
    pub acks: SmallVec<[PathId; 4]>,
    /// Whether data beyond `new` follows, because flow control or the send buffer keeps the application from writing it.
    pub continues: bool,
    /// Whether streams or datagrams have routes of their own ([`Route`]), so that not every path may carry what waits.
    pub routed: bool,
    /// Paths that have room but whose pacers hold them back for a moment. They are not among those to pick from.
    pub paced: Views,
    /// New stream bytes that the peer's flow control for the connection still lets the application write.
    pub credit: u64,
    /// Bytes from the oldest unacknowledged one to the end of the peer's flow control, for the connection or for the stream
    /// whose turn it is, whichever is less: the send window that TCP has.
    pub send_window: u64,
}

impl Work {
    /// Bytes of streams and datagrams that wait, new and lost.
    pub fn queued(&self) -> u64 {
        self.new.saturating_add(self.repeated)
    }

    /// Bytes that are left until the data ends; `u64::MAX` while more follows, or if not every path may carry it.
    pub fn left(&self) -> u64 {
        if self.continues || self.routed { u64::MAX } else { self.queued() }
    }

    /// The path with the lowest round-trip time among `paths` and those held back by their pacers; `None` if none was measured.
    fn quickest<'a>(&'a self, paths: &'a [PathView]) -> Option<&'a PathView> {
        let measured = paths.iter().chain(&self.paced).filter(|path| path.has_rtt);
        measured.min_by_key(|path| path.smoothed_rtt)
    }

    /// The path that is worth waiting for: faster than `open`, but without room now.
    fn awaited<'a>(&'a self, open: &PathView, paths: &'a [PathView]) -> Option<&'a PathView> {
        let best = self.quickest(paths).filter(|best| !self.routed && best.id != open.id)?;
        let is_paced = self.paced.iter().any(|path| path.id == best.id);
        (is_paced || !best.has_room()).then_some(best)
    }
}

/// A scheduler's decision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pick {
    /// The path that carries it; `None` waits until something changes.
    pub path: Option<PathId>,
    /// Paths that carry a copy as soon as they have room.
    pub also: SmallVec<[PathId; 2]>,
    /// Packets that may leave before the scheduler is asked again; 0 for as many as a batch holds.
    pub packets: usize,
}

impl Pick {
    /// Nothing is sent now.
    pub fn wait() -> Self {
        Self::default()
    }

    /// A whole batch on one path.
    pub fn on(path: PathId) -> Self {
        Self { path: Some(path), ..Self::default() }
    }

    /// One packet on one path.
    pub fn packet_on(path: PathId) -> Self {
        Self { path: Some(path), packets: 1, ..Self::default() }
    }

    /// The same with copies on other paths.
    pub fn and_also(mut self, paths: impl IntoIterator<Item = PathId>) -> Self {
        self.also.extend(paths);
        self
    }

    fn or_wait(path: Option<PathId>, on: impl FnOnce(PathId) -> Self) -> Self {
        path.map_or_else(Self::wait, on)
    }
}

/// Decides which path carries what any path may carry. Asked only if a path has room.
pub trait Scheduler: fmt::Debug + Send {
    /// Where stream data and datagrams go: one of `paths`, which are the best of their kind: available ones, or backups if there are none, or
    /// failing ones if nothing else is left.
    fn pick(&mut self, now: Time, work: &Work, paths: &[PathView]) -> Pick;

    /// Where frames that belong to no path go, flow control above all: the fastest path unless a scheduler knows better.
    fn pick_control(&mut self, _now: Time, _work: &Work, paths: &[PathView]) -> Pick {
        Pick::or_wait(fastest(paths).map(|path| path.id), Pick::on)
    }

    /// Where lost stream data goes if it does not go where new data goes; `None` treats both alike.
    fn pick_repeated(&mut self, _now: Time, _work: &Work, _paths: &[PathView]) -> Option<Pick> {
        None
    }

    /// The path on which packets that arrived on `of` are acknowledged; `None` leaves that to the connection's rule
    /// ([`AckPath`](crate::AckPath)). `paths` may contain paths without room: acknowledgments need none.
    fn pick_ack(&self, _of: PathId, _paths: &[PathView]) -> Option<PathId> {
        None
    }

    /// Whether [`Self::pick_ack`] ever answers; it is not asked otherwise.
    fn routes_acks(&self) -> bool {
        false
    }

    /// Whether `idle`, which has room and nothing left to send, is to repeat data under way on `busy` that should have arrived
    /// there only after the repetition.
    fn reinjects(&self, _idle: &PathView, _busy: &PathView) -> bool {
        false
    }
}

/// The path with room whose round-trip time is the lowest.
fn fastest(paths: &[PathView]) -> Option<&PathView> {
    paths.iter().filter(|path| path.has_room()).min_by_key(|path| path.smoothed_rtt)
}

/// Lists every scheduler once.
macro_rules! registry {
    ($($(#[doc = $doc:literal])* $(#[cfg($cfg:meta)])? $module:ident::$variant:ident = $name:literal;)+) => {
        $($(#[cfg($cfg)])?
        mod $module;
        $(#[cfg($cfg)])?
        use self::$module::$variant;)+

        /// Which scheduler a connection uses.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Algorithm {
            $($(#[doc = $doc])* $(#[cfg($cfg)])? $variant,)+
            /// A scheduler that the program brings along.
            Custom(CustomScheduler),
        }

        impl Algorithm {
            /// The names [`FromStr`] knows.
            pub const NAMES: &[&str] = &[$($(#[cfg($cfg)])? $name),+];

            /// The algorithm's name.
            pub fn name(self) -> &'static str {
                match self { $($(#[cfg($cfg)])? Self::$variant => $name,)+ Self::Custom(custom) => custom.name() }
            }
        }

        impl FromStr for Algorithm {
            type Err = UnknownAlgorithm;

            fn from_str(name: &str) -> Result<Self, UnknownAlgorithm> {
                match name { $($(#[cfg($cfg)])? $name => Ok(Self::$variant),)+ _ => Self::registered(name).ok_or(UnknownAlgorithm) }
            }
        }

        /// The scheduler of a connection.
        #[derive(Debug)]
        pub(crate) enum AnyScheduler { $($(#[cfg($cfg)])? $variant($variant),)+ Custom(Box<dyn Scheduler>) }

        impl AnyScheduler {
            pub(crate) fn new(algorithm: Algorithm) -> Self {
                match algorithm {
                    $($(#[cfg($cfg)])? Algorithm::$variant => Self::$variant($variant::default()),)+
                    Algorithm::Custom(custom) => Self::Custom(custom.0.build()),
                }
            }
        }

        impl Scheduler for AnyScheduler {
            fn pick(&mut self, now: Time, work: &Work, paths: &[PathView]) -> Pick {
                match self { $($(#[cfg($cfg)])? Self::$variant(inner) => inner.pick(now, work, paths),)+ Self::Custom(inner) => inner.pick(now, work, paths) }
            }

            fn pick_control(&mut self, now: Time, work: &Work, paths: &[PathView]) -> Pick {
                match self { $($(#[cfg($cfg)])? Self::$variant(inner) => inner.pick_control(now, work, paths),)+ Self::Custom(inner) => inner.pick_control(now, work, paths) }
            }

            fn pick_repeated(&mut self, now: Time, work: &Work, paths: &[PathView]) -> Option<Pick> {
                match self { $($(#[cfg($cfg)])? Self::$variant(inner) => inner.pick_repeated(now, work, paths),)+ Self::Custom(inner) => inner.pick_repeated(now, work, paths) }
            }

            fn pick_ack(&self, of: PathId, paths: &[PathView]) -> Option<PathId> {
                match self { $($(#[cfg($cfg)])? Self::$variant(inner) => inner.pick_ack(of, paths),)+ Self::Custom(inner) => inner.pick_ack(of, paths) }
            }

            fn routes_acks(&self) -> bool {
                match self { $($(#[cfg($cfg)])? Self::$variant(inner) => inner.routes_acks(),)+ Self::Custom(inner) => inner.routes_acks() }
            }

            fn reinjects(&self, idle: &PathView, busy: &PathView) -> bool {
                match self { $($(#[cfg($cfg)])? Self::$variant(inner) => inner.reinjects(idle, busy),)+ Self::Custom(inner) => inner.reinjects(idle, busy) }
            }
        }
    };
}

registry! {
    /// The path on which data arrives first, with what blocks the end of a transfer repeated on faster paths.
    confluence::Confluence = "confluence";
    /// The path with the lowest round-trip time whose window has room.
    min_rtt::MinRtt = "min-rtt";
    /// The same, with data on paths whose round-trip time is not known yet repeated on another.
    #[cfg(feature = "research")]
    duplicate::MinRttDuplicate = "min-rtt-duplicate";
    /// Paths whose windows have room, one after the other.
    round_robin::RoundRobin = "round-robin";
    /// Of the paths with room the one that has not been used for longest.
    #[cfg(feature = "research")]
    least_recent::LeastRecent = "least-recent";
    /// Of the paths with room the one that has sent the fewest packets.
    fewest::FewestPackets = "fewest-packets";
    /// Everything on all paths.
    redundant::Redundant = "redundant";
    /// Blocking estimation: a slow path is left alone if its data would hold up the stream.
    blest::Blest = "blest";
    /// Earliest completion first: waits for a fast path where that ends sooner.
    ecf::Ecf = "ecf";
    /// New data wherever there is room, lost data and acknowledgments on the fastest path alone.
    rescue::Rescue = "rescue";
    /// Bytes in proportion to the weights that the application gives.
    weighted::Weighted = "weighted";
}

custom!(CustomScheduler(SchedulerFactory) in Algorithm, "scheduler");

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// No scheduler has this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownAlgorithm;

impl fmt::Display for UnknownAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown scheduler: use one of {}", Algorithm::NAMES.join(", "))
    }
}

impl std::error::Error for UnknownAlgorithm {}

/// Views of a connection's paths, few enough for the stack.
pub type Views = SmallVec<[PathView; 4]>;

/// The paths of the lowest rank come into question: available ones that work, else backups that work, else whatever is there.
pub(crate) fn rank(is_failing: bool, is_available: bool) -> (bool, bool) {
    (is_failing, !is_available)
}

#[cfg(test)]
mod tests;
