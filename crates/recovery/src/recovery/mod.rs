//! Recovery of one path, which combines the crate's other modules.

mod acked;
mod expired;
mod losses;
mod rest;
mod shared;
mod short;
mod spaces;

use core::ops::Range;
use core::time::Duration;

use anabranch_wire::{SpaceId, Time};

use self::losses::Scan;
use self::short::Delivery;
pub use self::short::QueueLimit;
use self::spaces::Spaces;
use crate::config::Config;
use crate::congestion::{Congestion, Controller, Departure, Sibling, Start, State};
use crate::ecn::{Ecn, EcnState};
use crate::mtu::Discovery;
use crate::outcome::{Permit, Progress, Stats};
use crate::pacer::{Pacer, rate_of};
use crate::persistent::LossRun;
use crate::rate::{Sampler, Snapshot};
use crate::reordering::Reordering;
use crate::rtt::Rtt;
use crate::sent::{Packet, Sent};
use crate::timer::{SpaceTimes, Timer};

/// Maximum number of restarts of congestion control, by migrations most of all, for which the packets sent before are tracked. Those of
/// earlier ones are declared lost.
pub(crate) const MAX_MOVES: usize = 4;

/// Loss recovery and congestion control of one path. `T` records the frames of a packet.
#[derive(Debug)]
pub struct Recovery<T> {
    config: Config,
    rtt: Rtt,
    timer: Timer,
    spaces: Spaces<T>,
    times: [SpaceTimes; 3],
    bytes_in_flight: u64,
    congestion: Congestion,
    epoch: Epoch,
    pacer: Pacer,
    sampler: Sampler,
    delivery: Delivery,
    reordering: Reordering,
    ecn: Ecn,
    mtu: Discovery,
    /// `true` if the sender had no more data to send although the window had room (RFC 9002 §7.8).
    app_limited: bool,
    /// Time until which the window does not grow.
    held_until: Time,
    /// Bytes acknowledged since the last congestion event, and between the last two congestion events.
    bytes_since_loss: u64,
    bytes_between_losses: u64,
    /// State for rules of loss detection other than RFC 9002's.
    scan: Option<Box<Scan>>,
    stats: Stats,
}

/// Period from one congestion event to the next (RFC 9002 §7.3.2).
#[derive(Clone, Copy, Debug, Default)]
struct Epoch {
    /// Number of the epoch; 0 before the first congestion event.
    id: u32,
    /// Losses of packets sent at or before this time belong to the event.
    start: Option<Time>,
    /// Losses of the event that have not proved spurious.
    lost: u64,
    /// `true` if CE marks contributed to the event, which then cannot be undone.
    ce: bool,
}

impl<T: Clone> Recovery<T> {
    /// Creates the recovery of a path that is opened at `now`.
    pub fn new(config: &Config, now: Time) -> Self {
        let mtu = Discovery::new(&config.mtu);
        Self {
            rtt: Rtt::new(config.initial_rtt),
            timer: Timer {
                progress: Progress::default(),
                peer_max_ack_delay: Duration::from_millis(25), // RFC 9000 §18.2, the default
                amplification_blocked: false,
                pto_count: 0,
                touched: now,
            },
            spaces: Spaces::new(),
            times: [SpaceTimes::default(); 3],
            bytes_in_flight: 0,
            congestion: start_congestion(config, mtu.current(), now),
            epoch: Epoch::default(),
            pacer: Pacer::new(config.pacing, config.pacing_burst, now),
            sampler: Sampler::default(),
            delivery: Delivery::default(),
            reordering: Reordering::new(config.packet_threshold, config.time_threshold),
            ecn: Ecn::new(config.ecn),
            app_limited: false,
            held_until: now,
            bytes_since_loss: 0,
            bytes_between_losses: 0,
            scan: config.loss_delay.needs_scan().then(Box::default),
            stats: Stats { mtu: mtu.current(), ..Stats::default() },
            mtu,
            config: config.clone(),
        }
    }

    /// Returns the round-trip time.
    pub fn rtt(&self) -> &Rtt {
        &self.rtt
    }

    /// Adds a round-trip time sample without acknowledgment delay, for example from PATH_CHALLENGE and
    /// PATH_RESPONSE.
    pub fn on_round_trip(&mut self, now: Time, sample: Duration) {
        self.rtt.update(now, sample, Duration::ZERO);
    }

    /// Sets the peer's `max_ack_delay` (RFC 9000 §18.2).
    pub fn set_peer_max_ack_delay(&mut self, delay: Duration) {
        self.timer.peer_max_ack_delay = delay;
        if let Some(scan) = &mut self.scan {
            scan.max_ack_delay = delay;
        }
    }

    /// Sets the time for which the peer was asked to delay ACKs (draft-ietf-quic-ack-frequency §4), if it is
    /// longer than the peer's `max_ack_delay`. The probe timeout then includes it.
    pub fn allow_ack_delay(&mut self, delay: Duration) {
        self.timer.peer_max_ack_delay = self.timer.peer_max_ack_delay.max(delay);
    }

    /// Sets the peer's `max_udp_payload_size` (RFC 9000 §18.2), which bounds the MTU.
    pub fn set_peer_max_udp_payload(&mut self, size: u16) {
        self.mtu.limit(size);
        self.stats.mtu = self.mtu.current();
    }

    /// Sets the progress of the handshake.
    pub fn set_progress(&mut self, progress: Progress) {
        self.timer.progress = progress;
    }

    /// Sets whether the anti-amplification limit blocks sending (RFC 9000 §8).
    pub fn amplification_blocked(&mut self, blocked: bool) {
        self.timer.amplification_blocked = blocked;
    }

    /// Returns the congestion window in bytes.
    pub fn window(&self) -> u64 {
        self.congestion.window()
    }

    /// Returns the bytes in flight (RFC 9002 §2).
    pub fn bytes_in_flight(&self) -> u64 {
        self.bytes_in_flight
    }

    /// Returns the maximum UDP payload of packets in bytes. MTU probes may be larger.
    pub fn mtu(&self) -> u16 {
        self.mtu.current()
    }

    /// Returns the congestion controller.
    pub fn congestion(&self) -> &Congestion {
        &self.congestion
    }

    /// Returns the state of this path for the coupled controllers of other paths.
    pub fn sibling(&self) -> Sibling {
        Sibling {
            window: self.congestion.window(),
            smoothed_rtt: self.rtt.smoothed(),
            mtu: self.mtu.current(),
            bytes_since_loss: self.bytes_since_loss,
            bytes_between_losses: self.bytes_between_losses,
        }
    }

    /// Stops the window's growth for one round trip and paces at one window per round trip. Callers use this
    /// for packets whose loss would cost more than a later search for bandwidth: slow start cannot overflow
    /// the queue meanwhile.
    pub fn hold(&mut self, now: Time) {
        self.held_until = now + self.rtt.smoothed();
    }

    /// Returns whether the window's growth is stopped.
    pub(super) fn is_held(&self, now: Time) -> bool {
        now < self.held_until
    }

    /// Returns the pacing rate in bytes per second.
    pub fn pacing_rate(&self) -> u64 {
        self.congestion.pacing_rate().unwrap_or_else(|| {
            let gain = &self.config.pacing_gain;
            let factor = match self.congestion.state() {
                _ if self.is_held(self.timer.touched) => (1, 1),
                State::SlowStart | State::ConservativeSlowStart => gain.slow_start,
                _ => gain.otherwise,
            };
            let factor = (factor.0.into(), factor.1.max(1).into());
            rate_of(self.congestion.window(), self.rtt.smoothed(), factor)
        })
    }

    /// Returns the number of bytes that may be sent now. PTO probes and packets that do not count towards
    /// bytes in flight need no permission.
    pub fn permit(&mut self, now: Time) -> Permit {
        let mtu = u64::from(self.mtu.current());
        let room = self.usable_window().saturating_sub(self.bytes_in_flight);
        if room < mtu {
            return Permit::Window;
        }
        if let Some(budget) = self.pacer.at_hand(now, mtu) {
            return Permit::Bytes(room.min(budget));
        }
        let rate = self.pacing_rate();
        match self.pacer.budget(now, rate, self.congestion.window(), mtu) {
            Ok(budget) => Permit::Bytes(room.min(budget)),
            Err(until) => Permit::Wait(until),
        }
    }

    /// Returns whether the congestion window has room for a packet. Pacing is not considered.
    pub fn has_room(&self) -> bool {
        self.usable_window() >= self.bytes_in_flight + u64::from(self.mtu.current())
    }

    /// Returns the window, but at least two packets of the current MTU (RFC 9002 §7.2). The window may have
    /// been reduced before a larger MTU was found.
    fn usable_window(&self) -> u64 {
        self.congestion.window().max(2 * u64::from(self.mtu.current()))
    }

    /// Records that pacing or the congestion window limits the sender, so that it makes full use of the path
    /// (RFC 9002 §7.8).
    pub fn network_limited(&mut self) {
        self.app_limited = false;
    }

    /// Returns the number of PTO probes still to be sent in `space`. They may be sent regardless of the
    /// window. Each ack-eliciting packet sent in `space` counts as one.
    pub fn probes(&self, space: SpaceId) -> u32 {
        self.spaces.get(space).map_or(0, |space| space.probes)
    }

    /// Records that the sender has no more data to send on this path although [`Self::permit`] allows it.
    pub fn app_limited(&mut self, _now: Time) {
        if self.bytes_in_flight + u64::from(self.mtu.current()) <= self.congestion.window() {
            self.app_limited = true;
            self.sampler.on_app_limited(self.bytes_in_flight);
        }
    }

    /// Returns whether the next packet is marked with ECT(0).
    pub fn ecn_mark(&self) -> bool {
        // RFC 9000 §13.4.2: the network may drop packets because of their marks, so probes of a path without
        // validated ECN are not marked.
        self.ecn.marks() && (self.timer.pto_count == 0 || self.ecn.state() == EcnState::Capable)
    }

    /// Returns the state of ECN on the path.
    pub fn ecn_state(&self) -> EcnState {
        self.ecn.state()
    }

    /// Returns the order that follows that of the newest packet sent in `space`.
    pub fn next_order(&self, space: SpaceId) -> u64 {
        self.spaces.get(space).map_or(0, |space| space.sent.next())
    }

    /// Records a sent packet. Its order is at least [`Self::next_order`]; the orders in between are skipped
    /// and never used. Packets that do not count towards bytes in flight are tracked only up to a limit
    /// ([`crate::MAX_QUIET_TRACKED`]). Beyond it they are reported neither as acknowledged nor as lost.
    pub fn on_sent(&mut self, space: SpaceId, order: u64, sent: Sent<T>) {
        let now = sent.time;
        let size = u64::from(sent.size);
        self.timer.touched = self.timer.touched.max(now);
        self.stats.sent_packets += 1;
        self.stats.sent_bytes += size;
        if sent.ect {
            self.ecn.on_sent(now, space, self.rtt.pto_base());
        }
        if sent.mtu_probe {
            self.mtu.on_probe_sent();
            self.stats.mtu_probes += 1;
        }
        if sent.ack_eliciting {
            let times = &mut self.times[space as usize];
            times.last_eliciting = times.last_eliciting.max(now);
            times.eliciting += 1;
            let probes = &mut self.spaces.get_mut(space).probes;
            *probes = probes.saturating_sub(1);
        }
        let counted = sent.in_flight;
        let mut snapshot = Snapshot::default();
        if counted {
            let in_flight = self.bytes_in_flight;
            self.congestion.on_sent(&Departure {
                now,
                bytes: size,
                in_flight,
                app_limited: self.sampler.is_app_limited(),
                delivered: self.sampler.delivered(),
            });
            snapshot = self.sampler.on_sent(now, size, in_flight);
            self.bytes_in_flight += size;
            self.pacer.on_sent(size);
            if self.bytes_in_flight + u64::from(self.mtu.current()) > self.congestion.window() {
                self.app_limited = false;
            }
        }
        self.make_room(space);
        self.spaces.get_mut(space).sent.push(order, Packet { sent, snapshot, counted });
    }

    /// Keeps the list of sent packets within its limit by removing the oldest packet.
    fn make_room(&mut self, space: SpaceId) {
        let space = self.spaces.get_mut(space);
        if space.sent.is_full()
            && let Some((order, packet)) = space.sent.pop()
        {
            space.sent.compact();
            if packet.sent.in_flight {
                space.evicted.push((order, packet));
            }
        }
    }

    /// Returns the number of ack-eliciting packets of `space` that are neither acknowledged nor lost.
    pub fn asking(&self, space: SpaceId) -> u64 {
        self.times[space as usize].eliciting
    }

    /// Returns the packets of `space` that are neither acknowledged nor lost, oldest first. A PTO probe
    /// should carry their frames.
    pub fn unacked(&self, space: SpaceId) -> impl Iterator<Item = &Sent<T>> {
        self.spaces.get(space).into_iter().flat_map(|space| space.sent.iter()).map(|packet| &packet.sent)
    }

    /// Returns the packets of `space` within `orders` that are neither acknowledged nor lost, with their
    /// orders, oldest first.
    pub fn under_way(
        &self,
        space: SpaceId,
        orders: Range<u64>,
    ) -> impl DoubleEndedIterator<Item = (u64, &Sent<T>)> {
        let sent = self.spaces.get(space).map(|space| space.sent.range(orders));
        sent.into_iter().flatten().map(|(order, packet)| (order, &packet.sent))
    }

    /// Restarts all measurements after a migration (RFC 9000 §9.4). Packets sent before are still reported as
    /// acknowledged or lost, but have no effect on the measurements.
    pub fn migrate(&mut self, now: Time) {
        self.rtt = Rtt::new(self.config.initial_rtt);
        self.mtu.migrate();
        self.stats.mtu = self.mtu.current();
        self.ecn.restart(self.config.ecn);
        self.start_over(now);
    }

    /// Restarts congestion control when a path works again after an outage longer than the period of
    /// persistent congestion (RFC 9002 §7.6). The controller's state is obsolete, and the losses of the
    /// outage do not indicate congestion. The path starts like a new one, but keeps its packet size and
    /// round-trip time. The minimum round-trip time is measured anew (§5.2).
    pub fn resume(&mut self, now: Time) {
        self.rtt.forget_min();
        self.start_over(now);
    }

    /// Returns the minimum duration of an outage after which [`Self::resume`] is called (RFC 9002 §7.6.1).
    pub fn outage(&self) -> Duration {
        LossRun::duration(&self.rtt, self.timer.peer_max_ack_delay)
    }

    /// Restarts congestion control. Packets sent before no longer count towards bytes in flight and do not
    /// affect the controller.
    fn start_over(&mut self, now: Time) {
        for (id, space) in self.spaces.iter_mut() {
            let evicted = space.evicted.iter_mut().map(|(_, packet)| packet);
            space.sent.iter_mut().chain(evicted).for_each(|packet| packet.counted = false);
            space.run = LossRun::default();
            space.lost.disown();
            space.on_restart();
            if !space.evicted.is_empty() {
                self.times[id as usize].loss_time = Some(now);
            }
        }
        self.bytes_in_flight = 0;
        self.congestion = start_congestion(&self.config, self.mtu.current(), now);
        self.delivery = Delivery::default();
        // The epoch gets a new number, so that late acknowledgments of earlier losses undo nothing.
        self.epoch = Epoch { id: self.epoch.id.wrapping_add(1).max(1), ..Epoch::default() };
        self.pacer = Pacer::new(self.config.pacing, self.config.pacing_burst, now);
        self.sampler = Sampler::default();
        self.reordering = Reordering::new(self.config.packet_threshold, self.config.time_threshold);
        self.app_limited = false;
        self.bytes_since_loss = 0;
        self.bytes_between_losses = 0;
        if let Some(scan) = &mut self.scan {
            scan.largest_took = None;
        }
        self.timer.pto_count = 0;
        self.timer.touched = now;
    }

    /// Returns the time at which an ack-eliciting packet was last sent; zero if none was.
    pub fn last_sent(&self) -> Time {
        self.times.iter().map(|times| times.last_eliciting).max().unwrap_or_default()
    }

    /// Returns the number of consecutive probe timeouts without an acknowledgment.
    pub fn pto_count(&self) -> u32 {
        self.timer.pto_count
    }

    /// Returns the current probe timeout of `space` without backoff (RFC 9002 §6.2.1).
    pub fn pto(&self, space: SpaceId) -> Duration {
        self.timer.pto(&self.rtt, space)
    }

    /// Returns the size of the MTU probe to send now, if one is due. The probe is sent with
    /// [`Sent::mtu_probe`] set.
    pub fn mtu_probe(&mut self, now: Time) -> Option<u16> {
        // MTU probes make sense only on a path that works: not before the handshake is confirmed, and not
        // after a probe timeout.
        if !self.timer.progress.handshake_confirmed || self.timer.pto_count > 0 {
            return None;
        }
        let size = self.mtu.probe(now)?;
        (self.bytes_in_flight + u64::from(size) <= self.congestion.window()).then_some(size)
    }

    /// Returns the running totals.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }
}

fn start_congestion(config: &Config, mtu: u16, now: Time) -> Congestion {
    let window = config.initial_window.bytes(mtu);
    Congestion::new(
        config.congestion,
        &Start { now, window, mtu: mtu.into(), rtt: config.initial_rtt, seed: config.seed },
    )
}
