//! Fingerprint of all events of a run, used to compare two runs.

use std::hash::Hasher;

use anabranch_wire::Time;
use siphasher::sip::SipHasher13;

/// Kinds of events in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A host sent a datagram.
    Sent,
    /// A datagram arrived.
    Arrived,
    /// A host sent a datagram without a link to its destination.
    Dropped,
    /// A host was woken at its deadline.
    Woken,
    /// An application received an event of a connection.
    Application,
}

/// Hash over all events so far. It covers sizes, times and hosts, but not the contents of packets, because a
/// comparison must not depend on ciphertext.
#[derive(Clone, Debug)]
pub struct Trace {
    /// Hash of the events of packets and deadlines.
    hasher: SipHasher13,
    /// Hash of the events that applications receive.
    applications: SipHasher13,
    events: u64,
}

impl Default for Trace {
    fn default() -> Self {
        Self { hasher: SipHasher13::new(), applications: SipHasher13::new(), events: 0 }
    }
}

impl Trace {
    /// Adds an event at `place` (the index of a host) with a `value` (a size or an identifier).
    pub fn record(&mut self, at: Time, kind: Kind, place: usize, value: u64) {
        let hasher = match kind {
            Kind::Application => &mut self.applications,
            _ => &mut self.hasher,
        };
        hasher.write_u64(at.as_nanos());
        hasher.write_u64((kind as u64) << 56 | place as u64);
        hasher.write_u64(value);
        self.events += 1;
    }

    /// Returns a fingerprint of all events so far.
    pub fn hash(&self) -> u64 {
        let mut both = self.hasher;
        both.write_u64(self.applications.finish());
        both.finish()
    }

    /// Returns a fingerprint of all packets and deadlines so far, without the events of applications, which
    /// guests do not report.
    pub fn packets_hash(&self) -> u64 {
        self.hasher.finish()
    }

    /// Returns the number of events so far.
    pub fn events(&self) -> u64 {
        self.events
    }
}
