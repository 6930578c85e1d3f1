//! What an end wants to use a path for (RFC 10069 §3.3).

/// Available or backup, as this end has said or as the peer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) available: bool,
    /// Sequence number of the newest word; `None` before the first.
    pub(crate) sequence: Option<u64>,
}

impl Status {
    /// Available until somebody says otherwise.
    pub(crate) const fn new() -> Self {
        Self { available: true, sequence: None }
    }

    /// This end changes its mind; false if it has not.
    pub(crate) fn change(&mut self, available: bool) -> bool {
        let changed = self.available != available;
        if changed {
            self.available = available;
            self.sequence = Some(self.sequence.map_or(0, |sequence| sequence + 1));
        }
        changed
    }

    /// The peer has said something, unless it has said something newer before.
    pub(crate) fn learn(&mut self, available: bool, sequence: u64) {
        if self.sequence.is_none_or(|newest| sequence > newest) {
            *self = Self { available, sequence: Some(sequence) };
        }
    }
}
