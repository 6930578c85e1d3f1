//! Actions that the cases consist of.

use std::time::Duration;

use h3i::actions::h3::{Action, ExpectedStreamSendResult, WaitType, send_headers_frame};
use h3i::quiche::h3::Header;
use h3i::quiche::h3::frame::Frame;

/// IDs of the first and second request streams.
pub const FIRST: u64 = 0;
pub const SECOND: u64 = 4;
/// IDs of the client's unidirectional streams: first the control stream, if there is one, then those of a
/// case.
pub const CONTROL: u64 = 2;
pub const OTHER: u64 = 6;
pub const ANOTHER: u64 = 10;
/// ID of the server's first unidirectional stream. It is the control stream, which servers open first.
pub const SERVER_CONTROL: u64 = 3;

/// Opens a control stream with empty SETTINGS.
pub fn preface() -> Vec<Action> {
    vec![open(CONTROL, h3i::HTTP3_CONTROL_STREAM_TYPE_ID), send(CONTROL, settings(&[]))]
}

/// Returns the preface, followed by the actions of a case.
pub fn after_preface(actions: impl IntoIterator<Item = Action>) -> Vec<Action> {
    preface().into_iter().chain(actions).collect()
}

/// Opens a unidirectional stream.
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

/// Sends raw bytes and leaves the stream open.
pub fn bytes(stream_id: u64, bytes: &[u8]) -> Action {
    let expected_result = ExpectedStreamSendResult::Ok;
    Action::StreamBytes { stream_id, fin_stream: false, bytes: bytes.to_vec(), expected_result }
}

/// Sends raw bytes that end the stream.
pub fn last_bytes(stream_id: u64, bytes: &[u8]) -> Action {
    let expected_result = ExpectedStreamSendResult::Ok;
    Action::StreamBytes { stream_id, fin_stream: true, bytes: bytes.to_vec(), expected_result }
}

/// Waits until earlier data has had time to arrive and take effect.
pub fn pause() -> Action {
    WaitType::WaitDuration(Duration::from_millis(100)).into()
}

/// Sends a request to which every server of the contract responds with 200.
pub fn get(stream_id: u64) -> Action {
    send_headers_frame(stream_id, true, fields(&REQUEST))
}

/// Sends the header section of that request; content may follow.
pub fn head(stream_id: u64) -> Action {
    send_headers_frame(stream_id, false, fields(&REQUEST))
}

/// Fields of that request.
pub const REQUEST: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "https"), (":authority", "localhost"), (":path", "/bytes/1")];

/// Converts fields to h3i's type.
pub fn fields(fields: &[(&str, &str)]) -> Vec<Header> {
    fields.iter().map(|(name, value)| Header::new(name.as_bytes(), value.as_bytes())).collect()
}

/// Creates a SETTINGS frame with these identifiers and values.
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

/// Creates a DATA frame with this content.
pub fn data(payload: &[u8]) -> Frame {
    Frame::Data { payload: payload.to_vec() }
}

/// Creates a HEADERS frame with this encoded field section.
pub fn headers(header_block: &[u8]) -> Frame {
    Frame::Headers { header_block: header_block.to_vec() }
}

/// Creates a frame of any type.
pub fn frame(raw_type: u64, payload: &[u8]) -> Frame {
    Frame::Unknown { raw_type, payload: payload.to_vec() }
}
