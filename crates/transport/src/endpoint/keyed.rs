//! The hash under which an endpoint looks up what its peers choose.

use std::hash::BuildHasher;

use siphasher::sip::SipHasher13;

/// SipHash-1-3 under a secret: peers choose connection IDs and tokens, and must not be able to choose
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

/// Does not show the secret.
impl std::fmt::Debug for Keyed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keyed")
    }
}
