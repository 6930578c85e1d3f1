//! Packet number spaces of a path. Those of the handshake are short-lived.

use std::collections::VecDeque;

use anabranch_wire::SpaceId;

use super::MAX_MOVES;
use crate::lost::LostPackets;
use crate::persistent::LossRun;
use crate::sent::{Packet, SentList};

/// Packet number spaces of a path. The Initial and the Handshake space take memory only from the first packet or probe of either until
/// they are discarded.
#[derive(Debug)]
pub(super) struct Spaces<T> {
    data: Space<T>,
    handshake: Option<Box<[Space<T>; 2]>>,
}

/// One packet number space of a path.
#[derive(Debug)]
pub(super) struct Space<T> {
    pub(super) sent: SentList<T>,
    pub(super) lost: LostPackets<T>,
    pub(super) largest_acked: Option<u64>,
    /// Number of PTO probes that are still to be sent.
    pub(super) probes: u32,
    pub(super) run: LossRun,
    /// Packets removed from the list because it was full, or because the path has moved since too often. They are declared lost at the next
    /// opportunity.
    pub(super) evicted: Vec<(u64, Packet<T>)>,
    /// Orders that were next at the last [`MAX_MOVES`] restarts of congestion control.
    moves: VecDeque<u64>,
}

impl<T> Spaces<T> {
    pub(super) fn new() -> Self {
        Self { data: Space::new(), handshake: None }
    }

    /// Returns a space; `None` if it is one of the handshake's and is not in use.
    #[inline]
    pub(super) fn get(&self, id: SpaceId) -> Option<&Space<T>> {
        match id {
            SpaceId::Data => Some(&self.data),
            SpaceId::Initial => self.handshake.as_ref().map(|spaces| &spaces[0]),
            SpaceId::Handshake => self.handshake.as_ref().map(|spaces| &spaces[1]),
        }
    }

    /// Returns the Application Data space.
    pub(super) fn data(&self) -> &Space<T> {
        &self.data
    }

    /// Returns a space, and creates it if it is not in use.
    #[inline]
    pub(super) fn get_mut(&mut self, id: SpaceId) -> &mut Space<T> {
        match id {
            SpaceId::Data => &mut self.data,
            SpaceId::Initial => &mut self.handshake_mut()[0],
            SpaceId::Handshake => &mut self.handshake_mut()[1],
        }
    }

    fn handshake_mut(&mut self) -> &mut [Space<T>; 2] {
        self.handshake.get_or_insert_with(|| Box::new([Space::new(), Space::new()]))
    }

    /// Returns the spaces in use.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (SpaceId, &mut Space<T>)> {
        let handshake = self.handshake.iter_mut().flat_map(|spaces| spaces.iter_mut());
        [SpaceId::Initial, SpaceId::Handshake]
            .into_iter()
            .zip(handshake)
            .chain([(SpaceId::Data, &mut self.data)])
    }

    /// Forgets the lost packets and the probes of a space whose packets were removed. Its orders continue, because the handshake may begin
    /// again. The Handshake space is the last of the handshake's (RFC 9001 §4.9): both are forgotten with it.
    pub(super) fn discard(&mut self, id: SpaceId) {
        if id == SpaceId::Handshake {
            self.handshake = None;
        } else if self.get(id).is_some() {
            let space = self.get_mut(id);
            space.probes = 0;
            space.lost = LostPackets::new();
        }
    }
}

impl<T> Space<T> {
    fn new() -> Self {
        Self {
            sent: SentList::new(),
            lost: LostPackets::new(),
            largest_acked: None,
            probes: 0,
            run: LossRun::default(),
            evicted: Vec::new(),
            moves: VecDeque::new(),
        }
    }

    /// Removes the packets that were sent before the last [`MAX_MOVES`] restarts of congestion control. Each begins with a window of its own,
    /// so a peer that acknowledges nothing could otherwise move again and again to have more packets tracked.
    pub(super) fn on_restart(&mut self) {
        self.moves.push_back(self.sent.next());
        if self.moves.len() <= MAX_MOVES {
            return;
        }
        let oldest = self.moves.pop_front().unwrap_or_default();
        self.sent.compact();
        while self.sent.front().is_some_and(|(order, _)| order < oldest)
            && let Some((order, packet)) = self.sent.pop()
        {
            self.sent.compact();
            if packet.sent.in_flight {
                self.evicted.push((order, packet));
            }
        }
    }

    /// Frees the memory that the lists once needed and do not need now.
    pub(super) fn shrink(&mut self) {
        self.sent.shrink();
        self.lost.shrink();
        self.evicted.shrink_to_fit();
        self.moves.shrink_to_fit();
    }
}
