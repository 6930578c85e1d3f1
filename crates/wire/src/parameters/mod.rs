//! Transport parameters (RFC 9000 §18), which the TLS handshake carries.

mod value;

pub use value::{MAX_AVAILABLE_VERSIONS, PreferredAddress, VersionInformation};

use crate::code::TransportErrorCode;
use crate::cursor::{Direction, Malformed, Reader};
use crate::frame::MAX_STREAM_COUNT;
use crate::varint::{MAX_VARINT, push_varint};
use crate::{ConnectionId, ResetToken, Side};
use value::Value;

/// Minimum max_udp_payload_size, and the UDP payload size that every path must support, in bytes (RFC 9000
/// §14, §18.2).
pub const MIN_UDP_PAYLOAD: u64 = 1200;
/// Maximum ack_delay_exponent (RFC 9000 §18.2).
pub const MAX_ACK_DELAY_EXPONENT: u64 = 20;
/// Lowest invalid max_ack_delay, in milliseconds (RFC 9000 §18.2).
pub const ACK_DELAY_LIMIT: u64 = 1 << 14;

/// Reason that transport parameters are rejected. The connection is closed with [`ParameterError::code`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ParameterError {
    /// Always TRANSPORT_PARAMETER_ERROR.
    pub code: TransportErrorCode,
    /// Human-readable reason.
    pub reason: &'static str,
}

impl ParameterError {
    const fn new(reason: &'static str) -> Self {
        Self { code: TransportErrorCode::TRANSPORT_PARAMETER_ERROR, reason }
    }
}

impl From<Malformed> for ParameterError {
    fn from(_: Malformed) -> Self {
        Self::new("transport parameter is truncated")
    }
}

/// Defines every parameter once: identifier, permitted sender, field, type and default.
macro_rules! parameters {
    ($($(#[$doc:meta])* $id:literal from $from:ident: $field:ident: $type:ty = $default:expr;)*) => {
        /// Transport parameters of one endpoint. Absent parameters have the RFCs' defaults.
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct TransportParameters {
            $($(#[$doc])* pub $field: $type,)*
        }

        impl Default for TransportParameters {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }

        /// Identifiers, with the endpoints that may send them.
        const LIST: &[(u64, Sender)] = &[$(($id, Sender::$from)),*];

        impl TransportParameters {
            fn encode_changed(&self, out: &mut Vec<u8>) {
                let default = Self::default();
                let mut value = Vec::new();
                $(if self.$field != default.$field {
                    value.clear();
                    self.$field.write(&mut value);
                    push(out, $id, &value);
                })*
            }

            fn read(&mut self, id: u64, reader: &mut Reader<'_>) -> Result<(), ParameterError> {
                match id {
                    $($id => self.$field = Value::read(reader)?,)*
                    _ => return Ok(()),
                }
                require(reader.is_empty(), "transport parameter is longer than its value")
            }
        }
    };
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sender {
    Both,
    Client,
    Server,
}

parameters! {
    /// Destination Connection ID of the client's first Initial packet (RFC 9000 §7.3).
    0x00 from Server: original_destination_connection_id: Option<ConnectionId> = None;
    /// Idle timeout, in milliseconds; 0 disables it.
    0x01 from Both: max_idle_timeout: u64 = 0;
    /// Stateless reset token of the connection ID that the server used in the handshake.
    0x02 from Server: stateless_reset_token: Option<ResetToken> = None;
    /// Maximum UDP payload that the sender accepts, in bytes; at least [`MIN_UDP_PAYLOAD`].
    0x03 from Both: max_udp_payload_size: u64 = 65527;
    /// Initial limit of data on all streams together, in bytes.
    0x04 from Both: initial_max_data: u64 = 0;
    /// Initial limit of data on each bidirectional stream that the sender of this parameter opens, in bytes.
    0x05 from Both: initial_max_stream_data_bidi_local: u64 = 0;
    /// Initial limit of data on each bidirectional stream that the receiver of this parameter opens, in
    /// bytes.
    0x06 from Both: initial_max_stream_data_bidi_remote: u64 = 0;
    /// Initial limit of data on each unidirectional stream, in bytes.
    0x07 from Both: initial_max_stream_data_uni: u64 = 0;
    /// Initial maximum number of bidirectional streams that the receiver of this parameter may open.
    0x08 from Both: initial_max_streams_bidi: u64 = 0;
    /// Initial maximum number of unidirectional streams that the receiver of this parameter may open.
    0x09 from Both: initial_max_streams_uni: u64 = 0;
    /// Exponent of the delay in ACK frames, at most [`MAX_ACK_DELAY_EXPONENT`].
    0x0a from Both: ack_delay_exponent: u64 = 3;
    /// Maximum delay of acknowledgments, in milliseconds; below [`ACK_DELAY_LIMIT`].
    0x0b from Both: max_ack_delay: u64 = 25;
    /// `true` if the peer must not migrate actively to another local address while it uses the address from
    /// the handshake (RFC 9000 §18.2).
    0x0c from Both: disable_active_migration: bool = false;
    /// Address to which the server wants the client to migrate after the handshake.
    0x0d from Server: preferred_address: Option<PreferredAddress> = None;
    /// Maximum number of the peer's connection IDs that the sender stores, at least 2; under RFC 10069, for
    /// each path.
    0x0e from Both: active_connection_id_limit: u64 = 2;
    /// Source Connection ID of the sender's first Initial packet (RFC 9000 §7.3).
    0x0f from Both: initial_source_connection_id: Option<ConnectionId> = None;
    /// Source Connection ID of the Retry packet, if the server sent one (RFC 9000 §7.3).
    0x10 from Server: retry_source_connection_id: Option<ConnectionId> = None;
    /// Versions of the sender, for authenticated version negotiation (RFC 9368 §3).
    0x11 from Both: version_information: Option<VersionInformation> = None;
    /// Maximum size of a DATAGRAM frame that the sender accepts, in bytes, including type and length; 0 for
    /// no support (RFC 9221 §3).
    0x20 from Both: max_datagram_frame_size: u64 = 0;
    /// Initial maximum path ID (RFC 10069); `None` if multipath is not supported.
    0x3e from Both: initial_max_path_id: Option<u32> = None;
    /// `true` if the peer may set the fixed bit to any value (RFC 9287).
    0x2ab2 from Both: grease_quic_bit: bool = false;
    /// Support for multipath with a single packet number space, which is not part of RFC 10069. The only
    /// permitted value is 1.
    0x29e3_d19e from Both: single_number_space: Option<u64> = None;
    /// Minimum delay of acknowledgments that the sender supports, in microseconds
    /// (draft-ietf-quic-ack-frequency).
    0xff04_de1b from Both: min_ack_delay: Option<u64> = None;
    /// `true` if a client supports alternative server addresses
    /// (draft-munizaga-quic-alternative-server-address).
    0xff_0969_d85c from Client: alternative_address: bool = false;
}

impl TransportParameters {
    /// Appends the parameters that differ from their defaults. If `grease` is given, it selects a reserved
    /// parameter that is added (RFC 9000 §18.1).
    pub fn encode(&self, out: &mut Vec<u8>, grease: Option<u64>) {
        self.encode_changed(out);
        if let Some(seed) = grease {
            let id = 31 * (seed % (MAX_VARINT / 31)) + 27;
            let value = seed.to_be_bytes();
            push(out, id, &value[..(seed % 8) as usize]);
        }
    }

    /// Decodes the parameters that `sender` sent.
    pub fn decode(sender: Side, bytes: &[u8]) -> Result<Self, ParameterError> {
        let mut parameters = Self::default();
        let mut seen = [false; LIST.len()];
        let mut reader = Reader::new(bytes, Direction::Forward);
        while !reader.is_empty() {
            let id = reader.varint()?;
            let len = usize::try_from(reader.varint()?).map_err(|_| Malformed)?;
            let value = reader.bytes(len)?;
            // RFC 9000 §7.4.2: unknown parameters are ignored.
            let Some(index) = LIST.iter().position(|&(listed, _)| listed == id) else { continue };
            // RFC 9000 §7.4
            require(!core::mem::replace(&mut seen[index], true), "transport parameter is sent twice")?;
            // RFC 9000 §18.2
            let allowed = match LIST[index].1 {
                Sender::Both => true,
                Sender::Client => sender.is_client(),
                Sender::Server => sender.is_server(),
            };
            require(allowed, "a parameter that is for the other side to send")?;
            parameters.read(id, &mut Reader::new(value, Direction::Forward))?;
        }
        parameters.check(sender)?;
        Ok(parameters)
    }

    fn check(&self, sender: Side) -> Result<(), ParameterError> {
        // RFC 9000 §7.3
        require(self.initial_source_connection_id.is_some(), "initial_source_connection_id is missing")?;
        require(
            sender.is_client() || self.original_destination_connection_id.is_some(),
            "original_destination_connection_id is missing",
        )?;
        // RFC 9000 §18.2
        require(self.max_udp_payload_size >= MIN_UDP_PAYLOAD, "max_udp_payload_size is below 1200")?;
        require(self.ack_delay_exponent <= MAX_ACK_DELAY_EXPONENT, "ack_delay_exponent is above 20")?;
        require(self.max_ack_delay < ACK_DELAY_LIMIT, "max_ack_delay is 2^14 or more")?;
        require(self.active_connection_id_limit >= 2, "active_connection_id_limit is below 2")?;
        let streams = self.initial_max_streams_bidi.max(self.initial_max_streams_uni);
        require(streams <= MAX_STREAM_COUNT, "more than 2^60 streams")?;
        // draft-ietf-quic-ack-frequency §3
        let min_ack_delay = self.min_ack_delay.unwrap_or(0);
        require(min_ack_delay <= self.max_ack_delay * 1000, "min_ack_delay is above max_ack_delay")?;
        // Other values were defined only in drafts (draft-ietf-quic-multipath-01 §3).
        require(
            self.single_number_space.is_none_or(|value| value == 1),
            "single number space with a value but 1",
        )?;
        // RFC 9368 §3: a client's available versions include the chosen version.
        if let (Side::Client, Some(versions)) = (sender, &self.version_information) {
            require(versions.available.contains(&versions.chosen), "the chosen version is not available")?;
        }
        Ok(())
    }
}

fn push(out: &mut Vec<u8>, id: u64, value: &[u8]) {
    push_varint(out, id);
    push_varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

fn require(holds: bool, reason: &'static str) -> Result<(), ParameterError> {
    if holds { Ok(()) } else { Err(ParameterError::new(reason)) }
}

#[cfg(test)]
mod tests;
