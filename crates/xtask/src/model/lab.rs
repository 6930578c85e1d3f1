//! Packet trains sent through the lab's link.

use core::time::Duration;
use std::net::{Ipv4Addr, SocketAddr};

use anabranch_lab::link::{Delay, LinkSpec, Queue, Rate};
use anabranch_lab::packet::{Buffers, Packet};
use anabranch_lab::random::Seed;
use anabranch_wire::Time;

use super::train::{Arrival, IPV4_UDP, Train};

/// Returns the arrivals of the train's packets. `framing` bytes are added to the size of each IP packet.
pub(super) fn run(train: &Train, framing: u32) -> Vec<Arrival> {
    let queue = Queue::new(Rate::constant(train.rate), train.limit).overhead(IPV4_UDP + framing);
    let spec = LinkSpec::default().both(queue).both(Delay(Duration::from_nanos(train.delay)));
    let [mut link, _] = spec.build(None, Seed(0), "train");
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
    let mut buffers = Buffers::default();
    let mut arrived = Vec::new();
    train
        .packets
        .iter()
        .map(|packet| {
            let payload = vec![0; packet.size.saturating_sub(IPV4_UDP) as usize];
            let sent = Packet { source: address, destination: address, ecn: None, payload };
            link.push(Time::from_nanos(packet.at), sent, &mut buffers, &mut arrived);
            arrived.pop().map(|(at, _)| at.as_nanos())
        })
        .collect()
}
