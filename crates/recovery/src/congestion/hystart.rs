//! HyStart++ (RFC 9406): ends slow start when the round-trip time begins to rise, before packets are lost.

use core::time::Duration;

use super::Acked;
use super::exit::{Exit, Growth};
use super::rounds::Rounds;
use crate::rate::bytes_in;

/// Lower bound of the rise of the round-trip time that starts Conservative Slow Start (RFC 9406 §4.3).
const MIN_RTT_THRESH: Duration = Duration::from_millis(4);
/// Upper bound of the rise of the round-trip time that starts Conservative Slow Start (RFC 9406 §4.3).
const MAX_RTT_THRESH: Duration = Duration::from_millis(16);
/// Divisor of the last round's minimum round-trip time. The quotient, limited to the two bounds above, is the
/// rise that starts Conservative Slow Start (RFC 9406 §4.3).
const MIN_RTT_DIVISOR: u32 = 8;
/// Number of samples that a round needs for a comparison (RFC 9406 §4.3).
const N_RTT_SAMPLE: u32 = 8;
/// Factor by which Conservative Slow Start grows more slowly than slow start (RFC 9406 §4.3).
const CSS_GROWTH_DIVISOR: u64 = 4;
/// Number of rounds of Conservative Slow Start after which slow start ends (RFC 9406 §4.3).
const CSS_ROUNDS: u32 = 5;

/// Maximum window in Conservative Slow Start, as a multiple of the bytes that the path delivers in its
/// minimum round-trip time. A larger window would only fill the queue until it overflows, and with a long
/// queue losses are detected late.
const MAX_FILL: (u64, u64) = (7, 4);

/// State of HyStart++ in the initial slow start of a path.
#[derive(Clone, Debug, Default)]
pub struct HyStart {
    rounds: Rounds,
    last_round_min: Option<Duration>,
    round_min: Option<Duration>,
    samples: u32,
    /// Largest delivery rate so far, in bytes per second.
    rate: u64,
    /// In Conservative Slow Start: the round-trip time that triggered it, and the number of rounds since.
    conservative: Option<(Duration, u32)>,
}

impl Exit for HyStart {
    fn is_conservative(&self) -> bool {
        self.conservative.is_some()
    }

    /// Handles an acknowledgment (RFC 9406 §4.2). Packets are paced, so the per-ACK limit L is infinite.
    fn on_acked(&mut self, ack: &Acked<'_>) -> Growth {
        self.rate = self.rate.max(ack.sample.rate.unwrap_or(0));
        if let Some(rtt) = ack.rtt_sample {
            self.round_min = Some(self.round_min.map_or(rtt, |min| min.min(rtt)));
            self.samples += 1;
        }
        if self.samples >= N_RTT_SAMPLE {
            self.judge();
        }
        if self.rounds.on_acked(ack.sample.prior_delivered, ack.delivered) {
            if let Some((_, rounds)) = &mut self.conservative {
                *rounds += 1;
                if *rounds >= CSS_ROUNDS {
                    return Growth::Done;
                }
            }
            self.last_round_min = self.round_min.take();
            self.samples = 0;
        }
        if !self.is_conservative() {
            return Growth::By(ack.growth);
        }
        let growth = ack.growth / CSS_GROWTH_DIVISOR;
        if self.rate == 0 {
            return Growth::By(growth);
        }
        let most = bytes_in(self.rate, ack.rtt.min()) * MAX_FILL.0 / MAX_FILL.1;
        Growth::By(growth.min(most.saturating_sub(ack.own.window)))
    }
}

impl HyStart {
    /// Compares this round's minimum round-trip time with that of the last round.
    fn judge(&mut self) {
        let Some(current) = self.round_min else { return };
        if let Some((baseline, _)) = self.conservative {
            // The rise did not last: resume slow start.
            if current < baseline {
                self.conservative = None;
            }
        } else if let Some(last) = self.last_round_min {
            let threshold = (last / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH);
            if current >= last + threshold {
                self.conservative = Some((current, 0));
            }
        }
    }
}
