//! The requests of a session, found by their stream.

use anabranch_wire::StreamId;
use rustc_hash::FxHashMap;
use slab::Slab;

use super::request::Request;

/// Requests by stream. They are large and come and go, so they stay where they are put, and their places are
/// used again.
///
/// A fast hash without a secret will do: the transport bounds how many streams the peer has open.
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

    /// Puts a request in whose stream has none.
    pub(super) fn insert(&mut self, id: StreamId, request: Request) {
        let key = self.slots.insert(request);
        self.keys.insert(id, key);
    }

    pub(super) fn remove(&mut self, id: &StreamId) -> Option<Request> {
        self.keys.remove(id).map(|key| self.slots.remove(key))
    }
}
