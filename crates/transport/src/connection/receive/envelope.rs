//! Properties that all packets of a datagram share, and reasons for not processing a packet.

use anabranch_wire::Ecn;

use crate::datagram_io::FourTuple;
use crate::error::{TransportError, violation};
use crate::trace::DropReason;

/// Properties of a datagram that its packets share.
#[derive(Clone, Copy, Debug)]
pub(in crate::connection) struct Envelope<'a> {
    pub(in crate::connection) tuple: &'a FourTuple,
    pub(in crate::connection) ecn: Option<Ecn>,
    pub(in crate::connection) len: usize,
    /// `true` if only one path exists and it runs between these addresses.
    pub(in crate::connection) is_on_only_path: bool,
    /// `true` if the datagram arrived in a batch, so that its header protection mask is available.
    pub(in crate::connection) is_one_of_many: bool,
}

/// Reason why a packet is not processed further.
pub(in crate::connection) enum Stop {
    Drop(DropReason),
    Fail(TransportError),
}

impl From<TransportError> for Stop {
    fn from(error: TransportError) -> Self {
        Self::Fail(error)
    }
}

/// Checks the reserved bits, which are meaningful only in an authentic packet (RFC 9000 §17.2, §17.3.1).
pub(in crate::connection) fn check_reserved(are_zero: bool) -> Result<(), TransportError> {
    if are_zero { Ok(()) } else { Err(violation("reserved bits are not zero")) }
}
