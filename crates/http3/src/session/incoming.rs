//! Receiving half of a request stream. Its frames are parsed only as the application reads (RFC 9114 §4.1).

use anabranch_transport::stream::{self, Streams};
use anabranch_wire::StreamId;

use super::qpack::{Qpack, Section};
use super::types::{Fault, ReadError};
use crate::error::{Code, Error};
use crate::frame::{FrameHeader, FrameType, HeaderReader};
use crate::trace::FrameContent;

/// Maximum number of consecutive frames without effect: frames of unknown types, or empty DATA frames.
const MAX_IDLE_FRAMES: u32 = 256;

/// Phase of a message, which determines the frames that are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Only HEADERS is allowed, with the message's header section.
    Head,
    /// DATA is allowed, or HEADERS with trailers.
    Body,
    /// Only DATA is allowed, after a successful CONNECT (RFC 9114 §4.4).
    Tunnel,
    /// No frame is allowed after the trailers.
    Trailed,
}

/// Position of the parser within the frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// In the type and length of a frame.
    Header,
    /// In a field section, of which `left` bytes are missing.
    Section { left: u64 },
    /// After a complete field section that waits for the peer's encoder stream.
    Blocked,
    /// In a DATA frame, of which `left` bytes are unread.
    Data { left: u64 },
    /// In a frame that is skipped, of which `left` bytes are unread.
    Skip { left: u64 },
}

/// Receiving half of a request stream.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) phase: Phase,
    state: State,
    header: HeaderReader,
    /// Buffered bytes of a field section that did not arrive in one piece, or that is blocked.
    section: Vec<u8>,
    /// Length of the content that content-length declares, in bytes.
    pub(super) expected: Option<u64>,
    /// Total length of the DATA frames so far, in bytes, including the whole current frame.
    received: u64,
    idle_frames: u32,
    /// `true` if the transport reported the end of the stream while a section was blocked. It reports the end
    /// only once.
    has_ended: bool,
    /// Reason that nothing more can be read.
    pub(super) end: Option<ReadError>,
}

/// Result of [`Incoming::advance`].
#[expect(clippy::large_enum_variant, reason = "it lives on the stack, for one call")]
pub(super) enum Progress {
    /// A field section was decoded.
    Section(Section),
    /// A field section exceeds the limits.
    TooLarge,
    /// A byte of the content can be read.
    Body,
    /// Nothing more can be read until bytes arrive on this stream or, for a blocked section, on the peer's
    /// encoder stream.
    Blocked,
    /// Nothing more can be read, see [`Incoming::end`].
    End,
}

/// Session state that reading a request stream needs.
pub(super) struct Context<'a> {
    pub(super) streams: &'a mut Streams,
    pub(super) qpack: &'a mut Qpack,
    pub(super) id: StreamId,
    pub(super) is_server: bool,
}

impl Incoming {
    pub(super) fn new() -> Self {
        Self {
            phase: Phase::Head,
            state: State::Header,
            header: HeaderReader::default(),
            section: Vec::new(),
            expected: None,
            received: 0,
            idle_frames: 0,
            has_ended: false,
            end: None,
        }
    }

    /// Ends reading. Queues a Stream Cancellation for the peer's encoder: sections of this stream will not be
    /// decoded, including those that have not arrived (RFC 9204 §2.2.2.2).
    pub(super) fn abandon(&mut self, qpack: &mut Qpack, id: StreamId, why: ReadError) {
        if self.end.is_none() {
            qpack.cancel(id);
            self.section = Vec::new();
            self.end = Some(why);
        }
    }

    /// Reads up to a decoded field section, a byte of the content, or the end.
    pub(super) fn advance(&mut self, cx: &mut Context<'_>) -> Result<Progress, Fault> {
        while self.end.is_none() {
            let progress = match self.state {
                State::Header => self.read_header(cx)?,
                State::Section { left } => self.read_section(cx, left)?,
                State::Blocked => self.retry(cx)?,
                State::Skip { left } => self.skip(cx, left)?,
                State::Data { left: 0 } => {
                    self.state = State::Header;
                    None
                }
                State::Data { .. } => match cx.streams.peek(cx.id) {
                    Ok(_) => Some(Progress::Body),
                    Err(error) => Some(self.interrupted(cx, error)?),
                },
            };
            if let Some(progress) = progress {
                return Ok(progress);
            }
        }
        Ok(Progress::End)
    }

    fn read_header(&mut self, cx: &mut Context<'_>) -> Result<Option<Progress>, Fault> {
        let bytes = match cx.streams.peek(cx.id) {
            Ok(bytes) => bytes,
            Err(error) => return self.interrupted(cx, error).map(Some),
        };
        let (n, header) = self.header.read(bytes);
        // Cannot fail, because the stream was just readable.
        let _ = cx.streams.consume(cx.id, n);
        match header {
            Some(header) => self.on_frame(cx, header),
            None => Ok(None),
        }
    }

    /// Handles a frame header, and checks that the frame is allowed in this phase.
    fn on_frame(&mut self, cx: &mut Context<'_>, header: FrameHeader) -> Result<Option<Progress>, Fault> {
        let FrameHeader { kind, len } = header;
        if kind != FrameType::HEADERS {
            cx.qpack.trace.frame_parsed(cx.id, header, FrameContent::Opaque);
        }
        match (kind, self.phase) {
            (FrameType::DATA, Phase::Body | Phase::Tunnel) => {
                self.received = self.received.saturating_add(len);
                if self.expected.is_some_and(|expected| self.received > expected) {
                    return Err(Fault::Stream(Code::MESSAGE_ERROR));
                }
                self.state = State::Data { left: len };
                if len == 0 { self.count_idle()? } else { self.idle_frames = 0 }
            }
            (FrameType::HEADERS, Phase::Head | Phase::Body) => {
                self.state = State::Section { left: len };
                if len > cx.qpack.max_section() {
                    self.state = State::Skip { left: len };
                    return Ok(Some(Progress::TooLarge));
                }
            }
            (FrameType::PUSH_PROMISE, _) if !cx.is_server => {
                return Err(Error::new(Code::ID_ERROR, "PUSH_PROMISE although no push is allowed").into());
            }
            _ if kind.is_known() || kind.is_http2_reserved() => {
                let reason = format!("{kind:?} frame on a request stream");
                return Err(Error::new(Code::FRAME_UNEXPECTED, reason).into());
            }
            _ => {
                self.state = State::Skip { left: len };
                self.count_idle()?;
            }
        }
        Ok(None)
    }

    fn count_idle(&mut self) -> Result<(), Fault> {
        self.idle_frames += 1;
        if self.idle_frames > MAX_IDLE_FRAMES {
            return Err(Error::new(Code::EXCESSIVE_LOAD, "frames that bring nothing").into());
        }
        Ok(())
    }

    /// Reads a field section. A section that has arrived in one piece is decoded in place; others are
    /// buffered.
    fn read_section(&mut self, cx: &mut Context<'_>, left: u64) -> Result<Option<Progress>, Fault> {
        if left == 0 {
            return self.decode_gathered(cx);
        }
        let bytes = match cx.streams.peek(cx.id) {
            Ok(bytes) => bytes,
            Err(error) => return self.interrupted(cx, error).map(Some),
        };
        let n = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
        if self.section.is_empty() && n as u64 == left {
            let decoded = cx.qpack.decode(cx.id, &bytes[..n])?;
            if matches!(decoded, Section::Blocked) {
                self.section.extend_from_slice(&bytes[..n]);
            }
            let _ = cx.streams.consume(cx.id, n);
            return Ok(self.decoded(decoded));
        }
        self.section.extend_from_slice(&bytes[..n]);
        let _ = cx.streams.consume(cx.id, n);
        self.state = State::Section { left: left - n as u64 };
        Ok(None)
    }

    /// Retries to decode a blocked section, unless the stream was reset in the meantime.
    fn retry(&mut self, cx: &mut Context<'_>) -> Result<Option<Progress>, Fault> {
        match cx.streams.peek(cx.id) {
            Err(error @ stream::ReadError::Reset(_)) => return self.interrupted(cx, error).map(Some),
            Err(stream::ReadError::Finished) => self.has_ended = true,
            _ => {}
        }
        self.decode_gathered(cx)
    }

    fn decode_gathered(&mut self, cx: &mut Context<'_>) -> Result<Option<Progress>, Fault> {
        let decoded = cx.qpack.decode(cx.id, &self.section)?;
        Ok(self.decoded(decoded))
    }

    fn decoded(&mut self, section: Section) -> Option<Progress> {
        self.state = State::Header;
        let progress = match section {
            Section::Blocked => {
                self.state = State::Blocked;
                return Some(Progress::Blocked);
            }
            Section::TooLarge => Progress::TooLarge,
            section @ Section::Fields(_) => Progress::Section(section),
        };
        self.section = Vec::new();
        self.idle_frames = 0;
        Some(progress)
    }

    fn skip(&mut self, cx: &mut Context<'_>, left: u64) -> Result<Option<Progress>, Fault> {
        if left == 0 {
            self.state = State::Header;
            return Ok(None);
        }
        match cx.streams.peek(cx.id) {
            Ok(bytes) => {
                let n = left.min(bytes.len() as u64);
                let _ = cx.streams.consume(cx.id, usize::try_from(n).unwrap_or(usize::MAX));
                self.state = State::Skip { left: left - n };
                Ok(None)
            }
            Err(error) => self.interrupted(cx, error).map(Some),
        }
    }

    /// Handles the reason that the transport returned no bytes, which may be temporary or final.
    fn interrupted(&mut self, cx: &mut Context<'_>, error: stream::ReadError) -> Result<Progress, Fault> {
        let is_head = self.phase == Phase::Head;
        let why = match error {
            stream::ReadError::Blocked => return Ok(Progress::Blocked),
            stream::ReadError::Closed if !self.has_ended => ReadError::Closed,
            stream::ReadError::Finished | stream::ReadError::Closed => {
                self.end = Some(self.on_end(cx.is_server)?);
                return Ok(Progress::End);
            }
            // A server that has begun its response has processed the request, even if it resets the stream
            // with H3_REQUEST_REJECTED.
            stream::ReadError::Reset(code)
                if !cx.is_server && is_head && Code::from(code) == Code::REQUEST_REJECTED =>
            {
                ReadError::Rejected
            }
            stream::ReadError::Reset(code) => ReadError::Reset(Code::from(code)),
            // `Unordered` cannot happen: nothing here reads out of order.
            _ => ReadError::Closed,
        };
        self.abandon(cx.qpack, cx.id, why);
        Ok(Progress::End)
    }

    /// Checks that the message is complete when the stream ends.
    fn on_end(&self, is_server: bool) -> Result<ReadError, Fault> {
        if self.state != State::Header || !self.header.is_empty() {
            return Err(Error::new(Code::FRAME_ERROR, "the stream ends within a frame").into());
        }
        if self.phase == Phase::Head {
            let code = if is_server { Code::REQUEST_INCOMPLETE } else { Code::MESSAGE_ERROR };
            return Err(Fault::Stream(code));
        }
        if self.expected.is_some_and(|expected| self.received != expected) {
            return Err(Fault::Stream(Code::MESSAGE_ERROR));
        }
        Ok(ReadError::Finished)
    }

    /// Returns the number of unread bytes in the current DATA frame.
    pub(super) fn left_in_frame(&self) -> usize {
        match self.state {
            State::Data { left } => usize::try_from(left).unwrap_or(usize::MAX),
            _ => 0,
        }
    }

    /// Records that `n` bytes of the content were read.
    pub(super) fn on_read(&mut self, n: usize) {
        if let State::Data { left } = &mut self.state {
            *left = left.saturating_sub(n as u64);
        }
    }
}
