//! Frames of the control stream (RFC 9114 §7.2, RFC 9218 §7.2).

use anabranch_wire::{Direction, Reader, push_varint, varint_len};

use super::{FrameType, write_header};
use crate::error::{Code, Error};
use crate::priority::Priority;
use crate::settings::Settings;

/// Maximum length of a control frame's payload that a reader should buffer, in bytes. Frames of unknown types
/// are skipped instead of buffered, so they may be longer.
pub const MAX_CONTROL_PAYLOAD: u64 = 4096;

/// A frame of the control stream.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ControlFrame {
    /// Settings of the sender.
    Settings(Settings),
    /// First stream ID (from a server) or push ID (from a client) that the sender will not process.
    GoAway(u64),
    /// ID of a push that the client does not want, or that the server will not send.
    CancelPush(u64),
    /// Largest push ID that the server may use.
    MaxPushId(u64),
    /// New priority of a response.
    PriorityUpdate {
        /// `true` if `element` is a push ID; it is a stream ID otherwise.
        push: bool,
        /// ID of the response.
        element: u64,
        /// Priority of the response. An invalid structured field yields the default priority, as in the
        /// header. RFC 9218 §4 permits this as well as an error.
        priority: Priority,
    },
}

impl ControlFrame {
    /// Decodes the payload of a control frame. Returns `None` if frames of type `kind` are not control
    /// frames.
    ///
    /// # Errors
    ///
    /// Returns H3_FRAME_ERROR if the fields do not fill the payload exactly, and for SETTINGS the errors of
    /// [`Settings::decode`].
    pub fn decode(kind: FrameType, payload: &[u8]) -> Result<Option<Self>, Error> {
        Ok(Some(match kind {
            FrameType::SETTINGS => Self::Settings(Settings::decode(payload)?),
            FrameType::GOAWAY => Self::GoAway(one_varint(payload)?),
            FrameType::CANCEL_PUSH => Self::CancelPush(one_varint(payload)?),
            FrameType::MAX_PUSH_ID => Self::MaxPushId(one_varint(payload)?),
            FrameType::PRIORITY_UPDATE_REQUEST | FrameType::PRIORITY_UPDATE_PUSH => {
                let mut reader = Reader::new(payload, Direction::Forward);
                let element = reader.varint().map_err(|_| frame_error())?;
                Self::PriorityUpdate {
                    push: kind == FrameType::PRIORITY_UPDATE_PUSH,
                    element,
                    priority: Priority::parse(reader.rest()),
                }
            }
            _ => return Ok(None),
        }))
    }

    /// Appends the frame, including its header, to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Settings(settings) => settings.encode_frame(None, out),
            Self::GoAway(id) => write_varint_frame(FrameType::GOAWAY, *id, out),
            Self::CancelPush(id) => write_varint_frame(FrameType::CANCEL_PUSH, *id, out),
            Self::MaxPushId(id) => write_varint_frame(FrameType::MAX_PUSH_ID, *id, out),
            Self::PriorityUpdate { push, element, priority } => {
                let kind =
                    if *push { FrameType::PRIORITY_UPDATE_PUSH } else { FrameType::PRIORITY_UPDATE_REQUEST };
                let value = priority.to_string();
                write_header(kind, (varint_len(*element) + value.len()) as u64, out);
                push_varint(out, *element);
                out.extend_from_slice(value.as_bytes());
            }
        }
    }
}

/// Decodes a payload that consists of exactly one varint.
fn one_varint(payload: &[u8]) -> Result<u64, Error> {
    let mut reader = Reader::new(payload, Direction::Forward);
    match reader.varint() {
        Ok(value) if reader.is_empty() => Ok(value),
        _ => Err(frame_error()),
    }
}

fn write_varint_frame(kind: FrameType, value: u64, out: &mut Vec<u8>) {
    write_header(kind, varint_len(value) as u64, out);
    push_varint(out, value);
}

fn frame_error() -> Error {
    Error::new(Code::FRAME_ERROR, "a control frame's fields do not fill its payload")
}
