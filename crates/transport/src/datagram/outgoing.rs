//! Messages that wait to be sent, in a queue for each flow. The flows take turns by deficit round robin (Shreedhar and
//! Varghese, SIGCOMM 1995).

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use anabranch_wire::Time;
use bytes::Bytes;

use super::MESSAGE_OVERHEAD;
use super::terms::Terms;
use crate::schedule::{Carrier, Route};

/// Number of bytes that each turn adds to a flow's credit.
const QUANTUM: usize = 1_500;
/// Maximum number of flows that one search covers.
pub(super) const MAX_SEARCHED: usize = 64;
/// Maximum time that the copy of a message waits for a second path. A later copy would usually arrive too late to replace a
/// lost original.
pub(super) const MAX_COPY_WAIT: Duration = Duration::from_millis(150);

/// Key of a flow; `None` for all messages without a flow, which together are treated like a flow.
type Key = Option<u64>;

/// A queued message.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) message: Bytes,
    route: Route,
    is_copied: bool,
    /// `true` if the receiver restores the order of the flow's messages.
    is_ordered: bool,
    /// Time at which the message was queued; `None` if it does not wait for a faster path.
    since: Option<Time>,
    expires: Option<Time>,
}

impl Entry {
    pub(super) fn new(now: Time, message: Bytes, terms: &Terms) -> Self {
        let since = terms.flow.map(|_| now);
        let expires = terms.lifetime.map(|lifetime| now + lifetime);
        Self {
            message,
            route: terms.route,
            is_copied: terms.is_copied,
            is_ordered: terms.is_ordered,
            since,
            expires,
        }
    }

    fn cost(&self) -> usize {
        self.message.len() + MESSAGE_OVERHEAD
    }

    fn is_routed(&self) -> bool {
        self.route != Route::Any || self.is_copied
    }
}

/// Messages of one flow, in order.
#[derive(Debug, Default)]
struct Flow {
    entries: VecDeque<Entry>,
    bytes: usize,
    /// Number of bytes that the flow may send before the next flow has its turn.
    credit: usize,
}

/// Messages that were dropped instead of being sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Drops {
    /// Number of messages that were too large, or were dropped to make room for others.
    pub(super) dropped: u64,
    /// Number of messages whose lifetime had ended.
    pub(super) expired: u64,
}

/// Place of a message: the index of its flow in the order of turns, and its index in the flow.
pub(super) type Place = (usize, usize);

/// Queues of all flows, bounded in bytes together.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    flows: BTreeMap<Key, Flow>,
    /// Flows with messages, the next one first.
    turns: VecDeque<Key>,
    bytes: usize,
    capacity: usize,
    /// Number of messages that are for particular paths or have to be copied.
    routed: usize,
    pub(super) drops: Drops,
}

impl Outgoing {
    pub(super) fn new(capacity: usize) -> Self {
        Self { capacity, ..Self::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns whether any message is for particular paths or has to be copied.
    pub(super) fn is_routed(&self) -> bool {
        self.routed > 0
    }

    /// Returns whether any message belongs to a flow.
    pub(super) fn has_flows(&self) -> bool {
        match self.flows.len() {
            0 => false,
            1 => !self.flows.contains_key(&None),
            _ => true,
        }
    }

    /// Queues a message. If there is no room, drops the oldest messages of the flow with the most bytes, as long as that has
    /// more bytes than the message's own flow. Returns whether the message was queued; if it was not, none was dropped.
    pub(super) fn push(&mut self, key: Key, entry: Entry) -> bool {
        if self.bytes + entry.cost() > self.capacity {
            let Some(victims) = self.victims(key, entry.cost()) else { return false };
            for victim in victims {
                let at = self.turns.iter().position(|key| *key == victim);
                self.drops.dropped += u64::from(at.and_then(|at| self.take((at, 0))).is_some());
            }
        }
        self.bytes += entry.cost();
        self.routed += usize::from(entry.is_routed());
        let flow = self.flows.entry(key).or_insert_with(|| {
            self.turns.push_back(key);
            Flow { credit: QUANTUM, ..Flow::default() }
        });
        flow.bytes += entry.cost();
        flow.entries.push_back(entry);
        true
    }

    /// Returns the flows that make room for a message of the flow `key`, each once for each of its oldest messages that has to
    /// be dropped. Returns `None` if there is not enough room.
    fn victims(&self, key: Key, cost: usize) -> Option<Vec<Key>> {
        let own = self.flows.get(&key).map_or(0, |flow| flow.bytes);
        let searched = self.turns.iter().take(MAX_SEARCHED);
        // Bytes that remain of each flow, and the number of its messages that are to be dropped.
        let mut rests: Vec<_> =
            searched.filter_map(|key| self.flows.get(key).map(|flow| (flow.bytes, 0, *key, flow))).collect();
        let (mut bytes, mut victims) = (self.bytes, Vec::new());
        // A single message always fits, or it could never be sent.
        while bytes > 0 && bytes + cost > self.capacity {
            let (rest, count, victim, flow) = rests.iter_mut().max_by_key(|(rest, ..)| *rest)?;
            if *rest <= own {
                return None;
            }
            let dropped = flow.entries.get(*count)?.cost();
            bytes -= dropped;
            *rest -= dropped;
            *count += 1;
            victims.push(*victim);
        }
        Some(victims)
    }

    /// Returns the place of the next message that `carrier` may carry now. Drops messages before it that are longer than `max`
    /// or whose lifetime has ended.
    pub(super) fn find(&mut self, now: Time, carrier: &Carrier, max: Option<usize>) -> Option<Place> {
        let mut at = 0;
        while at < self.turns.len().min(MAX_SEARCHED) {
            match self.find_in(at, now, carrier, max) {
                Search::Found(index, len) => {
                    let flow = self.turns.get(at).and_then(|key| self.flows.get_mut(key))?;
                    if flow.credit >= len {
                        return Some((at, index));
                    }
                    flow.credit += QUANTUM;
                    let key = self.turns.remove(at)?;
                    self.turns.push_back(key);
                }
                Search::Nothing => at += 1,
                Search::Emptied => {}
            }
        }
        None
    }

    /// Searches the flow at index `at` of the turns.
    fn find_in(&mut self, at: usize, now: Time, carrier: &Carrier, max: Option<usize>) -> Search {
        // Index of the present message, and bytes of the flow's messages in front of it.
        let Some((mut index, mut before)) = self.first_that_may_spill(at, now, carrier) else {
            return Search::Nothing;
        };
        loop {
            let Some(flow) = self.turns.get(at).and_then(|key| self.flows.get(key)) else {
                return Search::Nothing;
            };
            let Some(entry) = flow.entries.get(index) else { return Search::Nothing };
            let is_too_large = max.is_none_or(|max| entry.message.len() > max);
            let is_too_old = entry.expires.is_some_and(|expires| now >= expires);
            if !is_too_old && !carrier.carries(entry.route) {
                before += entry.cost();
                index += 1;
            } else if is_too_old || is_too_large {
                let last = flow.entries.len() == 1;
                self.take((at, index));
                match is_too_old {
                    true => self.drops.expired += 1,
                    false => self.drops.dropped += 1,
                }
                if last {
                    return Search::Emptied;
                }
            } else if self.waits(now, entry, (flow, before), carrier) {
                before += entry.cost();
                index += 1;
            } else {
                return Search::Found(index, entry.message.len());
            }
        }
    }

    /// Returns an index from which the search in the flow at index `at` of the turns may begin, and the bytes of the flow's
    /// messages in front of it; `None` if all messages wait for a faster path. A flow may have thousands of messages, of which all
    /// but the last ones wait.
    fn first_that_may_spill(&self, at: usize, now: Time, carrier: &Carrier) -> Option<(usize, usize)> {
        let flow = self.turns.get(at).and_then(|key| self.flows.get(key))?;
        let (first, last) = (flow.entries.front()?, flow.entries.back()?);
        let is_too_old = first.expires.is_some_and(|expires| now >= expires);
        // The first message is the oldest one, so if it waits, the others wait until there is too much in front of them.
        if self.routed > 0 || is_too_old || !self.waits(now, first, (flow, 0), carrier) {
            return Some((0, 0));
        }
        let mut before = flow.bytes - last.cost();
        if self.waits(now, last, (flow, before), carrier) {
            return None;
        }
        let mut index = flow.entries.len() - 1;
        for earlier in flow.entries.iter().rev().skip(1) {
            let front = before - earlier.cost();
            if self.waits(now, earlier, (flow, front), carrier) {
                break;
            }
            (index, before) = (index - 1, front);
        }
        Some((index, before))
    }

    /// Returns whether a message arrives earlier if it waits for a faster path. `before` is the number of bytes of its flow in
    /// front of it.
    fn waits(&self, now: Time, entry: &Entry, (flow, before): (&Flow, usize), carrier: &Carrier) -> bool {
        let Some(since) = entry.since else { return false };
        // Other flows send in their turns meanwhile.
        let others = self.bytes - flow.bytes;
        let ahead = before + others.min((before + QUANTUM) * (self.flows.len() - 1));
        let patience = carrier.patience;
        let limit = if entry.is_ordered { patience.ordered } else { patience.ahead };
        (ahead as u64) < limit && now - since < patience.time
    }

    /// Returns the message at a place.
    pub(super) fn get(&self, (at, index): Place) -> Option<&Bytes> {
        let flow = self.turns.get(at).and_then(|key| self.flows.get(key))?;
        flow.entries.get(index).map(|entry| &entry.message)
    }

    /// Records that the message at a place was sent on the carrier's path. If it has to be copied and another path works, it
    /// stays queued for other paths as its copy. Otherwise it is removed.
    pub(super) fn on_sent(&mut self, now: Time, (at, index): Place, carrier: &Carrier) {
        let Some(flow) = self.turns.get(at).and_then(|key| self.flows.get_mut(key)) else { return };
        let Some(entry) = flow.entries.get_mut(index) else { return };
        flow.credit = flow.credit.saturating_sub(entry.message.len());
        if entry.is_copied && carrier.working.iter().any(|path| *path != carrier.path) {
            let latest = now + MAX_COPY_WAIT;
            entry.is_copied = false;
            entry.route = Route::Avoid(carrier.path);
            entry.since = None;
            entry.expires = Some(entry.expires.map_or(latest, |expires| expires.min(latest)));
        } else {
            self.take((at, index));
        }
    }

    /// Removes and returns the message at a place.
    pub(super) fn take(&mut self, (at, index): Place) -> Option<Bytes> {
        let key = *self.turns.get(at)?;
        let flow = self.flows.get_mut(&key)?;
        let entry = flow.entries.remove(index)?;
        flow.bytes -= entry.cost();
        self.bytes -= entry.cost();
        self.routed -= usize::from(entry.is_routed());
        if flow.entries.is_empty() {
            self.flows.remove(&key);
            self.turns.remove(at);
        }
        if self.turns.is_empty() {
            // An idle connection keeps no memory allocated.
            self.turns = VecDeque::new();
        }
        Some(entry.message)
    }
}

/// Result of the search in one flow.
enum Search {
    /// Index in the flow, and length, of the next message.
    Found(usize, usize),
    /// None of the flow's messages can be carried now.
    Nothing,
    /// All of the flow's messages were dropped, and the flow was removed.
    Emptied,
}
