//! Pseudo-headers that no table may contain (RFC 9204 §7.1.3).

use http::Extensions;

/// Names of the pseudo-headers that arrived in never-indexed lines. A message that is forwarded has them in its extensions, so
/// that their lines are never indexed again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct NeverIndexed(u8);

impl NeverIndexed {
    /// Returns the names in the extensions of a message.
    pub(super) fn of(extensions: &Extensions) -> Self {
        extensions.get().copied().unwrap_or_default()
    }

    /// Adds a name, which is given without its colon. Unknown names make a message malformed anyway.
    pub(super) const fn add(&mut self, pseudo: &[u8]) {
        self.0 |= bit(pseudo);
    }

    /// Returns whether the name is one of them.
    pub(super) const fn contains(self, pseudo: &[u8]) -> bool {
        self.0 & bit(pseudo) != 0
    }

    /// Adds the names to the extensions of a message.
    pub(super) fn mark(self, extensions: &mut Extensions) {
        if self != Self::default() {
            extensions.insert(self);
        }
    }
}

const fn bit(pseudo: &[u8]) -> u8 {
    match pseudo {
        b"method" => 1,
        b"scheme" => 2,
        b"authority" => 4,
        b"path" => 8,
        b"protocol" => 16,
        b"status" => 32,
        _ => 0,
    }
}
