//! Status of a path: available or backup, as an end announces it (RFC 10069 §3.3).

/// Use of a path that an end announces to its peer (RFC 10069 §3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PathStatus {
    /// Used like others.
    Available,
    /// Used only if no other path works.
    Backup,
}

impl PathStatus {
    /// Returns whether the path is used like others.
    pub const fn is_available(self) -> bool {
        matches!(self, Self::Available)
    }
}

/// Available or backup, as this end has said or as the peer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) available: bool,
    /// The sequence number after that of the newest word; 0 before the first.
    next: u64,
}

impl Status {
    /// Creates the status available, of which no frame was sent or received.
    pub(crate) const fn new() -> Self {
        Self { available: true, next: 0 }
    }

    /// Says it for the first time if it has not been said yet; the sequence number of the newest word.
    pub(crate) fn announce(&mut self) -> u64 {
        self.next = self.next.max(1);
        self.next - 1
    }

    /// Returns the sequence number of the newest frame; `None` before the first.
    pub(crate) fn sequence(&self) -> Option<u64> {
        self.next.checked_sub(1)
    }

    /// Changes the status that this endpoint announces; returns `false` if it stays the same.
    pub(crate) fn change(&mut self, available: bool) -> bool {
        let changed = self.available != available;
        if changed {
            self.available = available;
            self.next += 1;
        }
        changed
    }

    /// Says the newest word once more, in a frame that is newer; false before the first.
    pub(crate) fn repeat(&mut self) -> bool {
        let said = self.next > 0;
        self.next += u64::from(said);
        said
    }

    /// Takes over a status from the peer, unless the peer has sent a newer one before.
    pub(crate) fn learn(&mut self, available: bool, sequence: u64) {
        // A sequence number is a varint, so that there is a next one.
        if sequence >= self.next {
            *self = Self { available, next: sequence + 1 };
        }
    }
}

/// Status of a path at both ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Statuses {
    /// Status that this end has sent.
    pub(crate) local: Status,
    /// Status that the peer has sent.
    pub(crate) peer: Status,
    /// True if a PATH_STATUS frame is to be sent.
    pub(crate) is_owed: bool,
}

impl Statuses {
    /// Makes the statuses of a path that neither end has spoken of.
    pub(crate) const fn new() -> Self {
        Self { local: Status::new(), peer: Status::new(), is_owed: false }
    }
}
