//! Properties that all packets of a datagram share, and the reasons for which a packet is not processed.

use anabranch_wire::Ecn;

use crate::datagram_io::FourTuple;
use crate::error::{TransportError, violation};
use crate::trace::DropReason;

/// A datagram's properties that its packets share.
#[derive(Clone, Copy, Debug)]
pub(in crate::connection) struct Envelope<'a> {
    pub(in crate::connection) tuple: &'a FourTuple,
    pub(in crate::connection) ecn: Option<Ecn>,
    pub(in crate::connection) len: usize,
    /// There is one path, which runs over just these addresses.
    pub(in crate::connection) is_on_only_path: bool,
    /// Others came with it, so that its mask is there already.
    pub(in crate::connection) is_one_of_many: bool,
}

/// Reason that a packet is not processed further.
pub(in crate::connection) enum Stop {
    Drop(DropReason),
    Fail(TransportError),
}

impl From<TransportError> for Stop {
    fn from(error: TransportError) -> Self {
        Self::Fail(error)
    }
}

/// Checks the reserved bits, which count only once the packet is authentic (RFC 9000 §17.2, §17.3.1).
pub(in crate::connection) fn check_reserved(are_zero: bool) -> Result<(), TransportError> {
    if are_zero { Ok(()) } else { Err(violation("reserved bits are not zero")) }
}
