//! Conversion of an HTTP/3 trace event to a qlog event (draft-ietf-quic-qlog-h3-events-12 §3, §4).

use anabranch_http3::frame::{ControlFrame, FrameType};
use anabranch_http3::trace::{FrameContent, FrameTrace, Observer, TraceEvent};
use anabranch_http3::{Priority, Settings, StreamType, is_reserved};

use anabranch_wire::Time;

use crate::json::Object;
use crate::{BUFFER, Qlog};

/// Maximum length of a field's name or value that is written, in bytes. The rest is left out.
const MAX_FIELD: usize = 1024;
/// Maximum number of field lines that are written for one section.
pub(crate) const MAX_FIELDS: usize = 256;

impl Observer for Qlog {
    fn event(&mut self, time: Time, event: &TraceEvent<'_>) {
        if self.sink.is_none() {
            return;
        }
        let Some(name) = name(event) else { return };
        self.record(time, false, |o| {
            o.millis("time", u128::from(time.as_nanos()));
            o.text("name", &format!("http3:{name}"));
            o.object("data", |o| write_data(o, event));
        });
        if self.buffer.len() >= BUFFER {
            self.flush();
        }
    }
}

/// Returns the event's name without its namespace; `None` for events that are not written.
pub(crate) fn name(event: &TraceEvent<'_>) -> Option<&'static str> {
    Some(match event {
        TraceEvent::Parameters { .. } => "parameters_set",
        TraceEvent::StreamType { .. } => "stream_type_set",
        TraceEvent::FrameCreated(_) => "frame_created",
        TraceEvent::FrameParsed(_) => "frame_parsed",
        TraceEvent::PriorityUpdated { .. } => "priority_updated",
        TraceEvent::Datagram { local: true, .. } => "datagram_created",
        TraceEvent::Datagram { local: false, .. } => "datagram_parsed",
        _ => return None,
    })
}

/// Writes the `data` field.
pub(crate) fn write_data(o: &mut Object<'_>, event: &TraceEvent<'_>) {
    match event {
        TraceEvent::Parameters { local, settings } => write_parameters(o, *local, settings),
        TraceEvent::StreamType { id, local, kind } => {
            initiator(o, *local);
            o.number("stream_id", id.as_u64());
            o.text("stream_type", stream_type(*kind));
        }
        TraceEvent::FrameCreated(frame) | TraceEvent::FrameParsed(frame) => {
            o.number("stream_id", frame.id.as_u64());
            o.object("frame", |o| write_frame(o, frame));
        }
        TraceEvent::PriorityUpdated { id, priority } => {
            o.number("stream_id", id.as_u64());
            o.text("new", &priority.to_string());
        }
        TraceEvent::Datagram { id, len, .. } => {
            o.number("quarter_stream_id", id.as_u64() / 4);
            raw(o, *len as u64);
        }
        _ => {}
    }
}

fn initiator(o: &mut Object<'_>, local: bool) {
    o.text("initiator", if local { "local" } else { "remote" });
}

/// Writes a RawInfo object with the length of the payload.
fn raw(o: &mut Object<'_>, payload: u64) {
    o.object("raw", |o| o.number("payload_length", payload));
}

fn stream_type(kind: Option<StreamType>) -> &'static str {
    match kind {
        Some(StreamType::CONTROL) => "control",
        Some(StreamType::PUSH) => "push",
        Some(StreamType::QPACK_ENCODER) => "qpack_encode",
        Some(StreamType::QPACK_DECODER) => "qpack_decode",
        _ => "unknown",
    }
}

fn write_parameters(o: &mut Object<'_>, local: bool, settings: &Settings) {
    initiator(o, local);
    if let Some(size) = settings.max_field_section_size {
        o.number("max_field_section_size", size);
    }
    o.number("max_table_capacity", settings.qpack_max_table_capacity);
    o.number("blocked_streams_count", settings.qpack_blocked_streams);
    o.number("extended_connect", settings.enable_connect_protocol.into());
    o.number("h3_datagram", settings.h3_datagram.into());
}

fn write_frame(o: &mut Object<'_>, frame: &FrameTrace<'_>) {
    let kind = frame.header.kind;
    match frame.content {
        FrameContent::Fields(fields) => {
            o.text("frame_type", "headers");
            o.array("headers", |a| {
                for (name, value) in fields.iter().take(MAX_FIELDS) {
                    a.object(|o| {
                        text_or_bytes(o, "name", "name_bytes", name);
                        if let Some(value) = value {
                            text_or_bytes(o, "value", "value_bytes", value);
                        }
                    });
                }
            });
        }
        FrameContent::Control(control) => write_control(o, control),
        _ => match kind {
            FrameType::DATA => o.text("frame_type", "data"),
            _ => {
                o.text("frame_type", if is_reserved(kind.0) { "reserved" } else { "unknown" });
                o.number("frame_type_bytes", kind.0);
            }
        },
    }
    raw(o, frame.header.len);
}

fn write_control(o: &mut Object<'_>, frame: &ControlFrame) {
    match frame {
        ControlFrame::Settings(settings) => {
            o.text("frame_type", "settings");
            write_settings(o, settings);
        }
        ControlFrame::GoAway(id) => {
            o.text("frame_type", "goaway");
            o.number("id", *id);
        }
        ControlFrame::CancelPush(id) => {
            o.text("frame_type", "cancel_push");
            o.number("push_id", *id);
        }
        ControlFrame::MaxPushId(id) => {
            o.text("frame_type", "max_push_id");
            o.number("push_id", *id);
        }
        ControlFrame::PriorityUpdate { push, element, priority } => {
            o.text("frame_type", "priority_update");
            o.number(if *push { "push_id" } else { "stream_id" }, *element);
            priority_value(o, *priority);
        }
        _ => o.text("frame_type", "unknown"),
    }
}

fn priority_value(o: &mut Object<'_>, priority: Priority) {
    o.text("priority_field_value", &priority.to_string());
}

fn write_settings(o: &mut Object<'_>, settings: &Settings) {
    o.array("settings", |a| {
        let mut write = |name, value| {
            a.object(|o| {
                o.text("name", name);
                o.number("value", value);
            });
        };
        write("settings_qpack_max_table_capacity", settings.qpack_max_table_capacity);
        if let Some(size) = settings.max_field_section_size {
            write("settings_max_field_section_size", size);
        }
        write("settings_qpack_blocked_streams", settings.qpack_blocked_streams);
        write("settings_enable_connect_protocol", settings.enable_connect_protocol.into());
        write("settings_h3_datagram", settings.h3_datagram.into());
    });
}

/// Writes printable ASCII as text, and anything else as bytes.
fn text_or_bytes(o: &mut Object<'_>, text: &str, bytes: &str, value: &[u8]) {
    let value = &value[..value.len().min(MAX_FIELD)];
    match std::str::from_utf8(value) {
        Ok(value) if value.bytes().all(|byte| matches!(byte, b' '..=b'~')) => o.text(text, value),
        _ => o.hex(bytes, value),
    }
}

#[cfg(test)]
mod tests;
