//! Tests of one path's recovery as a whole.

mod ack;
mod coupled;
mod custom;
mod ecn;
mod link;
mod model;
mod mtu;
mod shared;
mod throughput;
mod timeout;

use core::ops::RangeInclusive;
use core::time::Duration;

use anabranch_wire::{EcnCounts, SpaceId, Time};

use crate::{AckError, AckInfo, Algorithm, Config, Measures, Outcome, Progress, Recovery, Sent};

pub(crate) const DATA: SpaceId = SpaceId::Data;

pub(crate) const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

pub(crate) const fn at(n: u64) -> Time {
    Time::from_millis(n)
}

/// Returns a configuration with NewReno, without pacing, ECN and MTU discovery, so that sizes and windows are
/// easy to compute by hand.
pub(crate) fn plain() -> Config {
    let mut config =
        Config { congestion: Algorithm::NewReno, pacing: false, ecn: false, ..Config::default() };
    config.mtu.discovery = false;
    config
}

pub(crate) const CONFIRMED: Progress =
    Progress { has_handshake_keys: true, peer_validated_address: true, handshake_confirmed: true };

/// Path and the outcome of the last call.
pub(crate) struct Path {
    pub(crate) recovery: Recovery<u64>,
    pub(crate) out: Outcome<u64>,
}

impl Path {
    pub(crate) fn new(config: &Config) -> Self {
        let mut recovery = Recovery::new(config, Time::ZERO);
        recovery.set_progress(CONFIRMED);
        Self { recovery, out: Outcome::new() }
    }

    /// Sends an ack-eliciting packet of 1200 bytes whose token is its order. Returns the order.
    pub(crate) fn send(&mut self, now: Time) -> u64 {
        self.send_in(now, DATA, 1200)
    }

    pub(crate) fn send_in(&mut self, now: Time, space: SpaceId, size: u16) -> u64 {
        let order = self.recovery.next_order(space);
        let ect = self.recovery.ecn_mark();
        let sent = Sent {
            time: now,
            size,
            ack_eliciting: true,
            in_flight: true,
            ect,
            mtu_probe: false,
            owed: order,
        };
        self.recovery.on_sent(space, order, sent);
        order
    }

    pub(crate) fn ack(&mut self, now: Time, ranges: &[RangeInclusive<u64>]) -> Vec<u64> {
        self.try_ack(now, DATA, ranges, None).unwrap()
    }

    /// Handles an ACK of `ranges`, and returns the newly acknowledged orders, sorted.
    pub(crate) fn try_ack(
        &mut self,
        now: Time,
        space: SpaceId,
        ranges: &[RangeInclusive<u64>],
        ecn: Option<EcnCounts>,
    ) -> Result<Vec<u64>, AckError> {
        self.out.clear();
        let info = AckInfo { delay: Duration::ZERO, ecn, measures: Measures::Largest, ..AckInfo::default() };
        self.recovery.on_ack(now, space, ranges.iter().cloned(), info, &[], &mut self.out)?;
        let mut orders: Vec<_> = self.out.acked.iter().map(|(order, _)| *order).collect();
        orders.sort_unstable();
        Ok(orders)
    }

    pub(crate) fn timeout(&mut self, now: Time) -> Option<crate::Expired> {
        self.out.clear();
        self.recovery.on_timeout(now, &[], &mut self.out)
    }

    pub(crate) fn lost(&self) -> Vec<u64> {
        self.out.lost.iter().map(|(order, _)| *order).collect()
    }
}
