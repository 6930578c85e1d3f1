//! Remembered limits of an earlier connection, which apply to early data.

use anabranch_wire::{TransportErrorCode, TransportParameters};

use crate::error::TransportError;

/// Remembered limits of an earlier connection that apply to early data, except the limits of streams.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Remembered {
    pub(crate) active_connection_id_limit: u64,
    pub(crate) max_datagram_frame_size: u64,
}

impl From<&TransportParameters> for Remembered {
    fn from(parameters: &TransportParameters) -> Self {
        Self {
            active_connection_id_limit: parameters.active_connection_id_limit,
            max_datagram_frame_size: parameters.max_datagram_frame_size,
        }
    }
}

impl Remembered {
    /// Checks that a server that accepted early data has not reduced a limit (RFC 9000 §7.4.1, RFC 9221 §3).
    pub(crate) fn check(&self, new: &TransportParameters) -> Result<(), TransportError> {
        let reduced = new.active_connection_id_limit < self.active_connection_id_limit
            || new.max_datagram_frame_size < self.max_datagram_frame_size;
        if !reduced {
            return Ok(());
        }
        Err(TransportError::new(
            TransportErrorCode::PROTOCOL_VIOLATION,
            "limits are lower than those that early data was accepted under",
        ))
    }
}
