//! What is known about whether a path works.
//!
//! A path works if packets that ask for an acknowledgment get one. What else comes on it does not count: it says nothing
//! about the way there. How long a path may owe an answer is the probe timeout's business (RFC 9002 §6.2.1); here it counts
//! from the *oldest* packet without one. A sender that goes on sending would put a timer that counts from the newest one
//! off again and again, and one that counts from the last acknowledgment grants the path a round trip more than it needs.

use std::time::Duration;

use anabranch_wire::{PathId, Time};

use super::state::PathState;

/// What part of a probe timeout a path has to be quiet before it can be called silent.
const QUIET_PART: u32 = 4;

/// Shortest time without packets that is called quiet: links that carry bursts, as Wi-Fi does, pause between them.
const MIN_QUIET: Duration = Duration::from_millis(10);
/// Least time that packets of the peer put off what is overdue: so much a queue may grow between two measurements.
const PATIENCE: Duration = Duration::from_millis(120);

/// One path's health, kept by connections that have several paths.
#[derive(Debug)]
pub(crate) struct Health {
    /// The path.
    pub(crate) path: PathId,
    /// When the path was last heard of.
    heard: Time,
    /// When it last gave a sign of life: an acknowledgment of its own packets, or a packet that asks for one.
    lived: Time,
    /// Since when an acknowledgment is owed: when the oldest packet left that has none and asks for one.
    asked: Option<Time>,
    /// When the path last began to work. What left before says nothing about it since.
    works_since: Time,
    /// When the path began to fail; of no meaning while it does not.
    pub(crate) failing_since: Time,
    /// Since when an answer was owed when the path began to fail.
    silent_since: Option<Time>,
    /// Packets below this order have been sent again on other paths: their loss means nothing more.
    pub(crate) moved: u64,
    /// What the application wants the path for; while it fails the peer is told otherwise.
    pub(crate) wanted: bool,
    /// The state that the application knows of.
    pub(crate) reported: PathState,
    /// When a path without traffic was last looked after.
    looked_after: Time,
    /// The connection's traffic at that time.
    traffic: u64,
    /// When the last PING left that was to keep the path alive.
    pinged: Time,
}

impl Health {
    /// A path that has just answered.
    pub(crate) fn new(path: PathId, now: Time) -> Self {
        Self {
            path,
            heard: now,
            lived: now,
            asked: None,
            works_since: now,
            failing_since: now,
            silent_since: None,
            moved: 0,
            wanted: true,
            reported: PathState::Open,
            looked_after: now,
            traffic: 0,
            pinged: now,
        }
    }

    /// Something came on the path.
    pub(crate) fn on_heard(&mut self, now: Time) {
        self.heard = now;
    }

    /// A packet that asks for an acknowledgment came on the path.
    pub(crate) fn on_lives(&mut self, now: Time) {
        self.lived = now;
    }

    /// Packets were acknowledged; `oldest` is when the oldest of those left that are still under way.
    pub(crate) fn on_acked(&mut self, now: Time, oldest: Option<Time>) {
        self.heard = now;
        self.lived = now;
        self.asked = oldest.map(|oldest| oldest.max(self.works_since));
    }

    /// The peer has answered on addresses that were being validated. What it owes is owed since now: challenges before this
    /// one may have left while nothing got through.
    pub(crate) fn on_validated(&mut self, now: Time) {
        (self.heard, self.lived, self.works_since) = (now, now, now);
        self.asked = self.asked.map(|_| now);
    }

    /// A path that was failing has answered.
    pub(crate) fn on_works_again(&mut self, now: Time) {
        (self.heard, self.lived, self.works_since) = (now, now, now);
        self.asked = None;
    }

    /// A packet left that asks for an answer.
    pub(crate) fn on_asked(&mut self, now: Time) {
        self.asked.get_or_insert(now);
    }

    /// The path begins to fail.
    pub(crate) fn on_failing(&mut self, now: Time) {
        self.failing_since = now;
        self.silent_since = self.asked;
    }

    /// Since when an answer was owed when the path last began to fail.
    pub(crate) fn silent_since(&self) -> Option<Time> {
        self.silent_since
    }

    /// Since when an answer is owed.
    pub(crate) fn asked(&self) -> Option<Time> {
        self.asked
    }

    /// When the path will have owed an acknowledgment for too long: after `pto`, or up to twice that, [`PATIENCE`] at least, as long as
    /// packets come on it that ask for acknowledgments: a peer that has none of its own stops to send them. An end that mostly receives measures the path so rarely that it notices late how a queue has grown.
    pub(crate) fn silent_at(&self, pto: Duration) -> Option<Time> {
        let due = self.asked? + pto;
        Some(due.max(self.lived + (pto / QUIET_PART).max(MIN_QUIET)).min(due + pto.max(PATIENCE)))
    }

    /// Whether the path can be believed to work in comparison with one that was asked at `asked` and is called silent at
    /// `deadline`: it has nothing to answer, or has been heard of since, or was asked less than a round trip
    /// (`rtt`) before the deadline. If both are silent for as long, it is the peer or the network behind both that is, and moving data from one
    /// to the other would not help.
    pub(crate) fn outlives(&self, asked: Time, deadline: Time, rtt: Duration) -> bool {
        self.asked.is_none_or(|own| self.lived >= asked || deadline < own + rtt)
    }

    /// When the path should be asked for a sign of life, if it goes on without traffic for `timeout`.
    pub(crate) fn look_after(&self, timeout: Duration) -> Time {
        self.heard.max(self.looked_after) + timeout
    }

    /// That time has come. Says whether the connection has been in use since the last time, going by its `traffic` so far:
    /// one that is idle is not kept alive by its paths' asking one another.
    pub(crate) fn on_looked_after(&mut self, now: Time, traffic: u64) -> bool {
        self.looked_after = now;
        std::mem::replace(&mut self.traffic, traffic) != traffic
    }

    /// When a PING is to keep the path alive.
    pub(crate) fn keep_alive(&self, interval: Duration) -> Time {
        self.heard.max(self.pinged) + interval
    }

    /// That PING leaves.
    pub(crate) fn on_keep_alive(&mut self, now: Time) {
        self.pinged = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn the_oldest_unanswered_packet_counts() {
        let mut health = Health::new(PathId(1), at(0));
        assert_eq!(health.asked(), None);
        health.on_asked(at(10));
        health.on_asked(at(20));
        assert_eq!(health.asked(), Some(at(10)));
        health.on_heard(at(25));
        assert_eq!(health.asked(), Some(at(10)), "no acknowledgment");
        health.on_acked(at(26), Some(at(20)));
        assert_eq!(health.asked(), Some(at(20)), "the rest is still owed");
        health.on_acked(at(27), None);
        assert_eq!(health.asked(), None);
        health.on_asked(at(30));
        assert_eq!(health.asked(), Some(at(30)));
    }

    #[test]
    fn what_left_before_a_validation_is_owed_since_the_validation() {
        let mut health = Health::new(PathId(1), at(0));
        health.on_asked(at(10));
        health.on_validated(at(2000));
        assert_eq!(health.asked(), Some(at(2000)));
        health.on_acked(at(2010), Some(at(500)));
        assert_eq!(health.asked(), Some(at(2000)), "a challenge from before is still under way");
        health.on_works_again(at(3000));
        assert_eq!(health.asked(), None);
        health.on_acked(at(3010), Some(at(2600)));
        assert_eq!(health.silent_at(ms(80)), Some(at(3080)));
    }

    #[test]
    fn a_path_that_the_peer_uses_gets_more_time() {
        let mut health = Health::new(PathId(1), at(0));
        assert_eq!(health.silent_at(ms(80)), None);
        health.on_asked(at(100));
        assert_eq!(health.silent_at(ms(80)), Some(at(180)));
        health.on_lives(at(150));
        assert_eq!(health.silent_at(ms(80)), Some(at(180)));
        health.on_heard(at(175));
        assert_eq!(health.silent_at(ms(80)), Some(at(180)), "nothing but an acknowledgment of other paths");
        health.on_lives(at(175));
        assert_eq!(health.silent_at(ms(80)), Some(at(195)));
        health.on_lives(at(250));
        assert_eq!(health.silent_at(ms(80)), Some(at(270)));
        health.on_lives(at(295));
        assert_eq!(health.silent_at(ms(80)), Some(at(300)), "no longer than that");
        assert_eq!(health.silent_at(ms(180)), Some(at(340)));
        health.on_lives(at(200));
        assert_eq!(health.silent_at(ms(8)), Some(at(210)), "a pause between two bursts");
    }

    #[test]
    fn a_path_that_is_as_silent_is_no_way_out() {
        // The one in question was asked at 10 and is silent until 70.
        let outlives = |other: &Health| other.outlives(at(10), at(70), ms(25));
        let mut other = Health::new(PathId(2), at(0));
        assert!(outlives(&other), "nothing to answer");
        other.on_asked(at(12));
        assert!(!outlives(&other), "owes an answer for as long");
        other.on_lives(at(13));
        assert!(outlives(&other), "has been heard of since");
        let mut other = Health::new(PathId(2), at(0));
        other.on_asked(at(50));
        assert!(outlives(&other), "could not have answered yet");
    }

    #[test]
    fn a_quiet_path_is_looked_after_while_the_connection_is_in_use() {
        let mut health = Health::new(PathId(1), at(0));
        assert_eq!(health.look_after(ms(100)), at(100));
        health.on_heard(at(50));
        assert_eq!(health.look_after(ms(100)), at(150));
        assert!(health.on_looked_after(at(150), 7));
        assert_eq!(health.look_after(ms(100)), at(250));
        assert!(!health.on_looked_after(at(250), 7), "no traffic since");
        assert!(health.on_looked_after(at(350), 8));
    }
}
