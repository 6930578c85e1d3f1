//! IDs of servers in connection IDs.

use std::fmt;
use std::ops::Deref;

/// Maximum length of a server ID, in bytes: a nonce of 4 bytes and the first byte must fit into a connection ID, too
/// (draft-ietf-quic-load-balancers-21 §5.3).
pub const MAX_SERVER_ID_LEN: usize = 15;

/// ID of a server behind a load balancer, 1 to [`MAX_SERVER_ID_LEN`] bytes (draft-ietf-quic-load-balancers-21 §5.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerId {
    bytes: [u8; MAX_SERVER_ID_LEN],
    len: u8,
}

impl ServerId {
    /// Creates the ID; `None` if it is empty or too long.
    pub fn new(id: &[u8]) -> Option<Self> {
        if id.is_empty() {
            return None;
        }
        let mut bytes = [0; MAX_SERVER_ID_LEN];
        bytes.get_mut(..id.len())?.copy_from_slice(id);
        Some(Self { bytes, len: id.len() as u8 })
    }

    /// Returns the length in bytes.
    #[expect(clippy::len_without_is_empty, reason = "an ID is never empty")]
    pub const fn len(&self) -> usize {
        self.len as usize
    }
}

impl Deref for ServerId {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len()]
    }
}

/// Prints the ID in hexadecimal digits.
impl fmt::Display for ServerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ServerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServerId({self})")
    }
}
