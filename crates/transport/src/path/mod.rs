//! Paths: addresses, validation, connection IDs, and loss recovery.

mod address;
mod cids;
mod closed;
mod closure;
mod counters;
mod health;
mod info;
mod manager;
#[expect(clippy::module_inception, reason = "the module of paths holds the type Path")]
mod path;
mod reordering;
mod set;
mod state;
mod status;
mod validation;

pub(crate) use self::address::Previous;
pub(crate) use self::cids::{LocalCids, MAX_LOCAL_CIDS, RemoteCids};
pub(crate) use self::closed::ClosedPaths;
pub use self::closed::{MAX_CLOSED_PATHS, PathTotals};
pub use self::closure::Closure;
pub(crate) use self::health::Health;
pub use self::info::PathInfo;
pub(crate) use self::manager::Paths;
pub(crate) use self::path::{
    AMPLIFICATION_FACTOR, MAX_VALIDATIONS, MIN_PACKET_ROOM, MIN_VALIDATION_ROOM, Path, PathCids, Phase,
};
pub use self::reordering::{REORDERING_DELAYS, REORDERING_DISTANCES, ReorderingStats};
pub(crate) use self::set::*;
pub use self::set::{
    AckStats, AlternativeAddress, AnnounceError, MigrateError, OpenPathError, PathError, SocketBlock,
};
pub use self::state::{IdleReason, PathState};
pub use self::status::PathStatus;
pub(crate) use self::status::Status;
#[cfg(test)]
pub(crate) use self::validation::{MAX_PATH_RESPONSES, MAX_PROBE_INTERVAL};
pub(crate) use self::validation::{Purpose, Response, Validation};
