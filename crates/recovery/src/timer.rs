//! Loss detection timer of a path (RFC 9002 §6.2, Appendix A.8).

use core::time::Duration;

use anabranch_wire::{SpaceId, Time};

use crate::outcome::Progress;
use crate::rtt::Rtt;

/// Maximum number of times that the probe timeout doubles. A path that has been silent for that long gains
/// nothing from longer timeouts.
const MAX_BACKOFF: u32 = 16;

/// Times and packets of one space that the timer depends on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SpaceTimes {
    /// Time at which the oldest packet becomes lost, if a newer one was acknowledged.
    pub(crate) loss_time: Option<Time>,
    /// Time at which the newest ack-eliciting packet was sent.
    pub(crate) last_eliciting: Time,
    /// Number of ack-eliciting packets that are neither acknowledged nor lost.
    pub(crate) eliciting: u64,
}

/// State, besides that of the spaces, that the timer depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timer {
    pub(crate) progress: Progress,
    pub(crate) peer_max_ack_delay: Duration,
    pub(crate) amplification_blocked: bool,
    pub(crate) pto_count: u32,
    /// Time of the last event on the path.
    pub(crate) touched: Time,
}

impl Timer {
    /// Returns the probe timeout of a space without backoff (RFC 9002 §6.2.1).
    pub(crate) fn pto(&self, rtt: &Rtt, space: SpaceId) -> Duration {
        match space {
            SpaceId::Data => rtt.pto_base() + self.peer_max_ack_delay,
            SpaceId::Initial | SpaceId::Handshake => rtt.pto_base(),
        }
    }

    /// Returns the earliest loss time and its space.
    pub(crate) fn loss(spaces: &[SpaceTimes; 3]) -> Option<(Time, SpaceId)> {
        SpaceId::ALL.into_iter().filter_map(|id| Some((spaces[id as usize].loss_time?, id))).min()
    }

    /// Returns the time at which the probe timeout expires, and its space (RFC 9002 Appendix A.8,
    /// GetPtoTimeAndSpace).
    pub(crate) fn probe(&self, rtt: &Rtt, spaces: &[SpaceTimes; 3]) -> Option<(Time, SpaceId)> {
        // RFC 9002 §6.2.2.1: no probe can be sent at the anti-amplification limit.
        if self.amplification_blocked {
            return None;
        }
        let backoff = 1 << self.pto_count.min(MAX_BACKOFF);
        let probe = SpaceId::ALL
            .into_iter()
            .filter(|&id| spaces[id as usize].eliciting > 0)
            // RFC 9002 §6.2.1: application data is not probed before the handshake is confirmed.
            .filter(|&id| id != SpaceId::Data || self.progress.handshake_confirmed)
            .map(|id| (spaces[id as usize].last_eliciting + self.pto(rtt, id).saturating_mul(backoff), id))
            .min();
        // RFC 9002 §6.2.2.1: a client probes until it knows that the server has validated its address. 0-RTT
        // packets in flight do not replace these probes, because they have no probe timeout yet.
        if probe.is_none() && !self.progress.peer_validated_address {
            let space = if self.progress.has_handshake_keys { SpaceId::Handshake } else { SpaceId::Initial };
            return Some((self.touched + self.pto(rtt, space).saturating_mul(backoff), space));
        }
        probe
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_backoff_of_probes_ends_somewhere() {
        let rtt = Rtt::new(Duration::from_millis(100));
        let after = |pto_count| {
            let timer = Timer {
                progress: Progress::default(),
                peer_max_ack_delay: Duration::ZERO,
                amplification_blocked: false,
                pto_count,
                touched: Time::ZERO,
            };
            timer.probe(&rtt, &[SpaceTimes::default(); 3]).unwrap().0 - Time::ZERO
        };
        assert_eq!(after(MAX_BACKOFF), after(MAX_BACKOFF - 1) * 2);
        assert_eq!(after(MAX_BACKOFF), after(0) * (1 << MAX_BACKOFF));
        assert_eq!(after(u32::MAX), after(MAX_BACKOFF));
    }
}
