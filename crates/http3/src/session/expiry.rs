//! Rejection of requests whose header section does not arrive in time.

use anabranch_transport::stream::Streams;
use anabranch_wire::StreamId;

use super::Session;
use crate::error::Code;

impl Session {
    /// Returns the ID of the first request that the client has not begun; for servers.
    pub fn next_request(&self) -> StreamId {
        self.next_request
    }

    /// Rejects requests before `first` whose header sections have not arrived; for servers. A caller limits
    /// the time for a header section by passing, at regular intervals, the previous result of
    /// [`Self::next_request`].
    pub fn expire_heads(&mut self, streams: &mut Streams, first: StreamId) {
        while self.heads_expected < first.min(self.next_request) {
            let id = self.heads_expected;
            self.heads_expected = StreamId::from_u64(id.as_u64() + 4);
            if self.requests.get(&id).is_some_and(|request| !request.is_delivered) {
                self.forget(streams, id, Code::REQUEST_REJECTED);
                self.count_early_reset();
            }
        }
    }
}
