//! Frames in qlog (draft-ietf-quic-qlog-quic-events-12 §8.13). The frames of RFC 10069 and
//! draft-ietf-quic-ack-frequency are written in the same style.

use anabranch_wire::{Ack, ConnectionClose, Dir, Frame, Frames, NewConnectionId, TransportErrorCode};

use crate::json::{Array, Object};

/// Maximum number of frames that are written for one packet. Further frames are left out.
pub(crate) const MAX_FRAMES: usize = 128;

/// Writes the frames of a payload. `ack_delay_exponent` is that of the packet's sender.
pub(crate) fn write_all(array: &mut Array<'_>, frames: Frames<'_>, ack_delay_exponent: u32) {
    for frame in frames.take(MAX_FRAMES) {
        // An invalid frame ends the packet and the connection. The event `connection_closed` contains the
        // error.
        let Ok(frame) = frame else { return };
        array.object(|object| write(object, &frame, ack_delay_exponent));
    }
}

fn write(o: &mut Object<'_>, frame: &Frame<'_>, ack_delay_exponent: u32) {
    o.text("frame_type", name(frame));
    match *frame {
        Frame::Padding(len) => o.object("raw", |raw| raw.number("payload_length", len as u64)),
        Frame::Ping | Frame::HandshakeDone | Frame::ImmediateAck => {}
        Frame::Ack(ack) => write_ack(o, &ack, ack_delay_exponent),
        Frame::ResetStream { id, code, final_size } => {
            o.number("stream_id", id.as_u64());
            application_error(o, code.get());
            o.number("final_size", final_size);
        }
        Frame::StopSending { id, code } => {
            o.number("stream_id", id.as_u64());
            application_error(o, code.get());
        }
        Frame::Crypto { offset, data } => {
            o.number("offset", offset);
            length(o, data);
        }
        Frame::NewToken { token } => o.object("token", |t| t.object("raw", |raw| raw.hex("data", token))),
        Frame::Stream(stream) => {
            o.number("stream_id", stream.id.as_u64());
            o.number("offset", stream.offset);
            if stream.fin {
                o.flag("fin", true);
            }
            length(o, stream.data);
        }
        Frame::MaxData(maximum) => o.number("maximum", maximum),
        Frame::MaxStreamData { id, maximum } => {
            o.number("stream_id", id.as_u64());
            o.number("maximum", maximum);
        }
        Frame::MaxStreams { dir, maximum } => {
            stream_type(o, dir);
            o.number("maximum", maximum);
        }
        Frame::DataBlocked(limit) => o.number("limit", limit),
        Frame::StreamDataBlocked { id, maximum } => {
            o.number("stream_id", id.as_u64());
            o.number("limit", maximum);
        }
        Frame::StreamsBlocked { dir, maximum } => {
            stream_type(o, dir);
            o.number("limit", maximum);
        }
        Frame::NewConnectionId(issued) => write_new_connection_id(o, &issued),
        Frame::RetireConnectionId { path, sequence } => {
            if let Some(path) = path {
                o.number("path_id", u64::from(path.0));
            }
            o.number("sequence_number", sequence);
        }
        Frame::PathChallenge(data) | Frame::PathResponse(data) => o.hex("data", &data),
        Frame::ConnectionClose(close) => write_close(o, &close),
        Frame::Datagram { data } => length(o, data),
        _ => write_extension(o, frame),
    }
}

/// Writes frames that the draft does not define.
fn write_extension(o: &mut Object<'_>, frame: &Frame<'_>) {
    match *frame {
        Frame::AckFrequency { sequence, threshold, max_ack_delay_us, reordering_threshold } => {
            o.number("sequence_number", sequence);
            o.number("ack_eliciting_threshold", threshold);
            o.millis("requested_max_ack_delay", u128::from(max_ack_delay_us) * 1_000);
            o.number("reordering_threshold", reordering_threshold);
        }
        Frame::PathAbandon { path, code } => {
            o.number("path_id", u64::from(path.0));
            o.number("error_code", code.get());
        }
        Frame::PathStatus { path, sequence, .. } => {
            o.number("path_id", u64::from(path.0));
            o.number("path_status_sequence_number", sequence);
        }
        Frame::MaxPathId(maximum) | Frame::PathsBlocked(maximum) => o.number("maximum_path_id", maximum),
        Frame::PathCidsBlocked { path, next_sequence } => {
            o.number("path_id", u64::from(path.0));
            o.number("next_sequence_number", next_sequence);
        }
        // All other frames are defined in the draft.
        _ => {}
    }
}

fn name(frame: &Frame<'_>) -> &'static str {
    match frame {
        Frame::Padding(_) => "padding",
        Frame::Ping => "ping",
        Frame::Ack(ack) if ack.path.is_some() => "path_ack",
        Frame::Ack(_) => "ack",
        Frame::ResetStream { .. } => "reset_stream",
        Frame::StopSending { .. } => "stop_sending",
        Frame::Crypto { .. } => "crypto",
        Frame::NewToken { .. } => "new_token",
        Frame::Stream(_) => "stream",
        Frame::MaxData(_) => "max_data",
        Frame::MaxStreamData { .. } => "max_stream_data",
        Frame::MaxStreams { .. } => "max_streams",
        Frame::DataBlocked(_) => "data_blocked",
        Frame::StreamDataBlocked { .. } => "stream_data_blocked",
        Frame::StreamsBlocked { .. } => "streams_blocked",
        Frame::NewConnectionId(issued) if issued.path.is_some() => "path_new_connection_id",
        Frame::NewConnectionId(_) => "new_connection_id",
        Frame::RetireConnectionId { path: Some(_), .. } => "path_retire_connection_id",
        Frame::RetireConnectionId { .. } => "retire_connection_id",
        Frame::PathChallenge(_) => "path_challenge",
        Frame::PathResponse(_) => "path_response",
        Frame::ConnectionClose(_) => "connection_close",
        Frame::HandshakeDone => "handshake_done",
        Frame::Datagram { .. } => "datagram",
        Frame::AckFrequency { .. } => "ack_frequency",
        Frame::ImmediateAck => "immediate_ack",
        Frame::PathAbandon { .. } => "path_abandon",
        Frame::PathStatus { available: true, .. } => "path_status_available",
        Frame::PathStatus { .. } => "path_status_backup",
        Frame::MaxPathId(_) => "max_path_id",
        Frame::PathsBlocked(_) => "paths_blocked",
        Frame::PathCidsBlocked { .. } => "path_cids_blocked",
        Frame::AlternativeV4Address { .. } => "alternative_v4_address",
        Frame::AlternativeV6Address { .. } => "alternative_v6_address",
        _ => "unknown",
    }
}

fn write_ack(o: &mut Object<'_>, ack: &Ack<'_>, ack_delay_exponent: u32) {
    if let Some(path) = ack.path {
        o.number("path_id", u64::from(path.0));
    }
    o.millis("ack_delay", (u128::from(ack.delay) << ack_delay_exponent) * 1_000);
    o.array("acked_ranges", |ranges| {
        for range in ack.ranges() {
            ranges.array(|pair| {
                pair.number(*range.start());
                if range.start() != range.end() {
                    pair.number(*range.end());
                }
            });
        }
    });
    if let Some(ecn) = ack.ecn {
        o.number("ect1", ecn.ect1);
        o.number("ect0", ecn.ect0);
        o.number("ce", ecn.ce);
    }
}

fn write_new_connection_id(o: &mut Object<'_>, issued: &NewConnectionId) {
    if let Some(path) = issued.path {
        o.number("path_id", u64::from(path.0));
    }
    o.number("sequence_number", issued.sequence);
    o.number("retire_prior_to", issued.retire_prior_to);
    o.number("connection_id_length", issued.cid.len() as u64);
    // The reset token is omitted, because a reader of the log could close the connection with it.
    o.hex("connection_id", &issued.cid);
}

fn write_close(o: &mut Object<'_>, close: &ConnectionClose<'_>) {
    o.text("error_space", if close.application { "application" } else { "transport" });
    if close.application {
        application_error(o, close.code.get());
    } else {
        transport_error(o, "error", TransportErrorCode::from(close.code));
    }
    match core::str::from_utf8(close.reason) {
        Ok("") => {}
        Ok(reason) => o.text("reason", reason),
        Err(_) => o.hex("reason_bytes", close.reason),
    }
    if !close.application && close.frame_type != 0 {
        o.number("trigger_frame_type", close.frame_type);
    }
}

/// Writes the name of a transport error in qlog's spelling. If there is no name, writes `unknown` and the
/// code.
pub(crate) fn transport_error(o: &mut Object<'_>, key: &str, code: TransportErrorCode) {
    match (code.alert(), code.name()) {
        (Some(alert), _) => o.text(key, &format!("crypto_error_0x1{alert:02x}")),
        (None, Some(name)) if code.0 <= TransportErrorCode::NO_VIABLE_PATH.0 => {
            o.text(key, &name.to_ascii_lowercase());
        }
        // The draft has no names for the codes of extensions.
        _ => {
            o.text(key, "unknown");
            o.number("error_code", code.0);
        }
    }
}

fn application_error(o: &mut Object<'_>, code: u64) {
    o.text("error", "unknown");
    o.number("error_code", code);
}

fn stream_type(o: &mut Object<'_>, dir: Dir) {
    o.text("stream_type", if dir == Dir::Bi { "bidirectional" } else { "unidirectional" });
}

fn length(o: &mut Object<'_>, data: &[u8]) {
    o.object("raw", |raw| raw.number("length", data.len() as u64));
}
