//! Status of a path, available or backup, as an end announces it (RFC 10069 §3.3).

/// Use of a path that an end announces to its peer (RFC 10069 §3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PathStatus {
    /// Used for data like other available paths.
    Available,
    /// Used only if no other path works.
    Backup,
}

impl PathStatus {
    /// Returns whether the path is available, not a backup.
    pub const fn is_available(self) -> bool {
        matches!(self, Self::Available)
    }
}

/// Available or backup, as one of the ends has announced it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) available: bool,
    /// Next sequence number: one more than that of the newest status frame, 0 before the first.
    next: u64,
}

impl Status {
    /// Creates the initial status: available, without any frame sent or received.
    pub(crate) const fn new() -> Self {
        Self { available: true, next: 0 }
    }

    /// Announces the status if it has not been announced yet. Returns the sequence number of the newest
    /// announcement.
    pub(crate) fn announce(&mut self) -> u64 {
        self.next = self.next.max(1);
        self.next - 1
    }

    /// Returns the sequence number of the newest frame; `None` before the first.
    pub(crate) fn sequence(&self) -> Option<u64> {
        self.next.checked_sub(1)
    }

    /// Changes the status that this endpoint announces. Returns `false` if it stays the same.
    pub(crate) fn change(&mut self, available: bool) -> bool {
        let changed = self.available != available;
        if changed {
            self.available = available;
            self.next += 1;
        }
        changed
    }

    /// Announces the status again with a new sequence number. Returns `false` if it has never been announced.
    pub(crate) fn repeat(&mut self) -> bool {
        let said = self.next > 0;
        self.next += u64::from(said);
        said
    }

    /// Stores a status from the peer, unless the peer has sent a newer one before.
    pub(crate) fn learn(&mut self, available: bool, sequence: u64) {
        // A sequence number is a varint, so the next one fits.
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
    /// `true` if a PATH_STATUS frame must be sent.
    pub(crate) is_owed: bool,
}

impl Statuses {
    /// Creates the statuses of a path for which neither end has sent a frame.
    pub(crate) const fn new() -> Self {
        Self { local: Status::new(), peer: Status::new(), is_owed: false }
    }
}
