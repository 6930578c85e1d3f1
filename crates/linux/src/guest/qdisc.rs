//! One direction of a link as queueing disciplines of one device: three nested netem disciplines.
//!
//! The outermost discipline delays packets. The middle one is the transmitter with its drop-tail queue. The
//! innermost one loses packets after their transmission. A constant delay gives the same arrivals before and
//! after the transmitter. The delay is before it, so that delayed packets do not count towards the queue.

use std::io;

use netlink_packet_core::{DefaultNla, NLM_F_CREATE, NLM_F_EXCL, NlaBuffer, NlasIterator};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage};

use super::netlink::{Netlink, attribute, bytes};
use crate::order::{Properties, Way};

/// Attributes of netem (`linux/pkt_sched.h`).
const RATE: u16 = 6;
const RATE64: u16 = 8;
const LATENCY64: u16 = 10;
const PRNG_SEED: u16 = 14;
const TCA_OPTIONS: u16 = 2;
const TCA_STATS2: u16 = 7;
const TCA_STATS_QUEUE: u16 = 3;
/// Number of bytes of an Ethernet header, which do not count on the lab's links.
const ETHERNET: i32 = 14;
/// Limit in packets for a discipline that must not drop any packet because of its limit.
const ENDLESS: u32 = 1_000_000;

/// Handles of the three disciplines.
const DELAY: TcHandle = TcHandle { major: 1, minor: 0 };
const RATE_LIMIT: TcHandle = TcHandle { major: 2, minor: 0 };
const LOSS: TcHandle = TcHandle { major: 3, minor: 0 };

/// Sets up the disciplines on the device `index`.
pub(super) fn create(netlink: &mut Netlink, index: i32, way: &Way, seed: u64) -> io::Result<()> {
    let all =
        [TcHandle::ROOT, child(DELAY), child(RATE_LIMIT)].into_iter().zip(options(way, &way.first, seed));
    let loses = way.first.loss > 0.0 || way.changes.iter().any(|(_, later)| later.loss > 0.0);
    for (parent, (handle, options)) in all.take(if loses { 3 } else { 2 }) {
        set(netlink, index, [parent, handle], options, NLM_F_CREATE | NLM_F_EXCL)?;
    }
    Ok(())
}

/// Changes the disciplines from `before` to `now`. Packets that already wait are not affected. `seed` is the
/// seed of the losses after the change.
pub(super) fn change(
    netlink: &mut Netlink,
    index: i32,
    way: &Way,
    (before, now): (&Properties, &Properties),
    seed: u64,
) -> io::Result<()> {
    let changed = [before.delay_ns != now.delay_ns, before.rate_bps != now.rate_bps, before.loss != now.loss];
    let all = [TcHandle::ROOT, child(DELAY), child(RATE_LIMIT)].into_iter().zip(options(way, now, seed));
    for ((parent, (handle, options)), _) in all.zip(changed).filter(|(_, changed)| *changed) {
        set(netlink, index, [parent, handle], options, 0)?;
    }
    Ok(())
}

/// Returns the number of packets that did not fit into the queue of the device.
pub(super) fn overflows(netlink: &mut Netlink, index: i32) -> io::Result<u64> {
    let asked = TcMessage::with_index(index);
    let answers = netlink.dump(RouteNetlinkMessage::GetQueueDiscipline(asked))?;
    for body in answers.iter().map(|answer| &answer.body) {
        // struct tcmsg: family and padding, index, handle, parent, info.
        let field = |at: usize| {
            body.get(at..at + 4).and_then(|bytes| Some(u32::from_ne_bytes(bytes.try_into().ok()?)))
        };
        if field(4) != Some(index as u32) || field(8) != Some(u32::from(RATE_LIMIT)) {
            continue;
        }
        for entry in NlasIterator::new(&body[20..]) {
            let entry: NlaBuffer<&[u8]> = entry.map_err(io::Error::other)?;
            if entry.kind() != TCA_STATS2 {
                continue;
            }
            for counts in NlasIterator::new(entry.value()) {
                let counts: NlaBuffer<&[u8]> = counts.map_err(io::Error::other)?;
                // struct gnet_stats_queue: qlen, backlog, drops, requeues, overlimits.
                if let (TCA_STATS_QUEUE, Some(drops)) = (counts.kind(), counts.value().get(8..12)) {
                    return Ok(drops.try_into().map(u32::from_ne_bytes).map_or(0, u64::from));
                }
            }
        }
    }
    Ok(0)
}

/// Returns the handle under which the discipline within `parent` is attached.
const fn child(parent: TcHandle) -> TcHandle {
    TcHandle { major: parent.major, minor: 1 }
}

/// Returns the options of the three disciplines, with their handles.
fn options(way: &Way, now: &Properties, seed: u64) -> [(TcHandle, Vec<u8>); 3] {
    let rate = now.rate_bps / 8;
    let narrow = u32::try_from(rate).unwrap_or(u32::MAX);
    let rate_table = [narrow.to_ne_bytes(), (-ETHERNET).to_ne_bytes(), [0; 4], [0; 4]].concat();
    let mut transmitter = vec![attribute(RATE, rate_table)];
    if rate > u64::from(u32::MAX) {
        transmitter.push(attribute(RATE64, rate.to_ne_bytes()));
    }
    let delay = i64::try_from(now.delay_ns).unwrap_or(i64::MAX);
    [
        (DELAY, netem(ENDLESS, 0.0, &[attribute(LATENCY64, delay.to_ne_bytes())])),
        // The limit includes the packet in transmission.
        (RATE_LIMIT, netem(way.queue_packets.saturating_add(1), 0.0, &transmitter)),
        (LOSS, netem(ENDLESS, now.loss, &[attribute(PRNG_SEED, seed.to_ne_bytes())])),
    ]
}

/// Returns the options of netem: `struct tc_netem_qopt`, then attributes.
fn netem(limit: u32, loss: f64, attributes: &[DefaultNla]) -> Vec<u8> {
    let loss = (loss * f64::from(u32::MAX)).round() as u32;
    let qopt = [0, limit, loss, 0, 0, 0].map(u32::to_ne_bytes).concat();
    [qopt, bytes(attributes)].concat()
}

fn set(
    netlink: &mut Netlink,
    index: i32,
    [parent, handle]: [TcHandle; 2],
    options: Vec<u8>,
    flags: u16,
) -> io::Result<()> {
    let mut message = TcMessage::with_index(index);
    message.header.parent = parent;
    message.header.handle = handle;
    message.attributes =
        vec![TcAttribute::Kind("netem".to_owned()), TcAttribute::Other(attribute(TCA_OPTIONS, options))];
    netlink.change(RouteNetlinkMessage::NewQueueDiscipline(message), flags)
}
