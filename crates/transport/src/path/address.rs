//! State of the peer's address of a path: validated or not, validations in progress, the addresses before.

use anabranch_wire::ConnectionId;

use super::validation::{Responses, Validation};
use crate::datagram_io::FourTuple;

/// The addresses that a path ran over before it moved, to which it returns if the new ones fail.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Previous {
    pub(crate) tuple: FourTuple,
    pub(crate) dcid_sequence: u64,
}

/// The connection ID for packets to addresses that the path does not run over (yet).
#[derive(Clone, Copy, Debug)]
pub(crate) struct SideCid {
    pub(crate) tuple: FourTuple,
    pub(crate) sequence: u64,
    pub(crate) cid: ConnectionId,
}

/// Validation of the addresses that a path runs over, ran over, or may move to (RFC 9000 §8, §9).
#[derive(Debug, Default)]
pub(crate) struct AddressState {
    /// True once the peer has been shown to receive at the path's remote address.
    pub(crate) validated: bool,
    /// True if this end has chosen the path's local address: packets to other addresses do not change it.
    pub(crate) chose_local: bool,
    /// Bytes received from the remote address while it is not validated.
    pub(crate) received: u64,
    /// Bytes sent to the remote address while it is not validated.
    pub(crate) sent: u64,
    /// Validations in progress: of the path's addresses, of those before, of those to move to. At most
    /// [`MAX_VALIDATIONS`](super::MAX_VALIDATIONS).
    pub(crate) validations: Vec<Validation>,
    /// PATH_RESPONSE frames that are owed.
    pub(crate) responses: Responses,
    /// True if a PATH_RESPONSE may leave although the congestion window is full: a probe timeout has expired
    /// since the last one that did.
    pub(crate) probe_response: bool,
    /// Addresses to return to if the new ones fail.
    pub(crate) previous: Option<Box<Previous>>,
    /// Connection ID of the peer for other addresses that it probes from (RFC 9000 §9.5).
    pub(crate) side: Option<Box<SideCid>>,
}
