//! Packetization-layer path MTU discovery (RFC 8899, RFC 9000 §14.3).

use anabranch_wire::Time;

use crate::config::MtuConfig;

/// Smallest size every QUIC path must carry (RFC 9000 §14, BASE_PLPMTU of RFC 8899 §5.1.2).
pub(crate) const BASE: u16 = 1200;

/// Probes of one size that are lost before the size is held for too large (RFC 8899 §5.1.2, MAX_PROBES).
const MAX_PROBES: u8 = 3;

/// The search ends when it would gain fewer bytes than this.
const MIN_STEP: u16 = 8;

/// Consecutive probe timeouts without an acknowledgment after which the size is suspected (RFC 8899 §4.3).
const SUSPICIOUS_PTOS: u32 = 3;

#[derive(Clone, Copy, Debug)]
enum Search {
    /// Probing `target`, known to be at most `ceiling`; `lost` probes of that size are gone.
    On { target: u16, ceiling: u16, lost: u8 },
    /// Nothing to probe until the time, if there is one.
    Rest(Option<Time>),
}

/// The search for the largest size the path carries.
#[derive(Clone, Debug)]
pub(crate) struct Discovery {
    config: MtuConfig,
    /// Largest size the peer accepts.
    limit: u16,
    current: u16,
    search: Search,
    probe_in_flight: bool,
    /// Loss bursts that hit only packets above the base size, since such a packet got through.
    suspicious: u32,
    /// Size of the smallest packet lost in them.
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

    /// Returns the size in bytes of UDP payload that packets may have now.
    pub(crate) fn current(&self) -> u16 {
        self.current
    }

    /// Returns the peer accepts at most `limit` bytes (RFC 9000 §18.2, max_udp_payload_size). Whether the
    /// size changed.
    pub(crate) fn limit(&mut self, limit: u16) -> bool {
        self.limit = limit.max(BASE);
        let before = self.current;
        self.current = self.current.min(self.limit);
        self.restart();
        self.current != before
    }

    /// Starts again after the path changed.
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

    /// Notes that a packet of `size` bytes arrived; returns whether that raised the size.
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

    /// Notes that a probe of `size` bytes is lost, which is no sign of congestion (RFC 9000 §14.4).
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

    /// Forgets a probe under way; nothing is learned from it.
    pub(crate) fn on_probe_forgotten(&mut self) {
        self.probe_in_flight = false;
    }

    /// Judges a burst of losses whose smallest ordinary packet had `size` bytes; returns whether the path is
    /// held for a black hole and the size went back to the base (RFC 8899 §4.3).
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

    /// Judges the `count`-th probe timeout in a row; returns whether the size went back to the base. Nothing
    /// at all gets through, so the size is only one suspect, and the search may start again as soon as
    /// something does.
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

    /// Starts a search with the largest size of all: most paths carry it, and then one probe is enough.
    fn restart(&mut self) {
        let target = self.ceiling();
        self.search = if self.config.discovery && target > self.current {
            Search::On { target, ceiling: target, lost: 0 }
        } else {
            Search::Rest(None)
        };
    }

    /// Goes on between the current size and `ceiling`, halving.
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
