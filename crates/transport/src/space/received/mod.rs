//! Packets received in one packet number space, and their pending acknowledgments (RFC 9000 §13.2).

mod ack_state;
mod history;
mod news;
mod numbers;

use std::ops::Range;

use anabranch_wire::{Ecn, PathId, SpaceId, Time, Writer};

pub(crate) use self::ack_state::AckState;
pub(crate) use self::numbers::{Gap, Numbers, Receipt};
use crate::acknowledge::AckRule;
use crate::config::AckConfig;
use crate::token::Tokens;

/// Ranges of packet numbers chosen for one ACK frame.
type Chosen = smallvec::SmallVec<[Range<u64>; 8]>;

/// Maximum number of ranges of packet numbers that any strategy remembers or reports. It is also the number
/// remembered if paths share their numbers. Each gap costs one range, so this bounds memory and the size of
/// ACK frames.
pub(crate) const MAX_RANGES: usize = 1024;

/// Number of ranges remembered if every path has its own numbers, unless one ACK frame may contain more.
pub(crate) const DEFAULT_RANGES: usize = 64;

/// Packets received in one space (Initial, Handshake, or the 1-RTT packets of one path).
#[derive(Debug, Default)]
pub(crate) struct Received {
    /// Numbers received. If all paths share one number space, this is empty, and the connection's numbers are
    /// used.
    pub(crate) numbers: Numbers,
    pub(crate) ack: AckState,
}

impl Received {
    /// Creates the state of `path` with nothing received. The default strategy allocates no heap memory until
    /// a packet is received.
    pub(crate) fn new(path: PathId, config: &AckConfig) -> Self {
        Self { numbers: Numbers::new(config), ack: AckState::new(path) }
    }

    /// Returns the largest packet number received.
    pub(crate) fn largest(&self) -> Option<u64> {
        self.numbers.largest()
    }

    /// Returns whether `pn` was received before, or is below the remembered numbers.
    pub(crate) fn is_duplicate(&self, pn: u64) -> bool {
        self.numbers.is_duplicate(pn)
    }

    /// Records a received packet. It must not be a duplicate, and all its frames must have been processed.
    pub(crate) fn on_packet(
        &mut self,
        now: Time,
        pn: u64,
        ack_eliciting: bool,
        ecn: Option<Ecn>,
        policy: &AckRule,
    ) {
        let packets = Packets { numbers: pn..pn + 1, ack_eliciting, ecn };
        receive(&mut self.numbers, &mut self.ack, now, packets, policy);
    }

    /// Calls [`AckState::write_ack`] with the numbers of this space.
    pub(crate) fn write_ack(
        &mut self,
        now: Time,
        w: &mut Writer<'_>,
        form: AckForm,
        tokens: &mut Tokens,
    ) -> usize {
        self.ack.write_ack(now, w, form, &mut self.numbers, tokens)
    }
}

/// Packets that arrived one after another with consecutive numbers and the same ECN codepoint.
#[derive(Clone, Debug)]
pub(crate) struct Packets {
    pub(crate) numbers: Range<u64>,
    pub(crate) ack_eliciting: bool,
    pub(crate) ecn: Option<Ecn>,
}

/// Form of an ACK frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AckForm {
    /// Packet number space.
    pub(crate) space: SpaceId,
    /// `true` for a PATH_ACK frame.
    pub(crate) multipath: bool,
    /// Exponent of the ACK Delay field (RFC 9000 §19.3).
    pub(crate) ack_delay_exponent: u64,
}

/// Records packets in the numbers of their space and in the ACK state of their path.
#[inline]
pub(crate) fn receive(
    numbers: &mut Numbers,
    ack: &mut AckState,
    now: Time,
    packets: Packets,
    policy: &AckRule,
) {
    let Packets { numbers: came, ack_eliciting, ecn } = packets;
    numbers.insert(ack.path, came.clone(), ack_eliciting, ecn);
    ack.on_packets(now, came, ack_eliciting, ecn, numbers, policy);
}

#[cfg(test)]
mod tests;
