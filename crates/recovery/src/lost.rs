//! Packets declared lost. They are kept for a while, because a late acknowledgment may show that the loss was
//! spurious.

use std::collections::VecDeque;

use anabranch_wire::Time;

use crate::sent::Sent;

/// Maximum number of lost packets kept in one space. The oldest ones are removed first.
pub(crate) const MAX_REMEMBERED: usize = 1024;

/// Packet declared lost.
#[derive(Debug)]
pub(crate) struct Lost<T> {
    pub(crate) order: u64,
    pub(crate) sent: Sent<T>,
    /// Congestion epoch of the loss; 0 for none.
    pub(crate) epoch: u32,
    expires: Time,
}

/// Lost packets by ascending order. They are added in that order, because a packet is never declared lost
/// before an older one.
#[derive(Debug)]
pub(crate) struct LostPackets<T> {
    packets: VecDeque<Lost<T>>,
}

impl<T> LostPackets<T> {
    pub(crate) fn new() -> Self {
        Self { packets: VecDeque::new() }
    }

    /// Frees memory beyond that of the remembered packets.
    pub(crate) fn shrink(&mut self) {
        self.packets.shrink_to_fit();
    }

    pub(crate) fn push(&mut self, order: u64, sent: Sent<T>, epoch: u32, expires: Time) {
        if self.packets.len() == MAX_REMEMBERED {
            self.packets.pop_front();
        }
        self.packets.push_back(Lost { order, sent, epoch, expires });
    }

    /// Detaches all losses from their congestion epochs, because congestion control restarts.
    pub(crate) fn disown(&mut self) {
        self.packets.iter_mut().for_each(|lost| lost.epoch = 0);
    }

    /// Returns the order of the oldest packet that has not expired at `now`.
    pub(crate) fn oldest(&self, now: Time) -> Option<u64> {
        self.packets.iter().find(|lost| lost.expires > now).map(|lost| lost.order)
    }

    /// Removes the packets that have expired at `now`.
    pub(crate) fn expire(&mut self, now: Time) {
        while self.packets.front().is_some_and(|lost| lost.expires <= now) {
            self.packets.pop_front();
        }
    }

    /// Removes the packets in `low..=high` and passes them to `each`.
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
