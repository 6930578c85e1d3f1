//! Second repetition of stream data after a path fell silent (see `path/set/again.rs`).

use anabranch_wire::Time;

use crate::connection::connection::Connection;

impl Connection {
    /// Queues the data whose second repetition is due. Data acknowledged meanwhile is not sent again.
    pub(in crate::connection) fn expire_again(&mut self, now: Time) {
        while let Some(token) =
            self.paths.multipath.as_mut().and_then(|multipath| multipath.again.pop_due(now))
        {
            self.streams.on_lost(&token);
        }
    }
}
