//! Packets declared lost, remembered for a while: an acknowledgment may still arrive and show that they were
//! not.

use std::collections::VecDeque;

use anabranch_wire::Time;

use crate::sent::Sent;

/// Lost packets one space remembers; the oldest give way.
pub(crate) const MAX_REMEMBERED: usize = 1024;

/// A packet declared lost.
#[derive(Debug)]
pub(crate) struct Lost<T> {
    pub(crate) order: u64,
    pub(crate) sent: Sent<T>,
    /// Congestion epoch that the loss belongs to; 0 for none.
    pub(crate) epoch: u32,
    expires: Time,
}

/// Lost packets by ascending order. They are lost in that order: a packet is never lost before an older one.
#[derive(Debug)]
pub(crate) struct LostPackets<T> {
    packets: VecDeque<Lost<T>>,
}

impl<T> LostPackets<T> {
    pub(crate) fn new() -> Self {
        Self { packets: VecDeque::new() }
    }

    pub(crate) fn push(&mut self, order: u64, sent: Sent<T>, epoch: u32, expires: Time) {
        if self.packets.len() == MAX_REMEMBERED {
            self.packets.pop_front();
        }
        self.packets.push_back(Lost { order, sent, epoch, expires });
    }

    /// Removes all losses from their epochs after the path changed.
    pub(crate) fn disown(&mut self) {
        self.packets.iter_mut().for_each(|lost| lost.epoch = 0);
    }

    /// Returns the oldest order that is remembered at `now`.
    pub(crate) fn oldest(&self, now: Time) -> Option<u64> {
        self.packets.iter().find(|lost| lost.expires > now).map(|lost| lost.order)
    }

    /// Forgets what was lost too long ago.
    pub(crate) fn expire(&mut self, now: Time) {
        while self.packets.front().is_some_and(|lost| lost.expires <= now) {
            self.packets.pop_front();
        }
    }

    /// Takes the remembered packets in `low..=high` out.
    pub(crate) fn take(&mut self, low: u64, high: u64, each: impl FnMut(Lost<T>)) {
        if self.packets.is_empty() {
            return;
        }
        let start = self.packets.partition_point(|lost| lost.order < low);
        let end = self.packets.partition_point(|lost| lost.order <= high);
        self.packets.drain(start..end).for_each(each);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_losses_are_remembered_up_to_a_bound() {
        let mut lost = LostPackets::new();
        for order in 0..3 * MAX_REMEMBERED as u64 {
            let sent = Sent {
                time: Time::ZERO,
                size: 1_200,
                ack_eliciting: true,
                in_flight: true,
                ect: false,
                mtu_probe: false,
                owed: order,
            };
            lost.push(order, sent, 1, Time::from_millis(1_000));
            assert!(lost.packets.len() <= MAX_REMEMBERED);
        }
        assert_eq!(lost.oldest(Time::ZERO), Some(2 * MAX_REMEMBERED as u64));
        lost.expire(Time::from_millis(1_000));
        assert_eq!(lost.packets.len(), 0);
    }
}
