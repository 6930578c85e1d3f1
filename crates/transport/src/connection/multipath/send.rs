//! Handling of acknowledged frames of RFC 10069.

use anabranch_wire::Time;

use crate::connection::connection::Connection;
use crate::token::Token;

impl Connection {
    /// Handles the acknowledgment of a frame about paths.
    pub(in crate::connection) fn on_multipath_acked(&mut self, now: Time, token: &Token) {
        if let (Token::PathAbandon(path), Some(multipath)) = (token, &mut self.paths.multipath) {
            multipath.on_abandon_acked(*path);
            if multipath.pool.is_some() {
                // A peer that has received PATH_ABANDON sends nothing more on the path, even if it does not
                // answer because too many paths are closing.
                self.paths.begin_retention(now, *path);
            }
            self.offer_paths();
        }
    }
}
