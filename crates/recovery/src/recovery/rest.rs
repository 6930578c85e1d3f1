//! Memory of a path without traffic.

use super::Recovery;

impl<T> Recovery<T> {
    /// Frees the memory that its queues once needed and do not need now.
    pub fn shrink(&mut self) {
        for space in &mut self.spaces {
            space.sent.shrink();
            space.lost.shrink();
            space.evicted.shrink_to_fit();
            space.moves.shrink_to_fit();
        }
    }
}
