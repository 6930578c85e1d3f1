//! Delivery rate sampling (draft-ietf-ccwg-bbr §4.1).

use core::time::Duration;

use anabranch_wire::Time;

/// State of delivery on the path when a packet was sent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Snapshot {
    /// Bytes delivered before the packet was sent.
    delivered: u64,
    /// Time of the last delivery before the packet was sent.
    delivered_time: Time,
    /// Send time of the packet that began the sampling interval.
    first_sent_time: Time,
    /// Bytes lost before the packet was sent.
    lost: u64,
    /// Bytes in flight, including this packet.
    in_flight: u64,
    app_limited: bool,
}

impl Snapshot {
    /// Returns the bytes in flight just after the packet was sent.
    pub(crate) fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Returns whether the sender had run out of data before the packet.
    pub(crate) fn app_limited(&self) -> bool {
        self.app_limited
    }

    /// Returns the bytes lost on the path before the packet was sent.
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }
}

/// Sample of the delivery rate from one acknowledgment.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct RateSample {
    /// Rate in bytes per second; `None` if the interval was too short.
    pub rate: Option<u64>,
    /// Bytes delivered on the path when the newest acknowledged packet was sent.
    pub prior_delivered: u64,
    /// Bytes delivered between the sending and the acknowledgment of the newest acknowledged packet.
    pub delivered: u64,
    /// Bytes lost between the sending and the acknowledgment of the newest acknowledged packet.
    pub lost: u64,
    /// Bytes in flight when the newest acknowledged packet was sent.
    pub in_flight: u64,
    /// `true` if the sender had run out of data, so that the rate may be below the path's bandwidth.
    pub app_limited: bool,
}

/// Counter of deliveries and losses on a path.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sampler {
    delivered: u64,
    delivered_time: Time,
    first_sent_time: Time,
    lost: u64,
    /// Samples are application limited until this number of bytes is delivered.
    app_limited_until: Option<u64>,
}

impl Sampler {
    pub(crate) fn delivered(&self) -> u64 {
        self.delivered
    }

    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }

    pub(crate) fn is_app_limited(&self) -> bool {
        self.app_limited_until.is_some()
    }

    /// Counts a packet of `size` bytes that is sent when `in_flight` bytes are in flight.
    pub(crate) fn on_sent(&mut self, now: Time, size: u64, in_flight: u64) -> Snapshot {
        if in_flight == 0 {
            self.first_sent_time = now;
            self.delivered_time = now;
        }
        Snapshot {
            delivered: self.delivered,
            delivered_time: self.delivered_time,
            first_sent_time: self.first_sent_time,
            lost: self.lost,
            in_flight: in_flight + size,
            app_limited: self.app_limited_until.is_some(),
        }
    }

    pub(crate) fn on_lost(&mut self, size: u64) {
        self.lost += size;
    }

    /// Counts `bytes` delivered at `now`.
    pub(crate) fn on_delivered(&mut self, now: Time, bytes: u64) {
        self.delivered += bytes;
        self.delivered_time = now;
        if self.app_limited_until.is_some_and(|until| self.delivered > until) {
            self.app_limited_until = None;
        }
    }

    /// Returns the sample of an acknowledgment whose newest packet was sent at `sent_time`. `snapshot` was
    /// taken when that packet was sent.
    pub(crate) fn sample(&mut self, sent_time: Time, snapshot: &Snapshot, min_rtt: Duration) -> RateSample {
        let send_elapsed = sent_time - snapshot.first_sent_time;
        let ack_elapsed = self.delivered_time - snapshot.delivered_time;
        self.first_sent_time = sent_time;
        let interval = send_elapsed.max(ack_elapsed);
        let delivered = self.delivered - snapshot.delivered;
        // An interval below the minimum RTT is due to ACK compression, and its rate would be too high.
        let rate = (interval >= min_rtt && !interval.is_zero()).then(|| per_second(delivered, interval));
        RateSample {
            rate,
            prior_delivered: snapshot.delivered,
            delivered,
            lost: self.lost - snapshot.lost,
            in_flight: snapshot.in_flight,
            app_limited: snapshot.app_limited,
        }
    }

    /// Records that the sender ran out of data with `in_flight` bytes in flight.
    pub(crate) fn on_app_limited(&mut self, in_flight: u64) {
        self.app_limited_until = Some(self.delivered + in_flight);
    }
}

/// Nanoseconds in a second.
const SECOND: u64 = 1_000_000_000;

/// Returns the rate of `bytes` in `interval`, in bytes per second.
pub(crate) fn per_second(bytes: u64, interval: Duration) -> u64 {
    scale(bytes, SECOND, u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX).max(1))
}

/// Returns the number of bytes sent in `interval` at `rate` bytes per second.
pub(crate) fn bytes_in(rate: u64, interval: Duration) -> u64 {
    scale(rate, u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX), SECOND)
}

/// Returns `a` · `b` / `c`. Avoids wide division if the product fits in 64 bits.
fn scale(a: u64, b: u64, c: u64) -> u64 {
    match a.checked_mul(b) {
        Some(product) => product / c,
        None => u64::try_from(u128::from(a) * u128::from(b) / u128::from(c)).unwrap_or(u64::MAX),
    }
}
