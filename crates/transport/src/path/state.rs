//! State of a path, and the reason why it sends no data, as applications see them.

use std::fmt;

/// Stage of a path's life and its current use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PathState {
    /// The peer has not answered on it yet.
    Opening,
    /// In use like others.
    Open,
    /// One of the ends wants it used only when no other works (RFC 10069 §3.3).
    Backup,
    /// An answer is overdue: other paths take its place until it answers again.
    Failing,
    /// Given up; what is under way on it is still understood for a while.
    Abandoned,
}

impl PathState {
    /// Returns a short name that is the same in every release.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Opening => "opening",
            Self::Open => "open",
            Self::Backup => "backup",
            Self::Failing => "failing",
            Self::Abandoned => "abandoned",
        }
    }
}

impl fmt::Display for PathState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Reason why a path sends no data at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum IdleReason {
    /// The peer has not answered on it yet.
    NotValidated,
    /// It is given up.
    Abandoned,
    /// The peer has left it without a connection ID to send to.
    NoConnectionIds,
    /// As much as the anti-amplification limit allows has been sent to an address that is not validated (RFC
    /// 9000 §8.1).
    AmplificationLimit,
    /// An answer is overdue, and another path works.
    PotentiallyFailed,
    /// The application wants it as a backup, and another path works.
    BackupHere,
    /// The peer wants it as a backup, and another path works.
    BackupByPeer,
    /// Nothing waits to be sent.
    NothingToSend,
    /// The congestion window is full.
    CongestionWindow,
    /// The pacer spreads packets over the round trip; its turn comes soon.
    Pacing,
    /// It has room, and the scheduler has chosen others.
    Scheduler,
}

impl IdleReason {
    /// Returns a short name that is the same in every release.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotValidated => "not_validated",
            Self::Abandoned => "abandoned",
            Self::NoConnectionIds => "no_connection_ids",
            Self::AmplificationLimit => "amplification_limit",
            Self::PotentiallyFailed => "potentially_failed",
            Self::BackupHere => "backup_here",
            Self::BackupByPeer => "backup_by_peer",
            Self::NothingToSend => "nothing_to_send",
            Self::CongestionWindow => "congestion_window",
            Self::Pacing => "pacing",
            Self::Scheduler => "scheduler",
        }
    }
}

/// A few words for people.
impl fmt::Display for IdleReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::NotValidated => "not validated yet",
            Self::Abandoned => "given up",
            Self::NoConnectionIds => "no connection ID of the peer",
            Self::AmplificationLimit => "amplification limit",
            Self::PotentiallyFailed => "potentially failed",
            Self::BackupHere => "backup",
            Self::BackupByPeer => "backup for the peer",
            Self::NothingToSend => "nothing to send",
            Self::CongestionWindow => "congestion window is full",
            Self::Pacing => "paced",
            Self::Scheduler => "scheduler prefers others",
        })
    }
}
