//! The SETTINGS frame (RFC 9114 §7.2.4, RFC 9204 §5, RFC 9220 §3, RFC 9297 §2.1.1).

use anabranch_wire::{Direction, Reader, push_varint};
use smallvec::SmallVec;

use crate::error::{Code, Error};
use crate::frame::{FrameType, write_header};
use crate::stream_type::reserved;

/// Maximum number of settings in one frame, unknown ones included.
pub const MAX_SETTINGS: usize = 64;

const QPACK_MAX_TABLE_CAPACITY: u64 = 0x1;
const MAX_FIELD_SECTION_SIZE: u64 = 0x6;
const QPACK_BLOCKED_STREAMS: u64 = 0x7;
const ENABLE_CONNECT_PROTOCOL: u64 = 0x8;
const H3_DATAGRAM: u64 = 0x33;

/// Settings of one endpoint. The default applies until its SETTINGS frame arrives, and for each absent
/// setting.
///
/// ```
/// use anabranch_http3::Settings;
///
/// let mut settings = Settings::default();
/// settings.h3_datagram = true;
/// settings.max_field_section_size = Some(65_536);
/// let mut payload = Vec::new();
/// // `None` adds no setting with a reserved identifier (RFC 9114 §7.2.4.1).
/// settings.encode(None, &mut payload);
/// assert_eq!(Settings::decode(&payload).unwrap(), settings);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settings {
    /// Maximum capacity of the dynamic table that the endpoint's QPACK decoder permits, in bytes.
    pub qpack_max_table_capacity: u64,
    /// Maximum number of streams that may be blocked at the endpoint's QPACK decoder.
    pub qpack_blocked_streams: u64,
    /// Maximum size of a field section that the endpoint accepts, in bytes after decoding (RFC 9114 §4.2.2);
    /// `None` if unlimited.
    pub max_field_section_size: Option<u64>,
    /// `true` if the endpoint accepts extended CONNECT.
    pub enable_connect_protocol: bool,
    /// `true` if the endpoint accepts HTTP datagrams.
    pub h3_datagram: bool,
}

impl Settings {
    /// Decodes the payload of a SETTINGS frame. Unknown settings are ignored.
    ///
    /// # Errors
    ///
    /// Returns H3_FRAME_ERROR if the payload ends inside a setting. Returns H3_SETTINGS_ERROR if a setting
    /// occurs twice, belongs to HTTP/2 (RFC 9114 §7.2.4.1), or is a flag with a value other than 0 and 1.
    /// Returns H3_EXCESSIVE_LOAD if there are more than [`MAX_SETTINGS`].
    pub fn decode(payload: &[u8]) -> Result<Self, Error> {
        let mut settings = Self::default();
        let mut seen = SmallVec::<[u64; 16]>::new();
        let mut reader = Reader::new(payload, Direction::Forward);
        while !reader.is_empty() {
            let truncated = |_| Error::new(Code::FRAME_ERROR, "SETTINGS end inside a setting");
            let identifier = reader.varint().map_err(truncated)?;
            let value = reader.varint().map_err(truncated)?;
            if seen.contains(&identifier) {
                return Err(settings_error(identifier, "is there twice"));
            }
            if seen.len() == MAX_SETTINGS {
                return Err(Error::new(Code::EXCESSIVE_LOAD, "too many settings"));
            }
            seen.push(identifier);
            settings.set(identifier, value)?;
        }
        Ok(settings)
    }

    /// Appends the payload of a SETTINGS frame to `out`. Settings with their default value are omitted.
    /// `grease` may be any number and selects the reserved setting that is added (RFC 9114 §7.2.4.1).
    pub fn encode(&self, grease: Option<u64>, out: &mut Vec<u8>) {
        let mut write = |identifier, value| {
            push_varint(out, identifier);
            push_varint(out, value);
        };
        if self.qpack_max_table_capacity != 0 {
            write(QPACK_MAX_TABLE_CAPACITY, self.qpack_max_table_capacity);
        }
        if let Some(size) = self.max_field_section_size {
            write(MAX_FIELD_SECTION_SIZE, size);
        }
        if self.qpack_blocked_streams != 0 {
            write(QPACK_BLOCKED_STREAMS, self.qpack_blocked_streams);
        }
        if self.enable_connect_protocol {
            write(ENABLE_CONNECT_PROTOCOL, 1);
        }
        if self.h3_datagram {
            write(H3_DATAGRAM, 1);
        }
        if let Some(number) = grease {
            write(reserved(number), number & 0xff);
        }
    }

    /// Appends a SETTINGS frame, including its header, to `out`.
    pub fn encode_frame(&self, grease: Option<u64>, out: &mut Vec<u8>) {
        let mut payload = Vec::with_capacity(64);
        self.encode(grease, &mut payload);
        write_header(FrameType::SETTINGS, payload.len() as u64, out);
        out.extend_from_slice(&payload);
    }

    fn set(&mut self, identifier: u64, value: u64) -> Result<(), Error> {
        match identifier {
            QPACK_MAX_TABLE_CAPACITY => self.qpack_max_table_capacity = value,
            MAX_FIELD_SECTION_SIZE => self.max_field_section_size = Some(value),
            QPACK_BLOCKED_STREAMS => self.qpack_blocked_streams = value,
            ENABLE_CONNECT_PROTOCOL => self.enable_connect_protocol = flag(identifier, value)?,
            H3_DATAGRAM => self.h3_datagram = flag(identifier, value)?,
            0x0 | 0x2..=0x5 => return Err(settings_error(identifier, "is one of HTTP/2")),
            _ => {}
        }
        Ok(())
    }
}

fn flag(identifier: u64, value: u64) -> Result<bool, Error> {
    match value {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(settings_error(identifier, "is neither 0 nor 1")),
    }
}

fn settings_error(identifier: u64, what: &str) -> Error {
    Error::new(Code::SETTINGS_ERROR, format!("setting {identifier:#x} {what}"))
}

#[cfg(test)]
mod tests;
