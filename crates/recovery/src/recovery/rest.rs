//! Memory of a path without traffic.

use super::Recovery;

impl<T> Recovery<T> {
    /// Frees the memory that its queues once needed and do not need now.
    pub fn shrink(&mut self) {
        self.spaces.iter_mut().for_each(|(_, space)| space.shrink());
    }
}
