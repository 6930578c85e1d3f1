//! Choice of the path that the next packet takes.
//!
//! A [`Scheduler`] gets the data, control frames and acknowledgments that wait ([`Work`]) and read-only
//! [`PathView`]s of the paths that may carry them, and chooses a path for each kind ([`Pick`]). It is asked
//! once for a batch. Probes and challenges, which only one path can carry, leave without asking it.
//!
//! A program brings its own scheduler along with a [`SchedulerFactory`] in [`Algorithm::Custom`].

mod custom;
mod route;

use std::fmt;
use std::time::Duration;

use anabranch_wire::{PathId, Time, algorithms};
use smallvec::SmallVec;

pub use self::custom::SchedulerFactory;
pub use self::route::Route;
pub(crate) use self::route::{Carrier, Kinds};

/// A path as a scheduler sees it.
#[derive(Clone, Copy, Debug)]
pub struct PathView {
    /// Its identifier.
    pub id: PathId,
    /// `true` if both endpoints want the path used like others; a backup carries data only if there is no
    /// other path.
    pub is_available: bool,
    /// `true` if the peer has been silent on the path for longer than expected.
    pub is_failing: bool,
    /// Smoothed round-trip time; an assumption before the first sample.
    pub smoothed_rtt: Duration,
    /// Smallest round-trip time; the same assumption before the first sample.
    pub min_rtt: Duration,
    /// Part of the smallest round-trip time that is the way back. It is half of that time, or half of another
    /// path's if acknowledgments return on that path.
    pub way_back: Duration,
    /// Variation of the round-trip time (RFC 9002 §5.3).
    pub rtt_variation: Duration,
    /// `true` once there has been an RTT sample.
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
    /// Time at which the last ack-eliciting packet was sent; zero before the first.
    pub last_sent: Time,
    /// Weight that the application gives the path; 1 unless it sets another.
    pub weight: u32,
}

impl PathView {
    /// Returns whether a full packet fits into the congestion window.
    pub fn has_room(&self) -> bool {
        self.room > 0
    }

    /// Returns the time that a packet takes to arrive: the smallest round trip without the way back, plus the
    /// path's queueing delay. That delay is more often on the way to the peer than on the way back.
    pub fn one_way(&self) -> Duration {
        self.smoothed_rtt.saturating_sub(self.way_back)
    }

    /// Returns the number of bytes per second that the congestion window permits.
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
    /// `true` if frames that belong to no path wait: flow control, connection IDs, resets.
    pub control: bool,
    /// Paths whose received packets wait to be acknowledged.
    pub acks: SmallVec<[PathId; 4]>,
    /// `true` if data beyond `new` follows, because flow control or the send buffer keeps the application
    /// from writing it.
    pub continues: bool,
    /// `true` if streams or datagrams have routes of their own ([`Route`]), so that not every path may carry
    /// the waiting data.
    pub routed: bool,
    /// Paths that have room but whose pacers hold them back for a moment. They are not among those to pick
    /// from.
    pub paced: Views,
    /// New stream bytes that the peer's flow control for the connection still lets the application write.
    pub credit: u64,
    /// Bytes from the oldest unacknowledged one to the end of the peer's flow control, for the connection or
    /// for the stream whose turn it is, whichever is less: the send window that TCP has.
    pub send_window: u64,
}

impl Work {
    /// Returns the number of bytes of streams and datagrams that wait, new and lost.
    pub fn queued(&self) -> u64 {
        self.new.saturating_add(self.repeated)
    }

    /// Returns the number of bytes left until the data ends; `u64::MAX` while more follows, or if not every
    /// path may carry it.
    pub fn left(&self) -> u64 {
        if self.continues || self.routed { u64::MAX } else { self.queued() }
    }

    /// Returns the path with the lowest round-trip time among `paths` and those held back by their pacers;
    /// `None` if none was measured.
    fn quickest<'a>(&'a self, paths: &'a [PathView]) -> Option<&'a PathView> {
        let measured = paths.iter().chain(&self.paced).filter(|path| path.has_rtt);
        measured.min_by_key(|path| path.smoothed_rtt)
    }

    /// Returns the path that is worth waiting for: it is faster than `open`, but has no room now.
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
    /// Creates a decision that sends nothing now.
    pub fn wait() -> Self {
        Self::default()
    }

    /// Creates a decision for a whole batch on one path.
    pub fn on(path: PathId) -> Self {
        Self { path: Some(path), ..Self::default() }
    }

    /// Creates a decision for one packet on one path.
    pub fn packet_on(path: PathId) -> Self {
        Self { path: Some(path), packets: 1, ..Self::default() }
    }

    /// Adds copies on other paths to the decision.
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
    /// Picks the path for stream data and datagrams. All `paths` have the same rank: they are available, or
    /// backups if none is available, or failing if nothing else is left.
    fn pick(&mut self, now: Time, work: &Work, paths: &[PathView]) -> Pick;

    /// Picks the path for frames that belong to no path, flow control above all. By default it is the fastest
    /// path.
    fn pick_control(&mut self, _now: Time, _work: &Work, paths: &[PathView]) -> Pick {
        Pick::or_wait(fastest(paths).map(|path| path.id), Pick::on)
    }

    /// Picks the path for lost stream data if it differs from the path for new data; `None` treats both
    /// alike.
    fn pick_repeated(&mut self, _now: Time, _work: &Work, _paths: &[PathView]) -> Option<Pick> {
        None
    }

    /// Picks the path on which packets that arrived on `of` are acknowledged; `None` leaves that to the
    /// connection's rule ([`AckPath`](crate::AckPath)). `paths` may contain paths without room:
    /// acknowledgments need none.
    fn pick_ack(&self, _of: PathId, _paths: &[PathView]) -> Option<PathId> {
        None
    }

    /// Returns whether [`Self::pick_ack`] ever returns a path; otherwise it is not called.
    fn routes_acks(&self) -> bool {
        false
    }

    /// Returns whether `idle`, which has room and nothing left to send, is to repeat data in flight on
    /// `busy`. This concerns data whose repetition should arrive before the original.
    fn reinjects(&self, _idle: &PathView, _busy: &PathView) -> bool {
        false
    }
}

/// Returns the path with the lowest round-trip time among those with room.
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

        algorithms! {
            /// Scheduler of a connection.
            Algorithm, "scheduler", UnknownAlgorithm, CustomScheduler(SchedulerFactory) {
                $($(#[doc = $doc])* $(#[cfg($cfg)])? $variant = $name;)+
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

/// Returns the rank of a path; the scheduler chooses among paths of the lowest rank. Available paths that
/// work come first, then backups that work, then all others.
pub(crate) fn rank(is_failing: bool, is_available: bool) -> (bool, bool) {
    (is_failing, !is_available)
}

#[cfg(test)]
mod tests;
