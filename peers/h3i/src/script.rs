//! Actions that the cases are made of.

use std::time::Duration;

use h3i::actions::h3::{Action, ExpectedStreamSendResult, WaitType, send_headers_frame};
use h3i::quiche::h3::Header;
use h3i::quiche::h3::frame::Frame;

/// The first and second request streams.
pub const FIRST: u64 = 0;
pub const SECOND: u64 = 4;
/// The client's unidirectional streams: the control stream where there is one, then what a case wants.
pub const CONTROL: u64 = 2;
pub const OTHER: u64 = 6;
pub const ANOTHER: u64 = 10;
/// The server's first unidirectional stream: its control stream, for a server opens that one first.
pub const SERVER_CONTROL: u64 = 3;

/// Opens a control stream with SETTINGS that ask for nothing.
pub fn preface() -> Vec<Action> {
    vec![open(CONTROL, h3i::HTTP3_CONTROL_STREAM_TYPE_ID), send(CONTROL, settings(&[]))]
}

/// Returns the preface, followed by a case's own actions.
pub fn after_preface(actions: impl IntoIterator<Item = Action>) -> Vec<Action> {
    preface().into_iter().chain(actions).collect()
}

/// Begins a unidirectional stream.
pub fn open(stream_id: u64, stream_type: u64) -> Action {
    let expected_result = ExpectedStreamSendResult::Ok;
    Action::OpenUniStream { stream_id, fin_stream: false, stream_type, expected_result }
}

/// Sends a frame and leaves the stream open.
pub fn send(stream_id: u64, frame: Frame) -> Action {
    Action::SendFrame { stream_id, fin_stream: false, frame, expected_result: ExpectedStreamSendResult::Ok }
}

/// Sends a frame that ends the stream.
pub fn send_last(stream_id: u64, frame: Frame) -> Action {
    Action::SendFrame { stream_id, fin_stream: true, frame, expected_result: ExpectedStreamSendResult::Ok }
}

/// Sends bytes as they are and leaves the stream open.
pub fn bytes(stream_id: u64, bytes: &[u8]) -> Action {
    let expected_result = ExpectedStreamSendResult::Ok;
    Action::StreamBytes { stream_id, fin_stream: false, bytes: bytes.to_vec(), expected_result }
}

/// Sends bytes that end the stream.
pub fn last_bytes(stream_id: u64, bytes: &[u8]) -> Action {
    let expected_result = ExpectedStreamSendResult::Ok;
    Action::StreamBytes { stream_id, fin_stream: true, bytes: bytes.to_vec(), expected_result }
}

/// Waits until everything sent before has had time to arrive and take effect.
pub fn pause() -> Action {
    WaitType::WaitDuration(Duration::from_millis(100)).into()
}

/// Sends a request that every server of the contract answers with 200.
pub fn get(stream_id: u64) -> Action {
    send_headers_frame(stream_id, true, fields(&REQUEST))
}

/// Sends the header section of that request; its content may follow.
pub fn head(stream_id: u64) -> Action {
    send_headers_frame(stream_id, false, fields(&REQUEST))
}

/// The fields of that request.
pub const REQUEST: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "https"), (":authority", "localhost"), (":path", "/bytes/1")];

/// Fields as h3i wants them.
pub fn fields(fields: &[(&str, &str)]) -> Vec<Header> {
    fields.iter().map(|(name, value)| Header::new(name.as_bytes(), value.as_bytes())).collect()
}

/// SETTINGS with these identifiers and values.
pub fn settings(pairs: &[(u64, u64)]) -> Frame {
    Frame::Settings {
        max_field_section_size: None,
        qpack_max_table_capacity: None,
        qpack_blocked_streams: None,
        connect_protocol_enabled: None,
        h3_datagram: None,
        grease: None,
        additional_settings: Some(pairs.to_vec()),
        raw: None,
    }
}

/// DATA with this content.
pub fn data(payload: &[u8]) -> Frame {
    Frame::Data { payload: payload.to_vec() }
}

/// HEADERS with this field section, encoded already.
pub fn headers(header_block: &[u8]) -> Frame {
    Frame::Headers { header_block: header_block.to_vec() }
}

/// Creates a frame of any type.
pub fn frame(raw_type: u64, payload: &[u8]) -> Frame {
    Frame::Unknown { raw_type, payload: payload.to_vec() }
}
