//! Trains of datagrams: with them the guest's links are compared with the lab's, packet by packet.

/// A datagram of a train: when it is to leave, in nanoseconds since the first one, and its bytes of payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Car {
    /// Nanoseconds since the train's beginning.
    pub at_ns: u64,
    /// Bytes of UDP payload.
    pub payload: usize,
}

/// Bytes of IPv4 and UDP headers around each payload.
pub const HEADERS: usize = 28;
/// Largest payload in a packet of 1500 bytes.
const MAX_PAYLOAD: u64 = 1472;
/// Smallest payload: the datagram's number.
const MIN_PAYLOAD: u64 = 8;

/// Returns a train of `count` datagrams that follows from `seed`: bursts of full, small and random ones, so
/// far apart that a link of `rate_bps` empties between some of them.
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

/// A small generator (splitmix64), the same on both sides.
pub(crate) struct SplitMix(pub(crate) u64);

impl SplitMix {
    /// Returns 64 bits.
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
