//! Plan of the paths that a connection should have, derived from a [`PathPolicy`], the interfaces, the
//! server's addresses and the results of earlier attempts. It uses no sockets and no clock.
//!
//! Every usable interface gets the number of paths that its rule names. Every address of the server gets at
//! least one. The policy's maximum limits the total. Failed attempts are repeated with exponential backoff.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anabranch_wire::{PathId, Time, TransportErrorCode, VarInt};

use super::allowed::reaches;
use super::attempt::PathAttempt;
use super::interface::Interface;
use super::policy::{PathPolicy, Usage};
use super::survey::Survey;
use super::{LocalAddress, PathStatus};

/// Time until the next attempt after the first failure of a path.
pub(super) const FIRST_BACKOFF: Duration = Duration::from_secs(1);
/// Maximum time until the next attempt.
pub(super) const MAX_BACKOFF: Duration = Duration::from_secs(64);
/// Lifetime of a path after which its earlier failures no longer count.
pub(super) const STABLE: Duration = Duration::from_secs(30);
/// Maximum number of interface addresses that are considered.
pub(super) const MAX_ADDRESSES: usize = 256;

/// Action that the plan requires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Command {
    /// Open a path. The caller reports the result with [`Plan::on_begun`] or [`Plan::on_failed`].
    Open { slot: u64, local: LocalAddress, remote: SocketAddr, status: PathStatus, weight: u32 },
    /// Abandon a path whose address is gone.
    Abandon(PathId),
}

/// A path that should exist.
#[derive(Clone, Debug)]
struct Slot {
    key: u64,
    local: IpAddr,
    interface: String,
    remote: SocketAddr,
    usage: Usage,
    state: State,
    /// Number of consecutive failed attempts.
    failures: u32,
    /// `true` once an interface has had the local address.
    seen: bool,
    /// Reason why the last attempt failed.
    error: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Path that is to be opened at this time.
    Waiting(Time),
    /// Path that is being opened. The ID is `None` until the core has assigned it.
    Opening(Option<PathId>),
    Open(PathId, Time),
    /// Path that an application has abandoned, so it is not opened again.
    Unwanted,
}

/// The paths of one connection.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    policy: PathPolicy,
    interfaces: Vec<Interface>,
    remotes: Vec<SocketAddr>,
    slots: Vec<Slot>,
    next_key: u64,
}

impl Plan {
    pub(super) fn new(policy: PathPolicy) -> Self {
        Self { policy, interfaces: Vec::new(), remotes: Vec::new(), slots: Vec::new(), next_key: 0 }
    }

    /// Records a path that the plan has not opened, or that has migrated.
    pub(super) fn adopt(&mut self, now: Time, id: PathId, local: IpAddr, remote: SocketAddr) {
        if !self.remotes.contains(&remote) {
            self.remotes.insert(0, remote);
        }
        let interface = self.interface_of(local);
        if let Some(slot) = self.slot_of(id) {
            (slot.local, slot.remote, slot.interface) = (local, remote, interface);
            return;
        }
        let usage = Usage::default();
        let key = self.take_key();
        let (state, failures) = (State::Open(id, now), 0);
        self.slots.push(Slot {
            key,
            local,
            interface,
            remote,
            usage,
            state,
            failures,
            seen: false,
            error: None,
        });
    }

    /// Sets the alternative addresses of the server. Returns the commands that abandon the paths whose remote
    /// address was withdrawn. The paths of new addresses become due; see [`Plan::due`].
    pub(super) fn set_alternatives(&mut self, now: Time, remotes: &[SocketAddr]) -> Vec<Command> {
        let mut gone = Vec::new();
        let first = self.slots.first().map(|slot| slot.remote);
        self.slots.retain(|slot| {
            let keep = Some(slot.remote) == first
                || remotes.contains(&slot.remote)
                || !self.remotes.contains(&slot.remote);
            if !keep {
                gone.extend(slot.path().map(Command::Abandon));
            }
            keep
        });
        self.remotes =
            first.into_iter().chain(remotes.iter().copied().filter(|other| Some(*other) != first)).collect();
        self.fill(now);
        gone
    }

    /// Sets the current interfaces. Returns the commands that abandon the paths whose local address is gone.
    /// The paths of new addresses become due; see [`Plan::due`].
    pub(super) fn on_interfaces(&mut self, now: Time, interfaces: Vec<Interface>) -> Vec<Command> {
        self.interfaces = interfaces;
        self.policy.add_loopback(&mut self.interfaces);
        let mut left = MAX_ADDRESSES;
        for interface in &mut self.interfaces {
            interface.addresses.truncate(left);
            left -= interface.addresses.len();
        }
        let mut gone = Vec::new();
        let interfaces = &self.interfaces;
        self.slots.retain_mut(|slot| {
            let found = interfaces.iter().find(|interface| interface.addresses.contains(&slot.local));
            if let Some(interface) = found {
                slot.seen = true;
                slot.interface.clone_from(&interface.name);
            }
            // The connection's first path may have an address that no interface lists.
            let keep = found.is_some() || !slot.seen;
            if !keep {
                gone.extend(slot.path().map(Command::Abandon));
            }
            keep
        });
        self.fill(now);
        gone
    }

    /// Records that a path is being opened.
    pub(super) fn on_begun(&mut self, slot: u64, id: PathId) {
        if let Some(slot) = self.slots.iter_mut().find(|other| other.key == slot) {
            slot.state = State::Opening(Some(id));
        }
    }

    /// Records that a path could not be opened because of `error`.
    pub(super) fn on_failed(&mut self, now: Time, slot: u64, error: String) {
        if let Some(slot) = self.slots.iter_mut().find(|other| other.key == slot) {
            slot.error = Some(error);
            slot.back_off(now);
        }
    }

    /// Records that the server has responded on a path.
    pub(super) fn on_opened(&mut self, now: Time, id: PathId) {
        if let Some(slot) = self.slot_of(id) {
            (slot.state, slot.error) = (State::Open(id, now), None);
        }
    }

    /// Returns the paths that should exist, and their states.
    pub(super) fn attempts(&self) -> Vec<PathAttempt> {
        let attempt = |slot: &Slot| PathAttempt {
            interface: slot.interface.clone(),
            local: slot.local,
            remote: slot.remote,
            is_open: matches!(slot.state, State::Open(..)),
            error: slot.error.clone(),
        };
        self.slots.iter().map(attempt).collect()
    }

    /// Returns the policy's survey of the last known interfaces.
    pub(super) fn survey(&self) -> Survey {
        self.policy.survey_of(&self.interfaces)
    }

    /// Records that a path was abandoned.
    pub(super) fn on_abandoned(&mut self, now: Time, id: PathId, code: VarInt) {
        let Some(slot) = self.slot_of(id) else { return };
        if matches!(slot.state, State::Open(_, since) if now >= since + STABLE) {
            slot.failures = 0;
        }
        if matches!(slot.state, State::Opening(_)) {
            slot.error = Some(match TransportErrorCode::from(code) {
                TransportErrorCode::PATH_UNSTABLE_OR_POOR => "the server does not answer".to_owned(),
                code => format!("refused with code {:#x}", code.0),
            });
        }
        match TransportErrorCode::from(code) {
            TransportErrorCode::APPLICATION_ABANDON_PATH => slot.state = State::Unwanted,
            TransportErrorCode::PATH_RESOURCE_LIMIT_REACHED => slot.state = State::Waiting(now + MAX_BACKOFF),
            _ => slot.back_off(now),
        }
    }

    /// Returns the commands that are due.
    pub(super) fn due(&mut self, now: Time) -> Vec<Command> {
        let due =
            self.slots.iter_mut().filter(|slot| matches!(slot.state, State::Waiting(until) if until <= now));
        let strict = !self.policy.allow.is_empty();
        due.map(|slot| {
            slot.state = State::Opening(None);
            let mut local = LocalAddress::from(slot.local).on_interface(slot.interface.clone());
            local.strict = strict;
            let Usage { status, weight, .. } = slot.usage;
            Command::Open { slot: slot.key, local, remote: slot.remote, status, weight }
        })
        .collect()
    }

    /// Returns the time at which the next command is due.
    pub(super) fn next(&self) -> Option<Time> {
        let waiting = self.slots.iter().filter_map(|slot| match slot.state {
            State::Waiting(until) => Some(until),
            _ => None,
        });
        waiting.min()
    }

    /// Adds the missing paths.
    fn fill(&mut self, now: Time) {
        let mut usable = self.policy.usable(&self.interfaces);
        usable.sort_by_key(|origin| origin.usage.rank);
        let named: Vec<IpAddr> = usable
            .iter()
            .filter(|origin| origin.usage.named)
            .flat_map(|origin| origin.addresses.clone())
            .collect();
        // Every interface gets its paths, and so does every address that a rule names individually.
        for origin in &usable {
            let is_of = |slot: &&Slot| match origin.usage.named {
                true => origin.addresses.contains(&slot.local),
                false => slot.interface == origin.interface && !named.contains(&slot.local),
            };
            while self.slots.iter().filter(is_of).count() < origin.usage.count {
                let Some((local, remote)) = self.best_pair(&origin.addresses) else { break };
                if !self.add(now, &origin.interface, local, remote, origin.usage) {
                    return;
                }
            }
        }
        // Every address of the server gets a path.
        for remote in self.remotes.clone() {
            if self.slots.iter().any(|slot| slot.remote == remote) {
                continue;
            }
            let able = usable.iter().filter_map(|origin| {
                let local = origin.addresses.iter().find(|local| reaches(**local, remote))?;
                let used = self.slots.iter().filter(|slot| slot.interface == origin.interface).count();
                Some((used, origin.interface.clone(), *local, origin.usage))
            });
            let best = able
                .min_by_key(|(used, ..)| *used)
                .map(|(_, interface, local, usage)| (interface, local, usage));
            if let Some((interface, local, usage)) = best.or_else(|| self.where_it_began(remote))
                && !self.add(now, &interface, local, remote, usage)
            {
                return;
            }
        }
    }

    /// Returns the loopback address at which the connection began, for a further address of a server on this host, which is reached
    /// from nowhere else. Returns `None` for other connections, before the interfaces are known, and if the policy has rules that
    /// exclude the address.
    fn where_it_began(&self, remote: SocketAddr) -> Option<(String, IpAddr, Usage)> {
        let first = self.slots.first().filter(|first| first.seen && first.local.is_loopback())?;
        let is_free = self.policy.leaves_choice(&first.interface, first.local);
        (is_free && reaches(first.local, remote)).then(|| (first.interface.clone(), first.local, first.usage))
    }

    /// Returns the server address with the fewest paths among those that one of `locals` can reach, together
    /// with that local address.
    fn best_pair(&self, locals: &[IpAddr]) -> Option<(IpAddr, SocketAddr)> {
        let pairs = self
            .remotes
            .iter()
            .filter_map(|remote| Some((*locals.iter().find(|local| reaches(**local, *remote))?, *remote)));
        pairs.min_by_key(|(_, remote)| self.slots.iter().filter(|slot| slot.remote == *remote).count())
    }

    fn add(&mut self, now: Time, interface: &str, local: IpAddr, remote: SocketAddr, usage: Usage) -> bool {
        if self.slots.len() >= self.policy.max_paths {
            return false;
        }
        let key = self.take_key();
        let interface = interface.to_owned();
        let state = State::Waiting(now);
        self.slots.push(Slot {
            key,
            local,
            interface,
            remote,
            usage,
            state,
            failures: 0,
            seen: true,
            error: None,
        });
        true
    }

    fn take_key(&mut self) -> u64 {
        self.next_key += 1;
        self.next_key
    }

    fn interface_of(&self, local: IpAddr) -> String {
        let found = self.interfaces.iter().find(|interface| interface.addresses.contains(&local));
        found.map(|interface| interface.name.clone()).unwrap_or_default()
    }

    fn slot_of(&mut self, id: PathId) -> Option<&mut Slot> {
        self.slots.iter_mut().find(|slot| slot.path() == Some(id))
    }
}

impl Slot {
    fn path(&self) -> Option<PathId> {
        match self.state {
            State::Opening(id) => id,
            State::Open(id, _) => Some(id),
            State::Waiting(_) | State::Unwanted => None,
        }
    }

    fn back_off(&mut self, now: Time) {
        let wait = FIRST_BACKOFF.saturating_mul(1 << self.failures.min(10)).min(MAX_BACKOFF);
        self.failures += 1;
        self.state = State::Waiting(now + wait);
    }
}

#[cfg(test)]
mod tests;
