//! All paths of a connection, the numbering of their packets, and their shared state.
//!
//! A [`PathSet`] has no streams, keys or handshake, so that several paths can be tested without a connection.
//! The connection asks it which path a packet belongs to, which path carries which data, and which frames
//! about paths must be sent.

mod abandon;
mod acks;
mod addresses;
mod again;
mod alternatives;
mod challenges;
mod choose;
mod copies;
mod drive;
mod echo;
mod failure;
mod frames;
mod home;
mod locate;
mod lookup;
mod multipath;
mod negotiate;
mod open;
mod pool;
mod schedule;
mod send;
mod shared_ack;
mod status;
mod unopened;

use std::sync::Arc;

use anabranch_wire::Side;

pub(crate) use self::abandon::no_path_left;
pub use self::acks::AckStats;
pub use self::addresses::MigrateError;
pub(crate) use self::addresses::may_follow;
pub use self::alternatives::AlternativeAddress;
pub(crate) use self::alternatives::{MAX_ALTERNATIVES, Word};
pub(crate) use self::copies::stream_of;
pub use self::drive::SocketBlock;
pub(crate) use self::failure::Attention;
pub(crate) use self::frames::not_negotiated;
pub(crate) use self::lookup::Addressee;
pub(crate) use self::multipath::{Abandon, Multipath, opens_paths};
pub use self::open::{AnnounceError, OpenPathError, PathError};
pub(crate) use self::pool::Certainty;
pub(crate) use self::schedule::{Tried, Turn};
pub(crate) use self::unopened::Unopened;
use super::{ClosedPaths, Path, Paths};
use crate::config::TransportConfig;
use crate::space::Numbering;

/// Maximum number of closing paths that do not count against the number of open paths. A path is closing
/// while its state is kept or its PATH_ABANDON is unacknowledged. With more closing paths, a new path ID is
/// offered only when one of them is done. This bounds the state that a peer can make this end keep by opening
/// and abandoning paths, or by acknowledging nothing.
pub(crate) const MAX_CLOSING_PATHS: u32 = 8;

/// The paths of a connection and their shared state.
#[derive(Debug)]
pub(crate) struct PathSet {
    pub(crate) side: Side,
    pub(crate) config: Arc<TransportConfig>,
    /// Open paths, and abandoned ones whose state is kept.
    pub(crate) list: Paths,
    /// Relation between packet numbers and paths.
    pub(crate) numbering: Numbering,
    /// State of RFC 10069; `None` unless both ends negotiated multipath.
    pub(crate) multipath: Option<Box<Multipath>>,
    /// Totals of removed paths.
    pub(crate) closed: Option<Box<ClosedPaths>>,
}

impl PathSet {
    /// Creates the set with a connection's first path.
    pub(crate) fn new(side: Side, config: Arc<TransportConfig>, first: Path) -> Self {
        let (list, numbering) = (Paths::new(first), Numbering::per_path());
        Self { side, config, list, numbering, multipath: None, closed: None }
    }

    /// Returns the closing period: three times the largest PTO of all paths (RFC 9000 §10.2, RFC 10069).
    pub(crate) fn close_period(&self) -> std::time::Duration {
        self.list.max_pto() * 3
    }
}

#[cfg(test)]
mod tests;
