//! Trains of datagrams, with which tests compare the guest's links with the lab's, packet by packet.

/// Datagram of a train, with the time at which it should leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Car {
    /// Time at which the datagram should leave, in nanoseconds since the start of the train.
    pub at_ns: u64,
    /// Number of bytes of the UDP payload.
    pub payload: usize,
}

/// Number of bytes of the IPv4 and UDP headers of each datagram.
pub const HEADERS: usize = 28;
/// Maximum number of payload bytes in a packet of 1500 bytes.
const MAX_PAYLOAD: u64 = 1472;
/// Minimum number of payload bytes, enough for the datagram's number.
const MIN_PAYLOAD: u64 = 8;

/// Returns a train of `count` datagrams that follows from `seed`. It consists of bursts of datagrams of full,
/// small and random size. Some bursts are so far apart that a link of `rate_bps` empties between them.
pub fn train(seed: u64, count: u32, rate_bps: u64) -> Vec<Car> {
    let mut random = SplitMix(seed);
    let service = MAX_PAYLOAD * 8 * 1_000_000_000 / rate_bps.max(1);
    let (mut at_ns, mut left) = (0, 0);
    let mut cars = Vec::new();
    for _ in 0..count {
        if left == 0 {
            left = 1 + random.below(40);
            at_ns += random.below(40 * service);
        }
        left -= 1;
        let payload = match random.below(3) {
            0 => MAX_PAYLOAD,
            1 => 52,
            _ => MIN_PAYLOAD + random.below(MAX_PAYLOAD - MIN_PAYLOAD + 1),
        };
        cars.push(Car { at_ns, payload: payload as usize });
    }
    cars
}

/// Small random number generator (splitmix64), which gives the same numbers in the guest and in the lab.
pub(crate) struct SplitMix(pub(crate) u64);

impl SplitMix {
    /// Returns 64 random bits.
    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `bound`.
    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }
}
