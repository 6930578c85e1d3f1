//! Fluid bound of a download over several paths: the time that a sender with full knowledge of every path
//! could reach.
//!
//! The model is continuous. A path has the one-way delay `d`, the round-trip time `2d` and the rate `C`. Time
//! is counted from the client's first packet on path 0.
//!
//! - The handshake takes one round trip of path 0, and the request is sent when it completes. So path 0
//!   starts at the server at `3·d₀`.
//! - The client opens the other paths when the handshake completes, at `2·d₀`. Its PATH_CHALLENGE arrives
//!   after `dᵢ`. Path `i` starts at the server one round trip of this path later, at `2·d₀ + 3·dᵢ`.
//! - A path that has started sends at the rate `w·2^(t/2d)/2d` until the rate reaches `C`, where `w` is ten
//!   packets of 1500 bytes on the wire. So the rate doubles continuously, from ten packets per round trip. A
//!   sender that sends 10, 20, 40 … packets in whole round trips is behind this model, in the end by almost
//!   half a round trip at full rate. The continuous reading of "doubles" is the stricter one.
//! - Acknowledgments return on the path of what they acknowledge, and its window doubles in the round trip
//!   `2d`. Or they return on the quickest path, and the window doubles in `d + min d`, which takes the place
//!   of each `2d` of the line before. A [`Return`] says which. RFC 10069 allows the second and this library
//!   does it, so that it is the stricter bound.
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

/// Way that acknowledgments take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Return {
    /// The path of what they acknowledge.
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
    // Bisection down to neighbouring floating-point numbers.
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

    /// Returns the payload bytes delivered in the first `seconds` seconds of the path, whose window doubles in
    /// a `round_trip`.
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
mod tests {
    use super::*;

    /// Returns a path. A rate of 12 Mbit/s is 1000 full packets per second.
    fn path(packets_per_second: f64, delay: f64) -> FluidPath {
        FluidPath { bits_per_second: packets_per_second * 12_000.0, delay }
    }

    fn bound(paths: &[FluidPath], payload: f64) -> f64 {
        super::bound(paths, payload, Return::Same)
    }

    fn close(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-9, "{found} instead of {expected}");
    }

    #[test]
    fn a_path_that_ten_packets_fill_runs_at_its_rate_from_the_start() {
        // 1000 packets/s and a round trip of 10 ms hold exactly ten packets. The first one arrives after four
        // delays.
        close(bound(&[path(1000.0, 0.005)], 1_400_000.0), 0.020 + 1.0);
        // A shorter round trip changes only the start.
        close(bound(&[path(1000.0, 0.001)], 1_400_000.0), 0.004 + 1.0);
    }

    #[test]
    fn a_longer_path_doubles_until_it_is_full() {
        // A round trip of 40 ms holds 40 packets. Two doublings take 80 ms, in which 10·(4 − 1)/ln 2 =
        // 43.2809 packets arrive.
        let ramped = 30.0 / core::f64::consts::LN_2;
        close(bound(&[path(1000.0, 0.020)], 1400.0 * (ramped + 500.0)), 0.080 + 0.080 + 0.5);
        // One doubling only: 10/ln 2 packets after 40 ms.
        close(bound(&[path(1000.0, 0.020)], 1400.0 * 10.0 / core::f64::consts::LN_2), 0.080 + 0.040);
    }

    #[test]
    fn another_path_begins_after_the_handshake_and_two_round_trips_of_its_own() {
        // Path 0 delivers from 4·5 = 20 ms on, path 1 from 2·5 + 4·2 = 18 ms on, both at full rate at once.
        // By 518 ms they have delivered 498 and 500 packets.
        let two = [path(1000.0, 0.005), path(1000.0, 0.002)];
        close(bound(&two, 1400.0 * 998.0), 0.518);
        // With the paths swapped they begin at 4·2 = 8 ms and 2·2 + 4·5 = 24 ms.
        let swapped = [two[1], two[0]];
        close(bound(&swapped, 1400.0 * (500.0 + 484.0)), 0.508);
    }

    #[test]
    fn a_path_too_slow_to_help_leaves_the_other_ones_time() {
        let alone = bound(&[path(1000.0, 0.005)], 140_000.0);
        close(bound(&[path(1000.0, 0.005), path(1000.0, 1.0)], 140_000.0), alone);
        assert!(bound(&[path(1000.0, 0.005), path(1000.0, 0.01)], 140_000.0) < alone);
    }

    #[test]
    fn nothing_comes_without_a_path() {
        assert_eq!(bound(&[], 1.0), f64::INFINITY);
        assert_eq!(bound(&[path(0.0, 0.1)], 1.0), f64::INFINITY);
    }

    #[test]
    fn a_window_doubles_in_its_way_there_and_the_quickest_way_back() {
        // Round trips of 10 and 40 ms: what path 1 sends is acknowledged 20 + 5 ms later, in which it carries 25
        // packets: log₂ 2.5 doublings of 25 ms. Path 0 is full at once, from 4·5 ms on.
        let two = [path(1000.0, 0.005), path(1000.0, 0.020)];
        let ramp = 0.025 * 2.5_f64.log2();
        // It starts to arrive at 2·5 + 4·20 = 90 ms.
        let full = 0.090 + ramp;
        let ramped = 10.0 * 1.5 / core::f64::consts::LN_2;
        let packets = (full - 0.020) * 1000.0 + ramped;
        close(super::bound(&two, 1400.0 * (packets + 600.0), Return::Quickest), full + 0.3);
        assert!(bound(&two, 1400.0 * 1000.0) > super::bound(&two, 1400.0 * 1000.0, Return::Quickest));
        // One path has no quicker one.
        let one = &two[1..];
        close(bound(one, 1e6), super::bound(one, 1e6, Return::Quickest));
    }
}
