//! Packet trains drawn from a seed, in classes. In some classes both models must agree to the nanosecond;
//! each of the others exercises one rule in which the models differ.

use anabranch_lab::link::Limit;
use anabranch_lab::random::{Rng, Seed};

use super::reference::{Rule, Rules};
use super::train::{IPV4_UDP, PPP, Packet, Train};

/// Number of packets in a train.
const PACKETS: usize = 300;
/// Sizes in bytes of the smallest and of the largest packet, which fills an MTU of 1500.
const SIZES: [u32; 2] = [IPV4_UDP + 1, 1500];
const SECOND: u64 = 1_000_000_000;

/// Class of trains.
pub(super) struct Class {
    pub(super) name: &'static str,
    /// Rule in which the two models differ for these trains, if any.
    pub(super) rule: Option<Rule>,
    draw: fn(&mut Rng) -> Train,
}

/// All classes, in the order of the table.
pub(super) const CLASSES: &[Class] = &[
    Class { name: "ccr22", rule: None, draw: ccr22 },
    Class { name: "packets", rule: None, draw: packets },
    Class { name: "bytes", rule: None, draw: bytes },
    Class { name: "instants", rule: None, draw: instants },
    Class { name: "framing", rule: Some(Rule::Framing), draw: ccr22 },
    Class { name: "sends first", rule: Some(Rule::SendsFirst), draw: sends_first },
    Class { name: "halves", rule: Some(Rule::FixedPoint), draw: halves },
    Class { name: "tiny queue", rule: Some(Rule::ThroughQueue), draw: tiny_queue },
];

impl Class {
    /// Draws the trains of this class from the seed.
    pub(super) fn trains(&self, seed: u64, count: usize) -> Vec<Train> {
        let mut rng = Seed(seed).rng(self.name);
        (0..count).map(|_| (self.draw)(&mut rng)).collect()
    }

    /// Returns the lab's rules for this class. They include ns-3's framing bytes, unless the class is about
    /// these.
    pub(super) fn rules(&self) -> Rules {
        let framing = if self.rule == Some(Rule::Framing) { 0 } else { PPP };
        Rules { framing, ..Rules::LAB }
    }
}

/// Draws a path as in the heterogeneous designs of ccr22. Rates have two decimals in Mbit/s, delays two
/// decimals in ms, and the queue is in packets. The train has full packets and acknowledgments.
fn ccr22(rng: &mut Rng) -> Train {
    let rate = rng.between(250, 10_000) * 10_000;
    let delay = rng.between(250, 10_000) * 10_000;
    // 1.5 times the bandwidth-delay product in packets of 1200 bytes, with a megabyte of 2^20 bytes.
    let product = u128::from(rate) * 1024 * 1024 / 8 * u128::from(delay) * 2 / u128::from(SECOND) / 1_000_000;
    let queue = usize::try_from(product * 3 / 2 / 1200).unwrap_or(usize::MAX).max(1);
    let sizes = [IPV4_UDP + 40, IPV4_UDP + 1252, IPV4_UDP + 1440];
    // A train does not fill queues of thousands of packets. The queue is limited to an eighth of the train,
    // so that packets are dropped.
    let queue = queue.min(PACKETS / 8);
    Train { packets: load(rng, rate, |rng| rng.pick(&sizes)), ..train(rate, delay, Limit::Packets(queue)) }
}

/// Draws an arbitrary rate and arbitrary sizes, with a queue in packets.
fn packets(rng: &mut Rng) -> Train {
    let limit = Limit::Packets(rng.between(1, 60) as usize);
    any(rng, limit)
}

/// Draws an arbitrary rate and arbitrary sizes, with a queue in bytes that has room for at least one packet.
fn bytes(rng: &mut Rng) -> Train {
    let limit = Limit::Bytes(rng.between(u64::from(SIZES[1] + PPP), 60_000));
    any(rng, limit)
}

/// Draws packets that are sent at the instants at which transmissions end. With a full queue, the order then
/// matters.
fn instants(rng: &mut Rng) -> Train {
    // A byte takes 1 to 8 µs and all packets have one size, so all events occur at multiples of the same
    // time.
    let byte_us = rng.pick(&[1, 2, 4, 8]);
    let size = rng.between(SIZES[0].into(), SIZES[1].into()) as u32;
    let step = u64::from(size + PPP) * byte_us * 1_000;
    let mut at = 0;
    let mut packets = Vec::with_capacity(PACKETS);
    while packets.len() < PACKETS {
        packets.extend((0..rng.between(1, 4)).map(|_| Packet { at, size }));
        at += rng.between(1, 3) * step;
    }
    let queue = rng.between(1, 6) as usize;
    Train { packets, ..train(8_000_000 / byte_us, rng.below(SECOND), Limit::Packets(queue)) }
}

fn sends_first(rng: &mut Rng) -> Train {
    Train { sends_first: true, ..instants(rng) }
}

/// Draws packets whose transmission time ends in half a nanosecond. In ns-3, some of these times are not
/// exact.
fn halves(rng: &mut Rng) -> Train {
    let rate = rng.pick(&[1_024_000, 5_120_000, 128_000_000]);
    // 125 bytes at 1.024 Mbit/s take 2^-10 s, which ns-3 represents exactly.
    let packets = load(rng, rate, |rng| 125 * rng.between(1, 11) as u32 - PPP);
    Train { packets, ..train(rate, rng.below(SECOND), Limit::Packets(20)) }
}

/// Draws a queue in bytes that has no room for large packets.
fn tiny_queue(rng: &mut Rng) -> Train {
    let limit = Limit::Bytes(rng.between(SIZES[0].into(), SIZES[1].into()));
    any(rng, limit)
}

fn any(rng: &mut Rng, limit: Limit) -> Train {
    // Odd rates avoid the half nanoseconds, which have a class of their own.
    let rate = rng.between(50_000, 500_000_000) * 2 + 1;
    let packets = load(rng, rate, |rng| rng.between(SIZES[0].into(), SIZES[1].into()) as u32);
    Train { packets, ..train(rate, rng.below(SECOND), limit) }
}

fn train(rate: u64, delay: u64, limit: Limit) -> Train {
    Train { rate, delay, limit, sends_first: false, packets: Vec::new() }
}

/// Draws bursts with random pauses. They offer a load of 60 % to 200 % of the link's rate.
fn load(rng: &mut Rng, rate: u64, size: impl Fn(&mut Rng) -> u32) -> Vec<Packet> {
    let longest_burst = rng.pick(&[1, 4, 40]);
    let busy_percent = rng.between(60, 200);
    let (mut at, mut packets) = (0, Vec::with_capacity(PACKETS));
    while packets.len() < PACKETS {
        let burst: Vec<_> =
            (0..rng.between(1, longest_burst)).map(|_| Packet { at, size: size(rng) }).collect();
        let bits: u64 = burst.iter().map(|packet| u64::from(packet.size) * 8).sum();
        packets.extend(burst);
        let time = u128::from(bits) * u128::from(SECOND) * 100 / u128::from(rate * busy_percent);
        at += rng.below(2 * u64::try_from(time).unwrap_or(u64::MAX / 2));
    }
    packets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_trains_again_and_another_gives_others() {
        for class in CLASSES {
            let text = |seed| {
                let mut text = String::new();
                class.trains(seed, 2).iter().for_each(|train| train.write(&mut text));
                text
            };
            assert_eq!(text(1), text(1), "{}", class.name);
            assert_ne!(text(1), text(2), "{}", class.name);
        }
    }

    #[test]
    fn packets_are_in_order_and_within_the_mtu() {
        for class in CLASSES {
            for train in class.trains(3, 4) {
                assert!(train.packets.is_sorted_by_key(|packet| packet.at), "{}", class.name);
                assert!(train.packets.iter().all(|packet| (SIZES[0]..=SIZES[1]).contains(&packet.size)));
                assert!(train.packets.len() >= PACKETS);
            }
        }
    }
}
