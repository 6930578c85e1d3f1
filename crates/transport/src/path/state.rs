//! State of a path, and the reason why it sends no data, for applications.

use std::fmt;

/// Stage of a path's life and its current use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PathState {
    /// The peer has not responded on the path yet.
    Opening,
    /// Available for data.
    Open,
    /// Declared a backup by one of the ends: used only if no other path works (RFC 10069 §3.3).
    Backup,
    /// Acknowledgment overdue: other paths replace this one until it responds again.
    Failing,
    /// Abandoned. Packets still in flight on it are processed for a while.
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
    /// The peer has not responded on the path yet.
    NotValidated,
    /// The path is abandoned.
    Abandoned,
    /// No connection ID of the peer is left for the path.
    NoConnectionIds,
    /// The anti-amplification limit for addresses that are not validated is reached (RFC 9000 §8.1).
    AmplificationLimit,
    /// An acknowledgment is overdue, and another path works.
    PotentiallyFailed,
    /// The application has declared the path a backup, and another path works.
    BackupHere,
    /// The peer has declared the path a backup, and another path works.
    BackupByPeer,
    /// Nothing waits to be sent.
    NothingToSend,
    /// The congestion window is full.
    CongestionWindow,
    /// The pacer spreads packets over the round trip and delays the next one.
    Pacing,
    /// The path has room, but the scheduler has chosen others.
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

/// Writes a short human-readable description.
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
