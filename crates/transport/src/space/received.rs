//! What was received in one packet number space, and the acknowledgments owed for it (RFC 9000 §13.2).

mod debt;
mod numbers;

use std::time::Duration;

use anabranch_wire::{Ecn, PathId, SpaceId, Time, Writer};

pub(crate) use self::debt::Debt;
pub(crate) use self::numbers::Numbers;
use crate::token::Tokens;

/// Most ranges of packet numbers that any policy may keep; the default policy keeps 64. Each hole that a peer leaves
/// costs one range, so this bounds both memory and the size of ACK frames.
pub(crate) const MAX_RANGES: usize = 1024;

/// When acknowledgments leave and how much they say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AckPolicy {
    /// Ack-eliciting packets that make an ACK leave at once: 1 acknowledges each of them. (An ACK_FREQUENCY frame's
    /// threshold is one less.)
    pub(crate) threshold: u64,
    /// Longest deliberate delay of an ACK.
    pub(crate) max_delay: Duration,
    /// 0: reordering never makes an ACK leave at once. 1: every packet out of order does (RFC 9000 §13.2.1). More: an
    /// unreported hole this far below the largest packet does (draft-ietf-quic-ack-frequency §6.2).
    pub(crate) reordering_threshold: u64,
    /// Ranges remembered, and named by one ACK frame at most; above [`MAX_RANGES`] counts as that.
    pub(crate) max_ranges: usize,
}

impl AckPolicy {
    fn max_ranges(&self) -> usize {
        self.max_ranges.clamp(1, MAX_RANGES)
    }
}

/// The packets received in one space (Initial, Handshake, or the 1-RTT packets of one path).
#[derive(Debug, Default)]
pub(crate) struct Received {
    /// Empty, and the connection's own in use, if all paths share one number space.
    pub(crate) numbers: Numbers,
    pub(crate) debt: Debt,
}

impl Received {
    /// Nothing received; no heap until something is.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Largest packet number received.
    pub(crate) fn largest(&self) -> Option<u64> {
        self.numbers.largest()
    }

    /// Whether `pn` was received before, or lies below what is remembered.
    pub(crate) fn is_duplicate(&self, pn: u64) -> bool {
        self.numbers.is_duplicate(pn)
    }

    /// A packet that is not a duplicate was received and all its frames processed.
    pub(crate) fn on_packet(
        &mut self,
        now: Time,
        pn: u64,
        ack_eliciting: bool,
        ecn: Option<Ecn>,
        policy: &AckPolicy,
    ) {
        receive(&mut self.numbers, &mut self.debt, now, pn, ack_eliciting, ecn, policy);
    }

    /// Like [`Debt::write_ack`].
    #[expect(clippy::too_many_arguments, reason = "what an ACK frame depends on, once per packet")]
    pub(crate) fn write_ack(
        &mut self,
        now: Time,
        w: &mut Writer<'_>,
        space: SpaceId,
        path: PathId,
        multipath: bool,
        ack_delay_exponent: u64,
        policy: &AckPolicy,
        tokens: &mut Tokens,
    ) -> bool {
        let Self { numbers, debt } = self;
        debt.write_ack(now, w, space, path, multipath, ack_delay_exponent, numbers, policy, tokens)
    }
}

/// Notes a packet among the numbers of its space and in the debt of its path.
pub(crate) fn receive(
    numbers: &mut Numbers,
    debt: &mut Debt,
    now: Time,
    pn: u64,
    ack_eliciting: bool,
    ecn: Option<Ecn>,
    policy: &AckPolicy,
) {
    numbers.insert(pn, ecn);
    debt.on_packet(now, pn, ack_eliciting, ecn, numbers, policy);
    numbers.forget(policy);
}

#[cfg(test)]
mod tests;
