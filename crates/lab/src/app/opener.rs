//! Opening further paths as early as the connection allows.

use core::time::Duration;
use std::collections::VecDeque;

use anabranch_transport::{Connection, FourTuple, OpenPathError};
use anabranch_wire::{PathId, Time};

/// Time from a temporary refusal to the next attempt; no event reports the arrival of connection IDs.
const RETRY: Duration = Duration::from_millis(1);

/// Opens paths between given addresses, in their order, on a client's connection.
#[derive(Clone, Debug, Default)]
pub struct PathOpener {
    wanted: VecDeque<FourTuple>,
    next: Option<Time>,
    /// Paths that were opened, with the time of their first challenge.
    pub opened: Vec<(PathId, Time)>,
    /// Error because of which the remaining paths were given up.
    pub refused: Option<OpenPathError>,
}

impl PathOpener {
    /// Creates an opener of a path for each of `tuples`.
    pub fn new(tuples: impl IntoIterator<Item = FourTuple>) -> Self {
        Self { wanted: tuples.into_iter().collect(), ..Self::default() }
    }

    /// Opens what can be opened now. To be called with every event of the connection, and at
    /// [`Self::next_time`].
    pub fn attempt(&mut self, now: Time, connection: &mut Connection) {
        self.next = None;
        if connection.is_closed() {
            self.wanted.clear();
        }
        while let Some(&tuple) = self.wanted.front() {
            match connection.open_path(now, tuple) {
                Ok(id) => self.opened.push((id, now)),
                // An event will tell.
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

    /// Returns the time of the next attempt.
    pub fn next_time(&self) -> Option<Time> {
        self.next
    }
}
