//! Requests of a session, by stream.

use anabranch_wire::StreamId;
use rustc_hash::FxHashMap;
use slab::Slab;

use super::request::Request;

/// Map of requests by stream. Requests are large and are frequently added and removed. The hash map therefore
/// contains only their positions in a slab, whose slots are reused.
///
/// A fast hash without a secret key suffices, because the transport limits the number of the peer's open
/// streams.
#[derive(Debug, Default)]
pub(super) struct Requests {
    keys: FxHashMap<StreamId, usize>,
    slots: Slab<Request>,
}

impl Requests {
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    pub(super) fn get(&self, id: &StreamId) -> Option<&Request> {
        self.keys.get(id).map(|key| &self.slots[*key])
    }

    pub(super) fn get_mut(&mut self, id: &StreamId) -> Option<&mut Request> {
        self.keys.get(id).map(|key| &mut self.slots[*key])
    }

    /// Inserts a request. Its stream must not have a request yet.
    pub(super) fn insert(&mut self, id: StreamId, request: Request) {
        let key = self.slots.insert(request);
        self.keys.insert(id, key);
    }

    pub(super) fn remove(&mut self, id: &StreamId) -> Option<Request> {
        self.keys.remove(id).map(|key| self.slots.remove(key))
    }
}
