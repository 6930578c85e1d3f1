//! State of the peer's address on a path: whether it is validated, pending validations, and previous
//! addresses.

use anabranch_wire::ConnectionId;

use super::validation::{Responses, Validation};
use crate::datagram_io::FourTuple;

/// Addresses of a path before its migration. The path returns to them if the new ones fail.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Previous {
    pub(crate) tuple: FourTuple,
    pub(crate) dcid_sequence: u64,
}

/// Peer's connection ID for packets to addresses that the path does not use (yet).
#[derive(Clone, Copy, Debug)]
pub(crate) struct SideCid {
    pub(crate) tuple: FourTuple,
    pub(crate) sequence: u64,
    pub(crate) cid: ConnectionId,
}

/// Validation of a path's present, previous and future addresses (RFC 9000 §8, §9).
#[derive(Debug, Default)]
pub(crate) struct AddressState {
    /// `true` once the peer has been shown to receive at the path's remote address.
    pub(crate) validated: bool,
    /// `true` if this end has chosen the path's local address. Packets that arrive at other local addresses
    /// then do not change it.
    pub(crate) chose_local: bool,
    /// Bytes received from the remote address while it is not validated.
    pub(crate) received: u64,
    /// Bytes sent to the remote address while it is not validated.
    pub(crate) sent: u64,
    /// Validations in progress: of the path's present, previous and future addresses. At most
    /// [`MAX_VALIDATIONS`](super::MAX_VALIDATIONS).
    pub(crate) validations: Vec<Validation>,
    /// PATH_RESPONSE frames to send.
    pub(crate) responses: Responses,
    /// `true` if a PATH_RESPONSE may be sent even if the congestion window is full: a probe timeout has
    /// expired since the last such response.
    pub(crate) probe_response: bool,
    /// Addresses to return to if the new ones fail.
    pub(crate) previous: Option<Box<Previous>>,
    /// Peer's connection ID for other addresses from which the peer probes (RFC 9000 §9.5).
    pub(crate) side: Option<Box<SideCid>>,
}
