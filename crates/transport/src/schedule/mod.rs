//! Choice of the path that the next packet takes.
//!
//! A [`Scheduler`] sees the waiting data, control frames and acknowledgments ([`Work`]) and read-only
//! [`PathView`]s of the paths that may carry them. It chooses a path for each kind ([`Pick`]). It is asked
//! once per batch, or as often as its picks demand. Probes and path challenges, which belong to one path, are sent without asking it.
//!
//! An application provides its own scheduler with a [`SchedulerFactory`] in [`Algorithm::Custom`].

mod custom;
mod route;

use std::fmt;
use std::time::Duration;

use anabranch_wire::{PathId, Time, algorithms};
use smallvec::SmallVec;

pub use self::custom::SchedulerFactory;
pub use self::route::Route;
pub(crate) use self::route::{Carrier, Kinds, Patience};

/// A scheduler's view of a path.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct PathView {
    /// Path ID.
    pub id: PathId,
    /// `true` if both endpoints consider the path available. A backup path carries data only if no available
    /// path works.
    pub is_available: bool,
    /// `true` if the peer has been silent on the path for longer than expected.
    pub is_failing: bool,
    /// Smoothed round-trip time; an assumed value before the first sample.
    pub smoothed_rtt: Duration,
    /// Smallest round-trip time; the same assumed value before the first sample.
    pub min_rtt: Duration,
    /// Part of the smallest round-trip time that the return direction takes. It is half of this path's
    /// smallest round-trip time, or half of another path's if acknowledgments return on that path.
    pub return_delay: Duration,
    /// Variation of the round-trip time (RFC 9002 §5.3).
    pub rtt_variation: Duration,
    /// `true` once an RTT sample has been taken.
    pub has_rtt: bool,
    /// Free bytes in the congestion window; 0 if not even one packet fits.
    pub room: u64,
    /// Congestion window in bytes.
    pub window: u64,
    /// Bytes in flight.
    pub in_flight: u64,
    /// Maximum UDP payload in bytes.
    pub mtu: u64,
    /// Packets sent so far.
    pub packets_sent: u64,
    /// Bytes sent so far.
    pub bytes_sent: u64,
    /// Time at which the last ack-eliciting packet was sent; zero before the first.
    pub last_sent: Time,
    /// Weight that the application has set for the path; 1 by default.
    pub weight: u32,
}

impl PathView {
    /// Creates the view of an available path on which nothing was sent: its whole congestion window is free.
    pub fn new(id: PathId, smoothed_rtt: Duration, window: u64, mtu: u64) -> Self {
        Self {
            id,
            is_available: true,
            is_failing: false,
            smoothed_rtt,
            min_rtt: smoothed_rtt,
            return_delay: smoothed_rtt / 2,
            rtt_variation: Duration::ZERO,
            has_rtt: true,
            room: window,
            window,
            in_flight: 0,
            mtu,
            packets_sent: 0,
            bytes_sent: 0,
            last_sent: Time::ZERO,
            weight: 1,
        }
    }

    /// Returns whether a full packet fits into the congestion window.
    pub fn has_room(&self) -> bool {
        self.room > 0
    }

    /// Returns the time for a packet to arrive: the smoothed round-trip time minus `return_delay`. The path's
    /// whole queueing delay counts, because queues are more often on the way to the peer than on the way
    /// back.
    pub fn one_way(&self) -> Duration {
        self.smoothed_rtt.saturating_sub(self.return_delay)
    }

    /// Returns the number of bytes per second that the congestion window permits.
    pub fn rate(&self) -> u64 {
        let nanos = self.smoothed_rtt.as_nanos().max(1);
        u64::try_from(u128::from(self.window) * 1_000_000_000 / nanos).unwrap_or(u64::MAX)
    }
}

/// Data, control frames and acknowledgments that wait to be sent.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Work {
    /// Bytes of stream data and datagrams that wait to be sent for the first time.
    pub new: u64,
    /// Bytes of lost stream data that wait to be sent again.
    pub repeated: u64,
    /// `true` if control frames that any path may carry wait to be sent: flow control, connection IDs,
    /// resets.
    pub control: bool,
    /// Paths whose received packets wait to be acknowledged.
    pub acks: SmallVec<[PathId; 4]>,
    /// `true` if more data follows the `new` bytes: flow control or the send buffer keeps the application
    /// from writing it now.
    pub continues: bool,
    /// `true` if streams or datagrams have routes of their own ([`Route`]), so that some paths must not carry
    /// the waiting data.
    pub routed: bool,
    /// Paths that have room in their windows but are held back by their pacers for a moment. The scheduler
    /// cannot pick them now.
    pub paced: Views,
    /// Number of stream bytes that the application may still write under the peer's flow control limit for
    /// the connection.
    pub credit: u64,
    /// Send window in TCP's sense: the bytes from the oldest unacknowledged one to the end of the peer's flow
    /// control credit, for the connection or for the next stream in turn, whichever is less.
    pub send_window: u64,
}

impl Work {
    /// Returns the number of waiting bytes of streams and datagrams, new and lost.
    pub fn queued(&self) -> u64 {
        self.new.saturating_add(self.repeated)
    }

    /// Returns the number of bytes left until the data ends; `u64::MAX` if more follows, or if some path must
    /// not carry the data.
    pub fn left(&self) -> u64 {
        if self.continues || self.routed { u64::MAX } else { self.queued() }
    }

    /// Returns the path with the lowest round-trip time among `paths` and those held back by their pacers;
    /// `None` if none of them has an RTT sample.
    fn quickest<'a>(&'a self, paths: &'a [PathView]) -> Option<&'a PathView> {
        let measured = paths.iter().chain(&self.paced).filter(|path| path.has_rtt);
        measured.min_by_key(|path| path.smoothed_rtt)
    }

    /// Returns the path for which waiting is worthwhile: it is faster than `open`, but cannot send now.
    fn awaited<'a>(&'a self, open: &PathView, paths: &'a [PathView]) -> Option<&'a PathView> {
        let best = self.quickest(paths).filter(|best| !self.routed && best.id != open.id)?;
        let is_paced = self.paced.iter().any(|path| path.id == best.id);
        (is_paced || !best.has_room()).then_some(best)
    }
}

/// A scheduler's decision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pick {
    /// Path to send on; `None` waits until something changes.
    pub path: Option<PathId>,
    /// Paths that repeat the stream data and the flow control limits of the packet as soon as they have room.
    pub also: SmallVec<[PathId; 2]>,
    /// Maximum number of packets to send before the scheduler is asked again; 0 for a whole batch.
    pub packets: usize,
}

impl Pick {
    /// Returns a decision that sends nothing now.
    pub fn wait() -> Self {
        Self::default()
    }

    /// Returns a decision for a whole batch on one path.
    pub fn on(path: PathId) -> Self {
        Self { path: Some(path), ..Self::default() }
    }

    /// Returns a decision for one packet on one path.
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

/// Choice of the path for everything that any path may carry. The scheduler is asked only if a path has room.
pub trait Scheduler: fmt::Debug + Send {
    /// Picks the path for stream data and datagrams. All `paths` have the same rank: all are available, or
    /// all are backups if no available path works, or all are failing if no other path is left.
    fn pick(&mut self, now: Time, work: &Work, paths: &[PathView]) -> Pick;

    /// Picks the path for control frames that any path may carry, in particular flow control. By default this
    /// is the fastest path.
    fn pick_control(&mut self, _now: Time, _work: &Work, paths: &[PathView]) -> Pick {
        Pick::or_wait(fastest(paths).map(|path| path.id), Pick::on)
    }

    /// Picks the path for lost stream data. Returns `None` to send it on the path for new data.
    fn pick_repeated(&mut self, _now: Time, _work: &Work, _paths: &[PathView]) -> Option<Pick> {
        None
    }

    /// Picks the path for acknowledgments of packets that arrived on `of`. `None` leaves the choice to the
    /// connection's rule ([`AckPath`](crate::AckPath)). `paths` may contain paths without room, because
    /// acknowledgments need none.
    fn pick_ack(&self, _of: PathId, _paths: &[PathView]) -> Option<PathId> {
        None
    }

    /// Returns whether [`Self::pick_ack`] ever returns a path; otherwise it is not called.
    fn routes_acks(&self) -> bool {
        false
    }

    /// Returns whether `idle`, which has room and nothing left to send, repeats data that is in flight on
    /// `busy`. Implementations return `true` if they expect the repetition to arrive before the original.
    fn reinjects(&self, _idle: &PathView, _busy: &PathView) -> bool {
        false
    }
}

/// Returns the path with the lowest round-trip time among those with room.
fn fastest(paths: &[PathView]) -> Option<&PathView> {
    paths.iter().filter(|path| path.has_room()).min_by_key(|path| path.smoothed_rtt)
}

/// Declares the schedulers from one list: the variants of [`Algorithm`], their names and the static dispatch.
macro_rules! declare {
    (($d:tt) $($(#[doc = $doc:literal])* $(#[cfg($cfg:meta)])? $module:ident::$variant:ident = $name:literal;)+) => {
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

        /// A connection's scheduler.
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

        /// Calls a scheduler's method, without a virtual call unless the application provides the scheduler.
        macro_rules! dispatch {
            ($d any:expr, $d scheduler:ident => $d call:expr) => {
                match $d any {
                    $($(#[cfg($cfg)])? AnyScheduler::$variant($d scheduler) => $d call,)+
                    AnyScheduler::Custom($d scheduler) => $d call,
                }
            };
        }
    };
}

/// Passes the list of schedulers to [`declare`], with a dollar sign for the macro that `declare` defines.
macro_rules! registry {
    ($($entry:tt)+) => { declare! { ($) $($entry)+ } };
}

registry! {
    /// Sends on the path on which data arrives first. Repeats, on faster paths, data that blocks the end of a
    /// transfer.
    confluence::Confluence = "confluence";
    /// Sends on the path with the lowest round-trip time among those with room.
    min_rtt::MinRtt = "min-rtt";
    /// Like `min-rtt`, but repeats data of paths without an RTT sample on another path.
    #[cfg(feature = "research")]
    duplicate::MinRttDuplicate = "min-rtt-duplicate";
    /// Sends on the paths with room in turn, one packet each.
    round_robin::RoundRobin = "round-robin";
    /// Sends on the path with room that has been unused for longest.
    #[cfg(feature = "research")]
    least_recent::LeastRecent = "least-recent";
    /// Sends on the path with room that has sent the fewest packets.
    fewest::FewestPackets = "fewest-packets";
    /// Sends all data on all paths.
    redundant::Redundant = "redundant";
    /// Blocking estimation: does not use a slow path whose data would block the stream.
    blest::Blest = "blest";
    /// Earliest completion first: waits for a fast path if the data then arrives sooner.
    ecf::Ecf = "ecf";
    /// Sends new data on any path with room, lost data and acknowledgments on the fastest path only.
    rescue::Rescue = "rescue";
    /// Sends on each path in proportion to the weight that the application has set.
    weighted::Weighted = "weighted";
}

impl Scheduler for AnyScheduler {
    fn pick(&mut self, now: Time, work: &Work, paths: &[PathView]) -> Pick {
        dispatch!(self, scheduler => scheduler.pick(now, work, paths))
    }

    fn pick_control(&mut self, now: Time, work: &Work, paths: &[PathView]) -> Pick {
        dispatch!(self, scheduler => scheduler.pick_control(now, work, paths))
    }

    fn pick_repeated(&mut self, now: Time, work: &Work, paths: &[PathView]) -> Option<Pick> {
        dispatch!(self, scheduler => scheduler.pick_repeated(now, work, paths))
    }

    fn pick_ack(&self, of: PathId, paths: &[PathView]) -> Option<PathId> {
        dispatch!(self, scheduler => scheduler.pick_ack(of, paths))
    }

    fn routes_acks(&self) -> bool {
        dispatch!(self, scheduler => scheduler.routes_acks())
    }

    fn reinjects(&self, idle: &PathView, busy: &PathView) -> bool {
        dispatch!(self, scheduler => scheduler.reinjects(idle, busy))
    }
}

/// Error for a name that no scheduler has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownAlgorithm;

impl fmt::Display for UnknownAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown scheduler: use one of {}", Algorithm::NAMES.join(", "))
    }
}

impl std::error::Error for UnknownAlgorithm {}

/// Views of a connection's paths, stored inline for up to four paths.
pub type Views = SmallVec<[PathView; 4]>;

/// Returns the rank of a path. The scheduler chooses among the paths of the lowest rank. Working available
/// paths come first, then working backups, then failing available paths, then failing backups.
pub(crate) fn rank(is_failing: bool, is_available: bool) -> (bool, bool) {
    (is_failing, !is_available)
}

#[cfg(test)]
mod tests;
