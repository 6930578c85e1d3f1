//! Opening of further paths as early as the connection allows.

use core::time::Duration;
use std::collections::VecDeque;

use anabranch_transport::{Connection, FourTuple, OpenPathError};
use anabranch_wire::{PathId, Time};

/// Time from a temporary refusal to the next attempt. The opener polls because no event reports the arrival
/// of connection IDs.
const RETRY: Duration = Duration::from_millis(1);

/// Opener of further paths on a client's connection, one between each of the given pairs of addresses, in
/// their order.
#[derive(Clone, Debug, Default)]
pub struct PathOpener {
    wanted: VecDeque<FourTuple>,
    next: Option<Time>,
    /// Opened paths, each with the time of its first PATH_CHALLENGE.
    pub opened: Vec<(PathId, Time)>,
    /// Error that made the opener give up the remaining paths.
    pub refused: Option<OpenPathError>,
}

impl PathOpener {
    /// Creates an opener that opens one path for each of `tuples`.
    pub fn new(tuples: impl IntoIterator<Item = FourTuple>) -> Self {
        Self { wanted: tuples.into_iter().collect(), ..Self::default() }
    }

    /// Opens the paths that can be opened now. The caller calls this for every event of the connection, and
    /// at [`Self::next_time`].
    pub fn attempt(&mut self, now: Time, connection: &mut Connection) {
        self.next = None;
        if connection.is_closed() {
            self.wanted.clear();
        }
        while let Some(&tuple) = self.wanted.front() {
            match connection.open_path(now, tuple) {
                Ok(id) => self.opened.push((id, now)),
                // An event will report the completed handshake.
                Err(OpenPathError::NotConnected) => return,
                Err(OpenPathError::NoConnectionId | OpenPathError::NoPathId) => {
                    self.next = Some(now + RETRY);
                    return;
                }
                Err(error) => {
                    self.refused = Some(error);
                    self.wanted.clear();
                }
            }
            self.wanted.pop_front();
        }
    }

    /// Returns the time of the next attempt, if one is scheduled.
    pub fn next_time(&self) -> Option<Time> {
        self.next
    }
}
