//! Round trips counted by deliveries (draft-ietf-ccwg-bbr §5.5.1).

/// Counter of round trips. A round ends when a packet that was sent after the beginning of the round is
/// acknowledged.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rounds {
    count: u64,
    /// Bytes delivered when the round began.
    end: u64,
}

impl Rounds {
    /// Returns the number of rounds that have ended.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Begins a round at `delivered` bytes.
    pub(crate) fn start(&mut self, delivered: u64) {
        self.end = delivered;
    }

    /// Handles an acknowledged packet: `prior` bytes had been delivered when it was sent, and `delivered`
    /// have been by now. Returns whether a new round begins.
    pub(crate) fn on_acked(&mut self, prior: u64, delivered: u64) -> bool {
        let starts = prior >= self.end;
        if starts {
            self.end = delivered;
            self.count += 1;
        }
        starts
    }
}
