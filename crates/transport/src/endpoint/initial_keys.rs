//! Keys of clients' first Initials, derived once for the check of the packet and for the connection.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use anabranch_tls::Keys;
use anabranch_wire::{ConnectionId, Version};

/// Maximum number of keys that are kept. Connections usually begin just after the check.
pub(crate) const MAX_INITIAL_KEYS: usize = 16;

/// Keys of Initials whose connections have not begun, oldest first.
#[derive(Debug, Default)]
pub(crate) struct InitialKeys(Mutex<VecDeque<Kept>>);

#[derive(Debug)]
struct Kept {
    version: Version,
    /// Destination Connection ID from which the keys were derived.
    dcid: ConnectionId,
    keys: Box<Keys>,
}

impl InitialKeys {
    /// Keeps keys, in place of the oldest ones if there are too many.
    pub(crate) fn keep(&self, version: Version, dcid: ConnectionId, keys: Box<Keys>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= MAX_INITIAL_KEYS {
            kept.pop_front();
        }
        kept.push_back(Kept { version, dcid, keys });
    }

    /// Removes the keys of this version and connection ID; `None` if they are not kept.
    pub(crate) fn take(&self, version: Version, dcid: &ConnectionId) -> Option<Box<Keys>> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = kept.iter().position(|one| one.version == version && one.dcid == *dcid)?;
        kept.remove(at).map(|one| one.keys)
    }
}

#[cfg(test)]
mod tests {
    use anabranch_tls::initial_keys;
    use anabranch_wire::Side;

    use super::*;

    #[test]
    fn keys_end_at_max_initial_keys_and_are_taken_once() {
        let kept = InitialKeys::default();
        let dcid = |number: usize| ConnectionId::new(&[number as u8; 8]).unwrap();
        let format = Version::V1.format().unwrap();
        for number in 0..=MAX_INITIAL_KEYS {
            let keys = initial_keys(format, &dcid(number), Side::Server);
            kept.keep(Version::V1, dcid(number), Box::new(keys));
        }
        assert!(kept.take(Version::V1, &dcid(0)).is_none(), "the oldest");
        assert!(kept.take(Version::V2, &dcid(1)).is_none(), "another version");
        assert!(kept.take(Version::V1, &dcid(1)).is_some());
        assert!(kept.take(Version::V1, &dcid(1)).is_none());
        assert_eq!(kept.0.lock().unwrap().len(), MAX_INITIAL_KEYS - 1);
    }
}
