//! Keyed hash for tables whose keys are chosen by peers.

use std::hash::BuildHasher;

use siphasher::sip::SipHasher13;

/// SipHash-1-3 with a secret key. Peers choose connection IDs and tokens, and must not be able to cause
/// collisions.
#[derive(Clone, Copy)]
pub(super) struct Keyed([u8; 16]);

impl Keyed {
    pub(super) fn new(secret: [u8; 16]) -> Self {
        Self(secret)
    }
}

impl BuildHasher for Keyed {
    type Hasher = SipHasher13;

    #[inline]
    fn build_hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_key(&self.0)
    }
}

/// Omits the secret.
impl std::fmt::Debug for Keyed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keyed")
    }
}
