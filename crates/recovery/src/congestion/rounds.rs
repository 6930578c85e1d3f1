//! Round trips counted by deliveries (draft-ietf-ccwg-bbr §5.5.1).

/// A round trip ends when a packet is acknowledged that was sent after the round began.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rounds {
    count: u64,
    /// Bytes delivered when the round began.
    end: u64,
}

impl Rounds {
    /// Rounds finished so far.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Begins a round now, at `delivered` bytes.
    pub(crate) fn start(&mut self, delivered: u64) {
        self.end = delivered;
    }

    /// Counts an acknowledged packet that left when `prior` bytes were delivered; now `delivered` are.
    /// Returns whether a new round begins.
    pub(crate) fn on_acked(&mut self, prior: u64, delivered: u64) -> bool {
        let starts = prior >= self.end;
        if starts {
            self.end = delivered;
            self.count += 1;
        }
        starts
    }
}
