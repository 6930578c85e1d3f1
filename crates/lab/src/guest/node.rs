//! A host of the simulation that runs a guest.

use std::net::SocketAddr;

use anabranch_guest::{Datagram, MAX_DATAGRAMS, Progress, Step};
use anabranch_wire::{Ecn, Time};

use super::Guest;
use crate::network::{HostId, Network};
use crate::packet::Packet;

/// Maximum number of steps and sent datagrams of a guest within a simulated millisecond. The fastest path
/// that a plan can have carries 83,000 full datagrams in that time.
pub const MAX_PER_MS: usize = 1 << 19;

/// Host that drives a guest and checks all of its answers.
pub struct GuestNode {
    host: HostId,
    guest: Box<dyn Guest>,
    /// Pairs of addresses between which the guest may send, its own address first.
    paths: Vec<(SocketAddr, SocketAddr)>,
    /// Number of the next step.
    number: u64,
    /// State that the guest reported in its last answer.
    progress: Progress,
    /// The current millisecond, and the sum of the steps and the sent datagrams in it.
    pace: (u64, usize),
    connected: Option<Time>,
    done: Option<Time>,
    failure: Option<String>,
}

impl GuestNode {
    pub(crate) fn new(host: HostId, guest: Box<dyn Guest>, paths: Vec<(SocketAddr, SocketAddr)>) -> Self {
        Self {
            host,
            guest,
            paths,
            number: 0,
            progress: Progress::default(),
            pace: (0, 0),
            connected: None,
            done: None,
            failure: None,
        }
    }

    /// Returns the state that the guest reported in its last answer.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Returns the time at which the guest's handshake was complete.
    pub fn connected(&self) -> Option<Time> {
        self.connected
    }

    /// Returns the time at which the guest's work was done.
    pub fn done(&self) -> Option<Time> {
        self.done
    }

    /// Returns the reason for the guest's failure, after which it takes no further steps; `None` if it has
    /// not failed.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Passes the packets that arrive to the guest, in steps of at most [`MAX_DATAGRAMS`]. `packets` is empty
    /// if the guest's deadline is reached.
    pub(crate) fn step(&mut self, now: Time, packets: &[Packet], network: &mut Network) {
        let rest = packets.split_at(packets.len().min(MAX_DATAGRAMS)).1;
        let first = &packets[..packets.len() - rest.len()];
        for some in core::iter::once(first).chain(rest.chunks(MAX_DATAGRAMS)) {
            if self.failure.is_some() {
                return;
            }
            if let Err(failure) = self.ask(now, some, network) {
                self.failure = Some(failure);
            }
        }
    }

    fn ask(&mut self, now: Time, packets: &[Packet], network: &mut Network) -> Result<(), String> {
        let datagrams = packets.iter().map(arriving).collect();
        let answer = self.guest.step(&Step { number: self.number, now: now.as_nanos(), datagrams })?;
        self.number += 1;
        let ms = now.as_nanos() / 1_000_000;
        if self.pace.0 != ms {
            self.pace = (ms, 0);
        }
        self.pace.1 += 1 + answer.datagrams.len();
        if self.pace.1 > MAX_PER_MS {
            return Err(format!(
                "takes no rest: more than {MAX_PER_MS} steps and datagrams in a millisecond"
            ));
        }
        for sent in &answer.datagrams {
            if !self.paths.contains(&(sent.local, sent.remote)) {
                let (local, remote) = (sent.local, sent.remote);
                return Err(format!("sent a datagram from {local} to {remote}, which is none of its paths"));
            }
            let tuple = (sent.local, sent.remote);
            network.send(now, self.host, tuple, Ecn::from_bits(sent.ecn), sent.payload);
        }
        let progress = answer.progress;
        if let Some(reason) = progress.failure {
            return Err(format!("gave up: {}", reason.lines().next().unwrap_or_default()));
        }
        if progress.delivered < self.progress.delivered {
            return Err(format!(
                "has received {} bytes after {}",
                progress.delivered, self.progress.delivered
            ));
        }
        if let Some(deadline) = progress.deadline {
            if deadline < now.as_nanos() {
                return Err(format!("gave a deadline in the past: {deadline} ns at {} ns", now.as_nanos()));
            }
            network.wake(self.host, Time::from_nanos(deadline));
        }
        if progress.connected {
            self.connected.get_or_insert(now);
        }
        if progress.done {
            self.done.get_or_insert(now);
        }
        self.progress = progress;
        Ok(())
    }
}

fn arriving(packet: &Packet) -> Datagram<'_> {
    Datagram {
        local: packet.destination,
        remote: packet.source,
        ecn: packet.ecn.map_or(0, |ecn| ecn as u8),
        payload: &packet.payload,
    }
}
