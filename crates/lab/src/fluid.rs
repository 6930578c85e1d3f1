//! Fluid bound of a download over several paths: the time that a sender with full knowledge of every path
//! could reach.
//!
//! The model is continuous. A path has the one-way delay `d`, the round-trip time `2d` and the rate `C`. Time
//! is counted from the client's first packet on path 0.
//!
//! - The handshake takes one round trip of path 0, and the request is sent when it completes. So the server
//!   begins to send on path 0 at `3·d₀`.
//! - The client opens the other paths when the handshake completes, at `2·d₀`. Its PATH_CHALLENGE arrives
//!   after `dᵢ`. The server begins to send on path `i` one round trip of this path later, at `2·d₀ + 3·dᵢ`.
//! - A path that has started sends at the rate `w·2^(t/2d)/2d` until the rate reaches `C`, where `w` is ten
//!   packets of 1500 bytes on the wire. So the rate doubles continuously, from ten packets per round trip. A
//!   sender that sends 10, 20, 40 … packets in whole round trips is slower than this model. In the end such a
//!   sender lacks the data of almost half a round trip at full rate. So the continuous model gives the
//!   stricter bound.
//! - A [`Return`] states the path on which acknowledgments return. If they return on the path of the packets
//!   that they acknowledge, a window doubles in the round trip `2d`. If they return on the path with the
//!   smallest delay, it doubles in `d + min d`, which then replaces each `2d` of the previous item. RFC 10069
//!   allows the second case, and this library does so. The second case gives the stricter bound.
//! - Of 1500 bytes on the wire 1400 are payload. Bytes arrive `d` after they are sent; the serialization of
//!   single packets takes no time.
//!
//! The bound is the time at which the client has all bytes. It does not include the closing of the
//! connection.

/// Bytes of a full packet on the wire.
const PACKET: f64 = 1500.0;
/// Payload bytes of a full packet.
const PAYLOAD: f64 = 1400.0;
/// Initial number of packets per round trip.
const INITIAL_PACKETS: f64 = 10.0;

/// Path of the fluid model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FluidPath {
    /// Bits per second on the wire.
    pub bits_per_second: f64,
    /// One-way delay in seconds.
    pub delay: f64,
}

/// Path on which acknowledgments return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Return {
    /// The path of the packets that are acknowledged.
    Same,
    /// The path with the smallest delay.
    Quickest,
}

/// Returns the time in seconds at which `payload` bytes have reached the client. It is infinite if no path
/// has any rate.
pub fn bound(paths: &[FluidPath], payload: f64, acks: Return) -> f64 {
    let Some(first) = paths.first() else { return f64::INFINITY };
    let total: f64 = paths.iter().map(|path| path.bits_per_second).sum();
    if total <= 0.0 {
        return f64::INFINITY;
    }
    let quickest = paths.iter().map(|path| path.delay).fold(f64::INFINITY, f64::min);
    let back = |path: &FluidPath| match acks {
        Return::Same => path.delay,
        Return::Quickest => quickest,
    };
    let delivered = |at: f64| {
        let path = |(index, path): (usize, &FluidPath)| {
            path.delivered(at - path.arrival(index == 0, first), path.delay + back(path))
        };
        paths.iter().enumerate().map(path).sum::<f64>()
    };
    let (mut low, mut high) = (0.0, 1.0);
    while delivered(high) < payload {
        high *= 2.0;
    }
    // The bisection ends at neighbouring floating-point numbers.
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        if delivered(middle) < payload { low = middle } else { high = middle }
    }
    high
}

impl FluidPath {
    /// Returns the time at which the first byte reaches the client, in seconds.
    fn arrival(&self, is_first: bool, first: &Self) -> f64 {
        let start = if is_first { 3.0 * first.delay } else { 2.0 * first.delay + 3.0 * self.delay };
        start + self.delay
    }

    /// Returns the payload bytes delivered in the first `seconds` seconds of the path. Its window doubles
    /// every `round_trip` seconds.
    fn delivered(&self, seconds: f64, round_trip: f64) -> f64 {
        let full = self.bits_per_second / 8.0;
        // Number of doublings until the path is full; zero if ten packets fill it.
        let doublings = (full * round_trip / (INITIAL_PACKETS * PACKET)).log2().max(0.0);
        let ramp = doublings * round_trip;
        let grown = |seconds: f64| {
            let doubled = (seconds / round_trip).exp2() - 1.0;
            INITIAL_PACKETS * PACKET * doubled / core::f64::consts::LN_2
        };
        let wire = if seconds <= 0.0 {
            0.0
        } else if seconds < ramp {
            grown(seconds)
        } else {
            let ramped = if ramp > 0.0 { grown(ramp) } else { 0.0 };
            ramped + full * (seconds - ramp)
        };
        wire * PAYLOAD / PACKET
    }
}

#[cfg(test)]
mod tests;
