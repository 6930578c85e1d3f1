//! Packetization-layer path MTU discovery (RFC 8899, RFC 9000 §14.3).

use anabranch_wire::Time;

use crate::config::MtuConfig;

/// UDP payload size in bytes that every QUIC path must carry (RFC 9000 §14, BASE_PLPMTU of RFC 8899 §5.1.2).
pub(crate) const BASE: u16 = 1200;

/// Number of probes of one size that must be lost before the size counts as too large (RFC 8899 §5.1.2,
/// MAX_PROBES).
const MAX_PROBES: u8 = 3;

/// Minimum difference between the current size and the search's upper limit, in bytes, for which the search
/// continues.
const MIN_STEP: u16 = 8;

/// Number of consecutive probe timeouts without an acknowledgment after which the size is reset (RFC 8899
/// §4.3).
const SUSPICIOUS_PTOS: u32 = 3;

#[derive(Clone, Copy, Debug)]
enum Search {
    /// Search with probes of `target` bytes. The maximum is known to be at most `ceiling` bytes, and `lost`
    /// probes of the target size were lost.
    On { target: u16, ceiling: u16, lost: u8 },
    /// Pause in which no probe is sent until this time. `None` if the search does not continue.
    Rest(Option<Time>),
}

/// Search for the largest size that the path carries.
#[derive(Clone, Debug)]
pub(crate) struct Discovery {
    config: MtuConfig,
    /// Largest size that the peer accepts.
    limit: u16,
    current: u16,
    search: Search,
    probe_in_flight: bool,
    /// Number of loss bursts with only packets above the base size since a packet of such a size was
    /// acknowledged.
    suspicious: u32,
    /// Size of the smallest packet that was lost in these bursts.
    suspect: u16,
}

impl Discovery {
    pub(crate) fn new(config: &MtuConfig) -> Self {
        let mut discovery = Self {
            config: config.clone(),
            limit: u16::MAX,
            current: config.initial.max(BASE),
            search: Search::Rest(None),
            probe_in_flight: false,
            suspicious: 0,
            suspect: u16::MAX,
        };
        discovery.restart();
        discovery
    }

    /// Returns the current maximum size of packets, in bytes of UDP payload.
    pub(crate) fn current(&self) -> u16 {
        self.current
    }

    /// Sets the largest size that the peer accepts (RFC 9000 §18.2, max_udp_payload_size). Returns whether
    /// the current size changed.
    pub(crate) fn limit(&mut self, limit: u16) -> bool {
        self.limit = limit.max(BASE);
        let before = self.current;
        self.current = self.current.min(self.limit);
        self.restart();
        self.current != before
    }

    /// Starts anew after a migration.
    pub(crate) fn migrate(&mut self) {
        self.current = self.config.initial.max(BASE).min(self.limit);
        self.trust();
        self.probe_in_flight = false;
        self.restart();
    }

    /// Returns the size of the probe to send now, if one is due.
    pub(crate) fn probe(&mut self, now: Time) -> Option<u16> {
        if self.probe_in_flight {
            return None;
        }
        if let Search::Rest(Some(until)) = self.search
            && until <= now
        {
            self.restart();
        }
        match self.search {
            Search::On { target, .. } => Some(target),
            Search::Rest(_) => None,
        }
    }

    pub(crate) fn on_probe_sent(&mut self) {
        self.probe_in_flight = true;
    }

    /// Records that a packet of `size` bytes was acknowledged. Returns whether that raised the current size.
    pub(crate) fn on_acked(&mut self, now: Time, size: u16, probe: bool) -> bool {
        if size >= self.suspect {
            self.trust();
        }
        if !probe {
            return false;
        }
        self.probe_in_flight = false;
        if size <= self.current || size > self.limit {
            return false;
        }
        self.current = size;
        if let Search::On { ceiling, .. } = self.search {
            self.aim(now, ceiling);
        }
        true
    }

    /// Records that a probe of `size` bytes was lost. This does not indicate congestion (RFC 9000 §14.4).
    pub(crate) fn on_probe_lost(&mut self, now: Time, size: u16) {
        self.probe_in_flight = false;
        if let Search::On { target, ceiling, lost } = self.search
            && target == size
        {
            if lost + 1 < MAX_PROBES {
                self.search = Search::On { target, ceiling, lost: lost + 1 };
            } else {
                self.aim(now, target - 1);
            }
        }
    }

    /// Records that the probe in flight is no longer tracked, so that its result will not be known.
    pub(crate) fn on_probe_forgotten(&mut self) {
        self.probe_in_flight = false;
    }

    /// Handles a burst of losses whose smallest packet, MTU probes excluded, had `size` bytes. Returns
    /// whether the path now counts as a black hole and the size was reset to the base (RFC 8899 §4.3).
    pub(crate) fn on_lost(&mut self, now: Time, size: u16) -> bool {
        if size <= BASE || self.current <= BASE {
            return false;
        }
        self.suspicious += 1;
        self.suspect = self.suspect.min(size);
        if self.suspicious < self.config.black_hole_threshold {
            return false;
        }
        self.fall();
        self.search = Search::Rest(Some(now + self.config.black_hole_cooldown));
        true
    }

    /// Handles the `count`-th consecutive probe timeout. Returns whether the size was reset to the base. The
    /// size is only one possible cause of the silence, so the search restarts without a cooldown.
    pub(crate) fn on_pto(&mut self, count: u32) -> bool {
        if count < SUSPICIOUS_PTOS || self.current <= BASE {
            return false;
        }
        self.fall();
        self.restart();
        true
    }

    fn fall(&mut self) {
        self.current = BASE;
        self.trust();
    }

    fn trust(&mut self) {
        self.suspicious = 0;
        self.suspect = u16::MAX;
    }

    fn ceiling(&self) -> u16 {
        self.config.maximum.min(self.limit)
    }

    /// Starts a search with the maximum size. Most paths carry it, so one probe is then enough.
    fn restart(&mut self) {
        let target = self.ceiling();
        self.search = if self.config.discovery && target > self.current {
            Search::On { target, ceiling: target, lost: 0 }
        } else {
            Search::Rest(None)
        };
    }

    /// Continues the search halfway between the current size and `ceiling`.
    fn aim(&mut self, now: Time, ceiling: u16) {
        let gap = ceiling.saturating_sub(self.current);
        self.search = if gap < MIN_STEP {
            let raise = (self.current < self.ceiling()).then(|| now + self.config.raise_interval);
            Search::Rest(raise)
        } else {
            Search::On { target: self.current + gap.div_ceil(2), ceiling, lost: 0 }
        };
    }
}
