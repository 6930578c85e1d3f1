//! Stream data that is due for its second repetition.

use anabranch_wire::Time;

use crate::connection::connection::Connection;

impl Connection {
    /// Queues what is due a second time; what has been acknowledged meanwhile stays where it is.
    pub(in crate::connection) fn expire_again(&mut self, now: Time) {
        while let Some(token) =
            self.paths.multipath.as_mut().and_then(|multipath| multipath.again.pop_due(now))
        {
            self.streams.on_lost(&token);
        }
    }
}
