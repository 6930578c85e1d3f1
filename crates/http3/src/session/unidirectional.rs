//! Unidirectional streams: opens and writes those of this endpoint, and reads those of the peer (RFC 9114
//! §6.2).

use std::collections::BTreeMap;

use anabranch_transport::stream::{self, Streams};
use anabranch_wire::{Dir, StreamId};

use super::qpack::Qpack;
use crate::error::{Code, Error};
use crate::frame::{ControlFrame, FrameHeader, FrameType, HeaderReader, MAX_CONTROL_PAYLOAD};
use crate::stream_type::{StreamType, TypeReader};
use crate::trace::{FrameContent, TraceEvent};

/// Maximum length of queued control frames, in bytes, while the peer grants the control stream no flow
/// control credit.
const MAX_CONTROL_BACKLOG: usize = 16 * 1024;
/// Maximum number of consecutive control frames of unknown types.
const MAX_IDLE_FRAMES: u32 = 256;

/// Unidirectional streams of both endpoints.
#[derive(Debug, Default)]
pub(super) struct Unidirectional {
    /// Our control stream; `None` until the peer's stream limit allows it.
    control: Option<StreamId>,
    /// Bytes that still must be written to our control stream.
    backlog: Vec<u8>,
    /// Number of bytes of the preface, which contains SETTINGS, in front of `backlog`.
    preface_left: usize,
    /// Peer's streams whose type is not known yet. The transport bounds their number.
    untyped: BTreeMap<StreamId, TypeReader>,
    peer: PeerStreams,
    reader: ControlReader,
}

/// Critical streams of the peer.
#[derive(Debug, Default)]
struct PeerStreams {
    control: Option<StreamId>,
    encoder: Option<StreamId>,
    decoder: Option<StreamId>,
}

/// Parser of the frames on the peer's control stream.
#[derive(Debug, Default)]
struct ControlReader {
    header: HeaderReader,
    frame: Option<FrameHeader>,
    /// Payload of the current frame so far; empty if the frame is skipped.
    payload: Vec<u8>,
    /// Number of payload bytes of the current frame that have not arrived.
    left: u64,
    has_settings: bool,
    idle_frames: u32,
}

impl Unidirectional {
    /// Opens those of our streams that the peer's stream limit allows. `preface` contains the first bytes of
    /// the control stream.
    pub(super) fn open(&mut self, streams: &mut Streams, qpack: &mut Qpack, preface: &[u8]) {
        if self.control.is_none()
            && let Some(id) = streams.open(Dir::Uni)
        {
            self.control = Some(id);
            // Frames may have been queued already; the stream type and SETTINGS precede them.
            self.backlog.splice(0..0, preface.iter().copied());
            self.preface_left = preface.len();
            qpack.trace.event(&TraceEvent::StreamType { id, local: true, kind: Some(StreamType::CONTROL) });
        }
        for kind in [StreamType::QPACK_ENCODER, StreamType::QPACK_DECODER] {
            let slot = match kind {
                StreamType::QPACK_ENCODER => &mut qpack.encoder_stream,
                _ => &mut qpack.decoder_stream,
            };
            if slot.is_none()
                && let Some(id) = streams.open(Dir::Uni)
            {
                *slot = Some(id);
                qpack.begin_stream(streams, kind);
                qpack.trace.event(&TraceEvent::StreamType { id, local: true, kind: Some(kind) });
            }
        }
        for id in [self.control, qpack.encoder_stream, qpack.decoder_stream].into_iter().flatten() {
            streams.set_priority(id, CRITICAL);
        }
        self.flush(streams);
    }

    /// Sends a control frame.
    pub(super) fn send(
        &mut self,
        streams: &mut Streams,
        qpack: &mut Qpack,
        frame: &ControlFrame,
    ) -> Result<(), Error> {
        let before = self.backlog.len();
        frame.encode(&mut self.backlog);
        if let Some(id) = self.control
            && qpack.trace.is_on()
            && let (_, Some(header)) = HeaderReader::default().read(&self.backlog[before..])
        {
            qpack.trace.frame_created(id, header, FrameContent::Control(frame));
        }
        self.flush(streams);
        if self.backlog.len() > MAX_CONTROL_BACKLOG {
            return Err(Error::new(Code::EXCESSIVE_LOAD, "the control stream gets no credit"));
        }
        Ok(())
    }

    fn flush(&mut self, streams: &mut Streams) {
        if let (Some(id), false) = (self.control, self.backlog.is_empty())
            // A stopped stream is handled when its event arrives.
            && let Ok(n) = streams.write(id, &self.backlog)
        {
            self.backlog.drain(..n);
            self.preface_left = self.preface_left.saturating_sub(n);
        }
    }

    /// Returns whether our SETTINGS were sent. They wait while the peer permits no stream, or gives it no credit.
    pub(super) const fn has_sent_settings(&self) -> bool {
        self.control.is_some() && self.preface_left == 0
    }

    /// Continues to write the stream `id`, which has flow control credit again, if it is one of our streams.
    pub(super) fn on_writable(
        &mut self,
        streams: &mut Streams,
        qpack: &mut Qpack,
        id: StreamId,
    ) -> Result<(), Error> {
        if self.control == Some(id) {
            self.flush(streams);
        } else if qpack.encoder_stream == Some(id) {
            qpack.flush_encoder(streams);
        } else if qpack.decoder_stream == Some(id) {
            qpack.flush_decoder(streams)?;
        }
        Ok(())
    }

    /// Handles the peer's STOP_SENDING for `id`. For one of our streams it is a connection error.
    pub(super) fn on_stopped(&self, qpack: &Qpack, id: StreamId) -> Result<(), Error> {
        if [self.control, qpack.encoder_stream, qpack.decoder_stream].contains(&Some(id)) {
            return Err(Error::new(Code::CLOSED_CRITICAL_STREAM, "a critical stream was stopped"));
        }
        Ok(())
    }

    /// Adds the stream `id`, which the peer has opened.
    pub(super) fn on_opened(&mut self, id: StreamId) {
        self.untyped.insert(id, TypeReader::default());
    }

    /// Reads the bytes that have arrived on `id`. On the control stream, stops after the next complete frame
    /// and returns it.
    pub(super) fn read(
        &mut self,
        streams: &mut Streams,
        qpack: &mut Qpack,
        id: StreamId,
        is_server: bool,
    ) -> Result<Option<ControlFrame>, Error> {
        if self.untyped.contains_key(&id) {
            self.read_type(streams, qpack, id, is_server)?;
        }
        if self.peer.control == Some(id) {
            return read_critical(streams, id, |bytes| self.reader.read(qpack, id, bytes));
        }
        if self.peer.encoder == Some(id) {
            let mut read = |bytes: &[u8]| qpack.on_encoder_stream(bytes);
            return read_critical(streams, id, |bytes| read(bytes).map(|()| (bytes.len(), None)));
        }
        if self.peer.decoder == Some(id) {
            let mut read = |bytes: &[u8]| qpack.on_decoder_stream(bytes);
            return read_critical(streams, id, |bytes| read(bytes).map(|()| (bytes.len(), None)));
        }
        Ok(None)
    }

    fn read_type(
        &mut self,
        streams: &mut Streams,
        qpack: &mut Qpack,
        id: StreamId,
        is_server: bool,
    ) -> Result<(), Error> {
        let Some(reader) = self.untyped.get_mut(&id) else { return Ok(()) };
        loop {
            let bytes = match streams.peek(id) {
                Ok(bytes) => bytes,
                Err(stream::ReadError::Blocked) => return Ok(()),
                Err(_) => {
                    // A stream may end before its type has arrived (RFC 9114 §6.2).
                    self.untyped.remove(&id);
                    return Ok(());
                }
            };
            let (n, kind) = reader.read(bytes);
            let _ = streams.consume(id, n);
            if let Some(kind) = kind {
                self.untyped.remove(&id);
                return self.on_type(streams, qpack, id, u8::try_from(kind).ok().map(StreamType), is_server);
            }
        }
    }

    fn on_type(
        &mut self,
        streams: &mut Streams,
        qpack: &mut Qpack,
        id: StreamId,
        kind: Option<StreamType>,
        is_server: bool,
    ) -> Result<(), Error> {
        qpack.trace.event(&TraceEvent::StreamType { id, local: false, kind });
        let slot = match kind {
            Some(StreamType::CONTROL) => Some(&mut self.peer.control),
            Some(StreamType::QPACK_ENCODER) => Some(&mut self.peer.encoder),
            Some(StreamType::QPACK_DECODER) => Some(&mut self.peer.decoder),
            _ => None,
        };
        if let Some(slot) = slot {
            if slot.replace(id).is_some() {
                return Err(Error::new(
                    Code::STREAM_CREATION_ERROR,
                    "a second stream of a kind that exists once",
                ));
            }
        } else if kind == Some(StreamType::PUSH) {
            return Err(match is_server {
                true => Error::new(Code::STREAM_CREATION_ERROR, "a push stream from a client"),
                false => Error::new(Code::ID_ERROR, "a push stream although no push is allowed"),
            });
        } else {
            // RFC 9114 §6.2.3: a stream of an unknown type is no error; it is not read.
            let _ = streams.stop(id, Code::STREAM_CREATION_ERROR.into());
        }
        Ok(())
    }
}

/// Passes the bytes of a critical stream to `read` until that returns a frame. `read` also returns the number
/// of bytes that it has consumed.
fn read_critical(
    streams: &mut Streams,
    id: StreamId,
    mut read: impl FnMut(&[u8]) -> Result<(usize, Option<ControlFrame>), Error>,
) -> Result<Option<ControlFrame>, Error> {
    loop {
        let bytes = match streams.peek(id) {
            Ok(bytes) => bytes,
            Err(stream::ReadError::Blocked) => return Ok(None),
            Err(_) => return Err(Error::new(Code::CLOSED_CRITICAL_STREAM, "a critical stream was closed")),
        };
        let (n, frame) = read(bytes)?;
        // Cannot fail, because the stream was just readable.
        let _ = streams.consume(id, n);
        if frame.is_some() {
            return Ok(frame);
        }
    }
}

/// Priority of the critical streams, above that of requests.
const CRITICAL: stream::Priority = stream::Priority::new(i32::MAX, false);

impl ControlReader {
    /// Reads up to the end of the first frame of a known type. Returns the number of bytes read, and the
    /// frame if it is complete.
    fn read(
        &mut self,
        qpack: &mut Qpack,
        id: StreamId,
        bytes: &[u8],
    ) -> Result<(usize, Option<ControlFrame>), Error> {
        let mut taken = 0;
        loop {
            let rest = &bytes[taken..];
            let Some(frame) = self.frame else {
                if rest.is_empty() {
                    return Ok((taken, None));
                }
                let (n, header) = self.header.read(rest);
                taken += n;
                if let Some(header) = header {
                    self.begin(header)?;
                }
                continue;
            };
            let n = usize::try_from(self.left).unwrap_or(usize::MAX).min(rest.len());
            if frame.kind.is_known() {
                self.payload.extend_from_slice(&rest[..n]);
            }
            taken += n;
            self.left -= n as u64;
            if self.left > 0 {
                return Ok((taken, None));
            }
            self.frame = None;
            let payload = std::mem::take(&mut self.payload);
            let decoded = ControlFrame::decode(frame.kind, &payload)?;
            let content = decoded.as_ref().map_or(FrameContent::Opaque, FrameContent::Control);
            qpack.trace.frame_parsed(id, frame, content);
            if decoded.is_some() {
                return Ok((taken, decoded));
            }
        }
    }

    /// Handles a frame header, and checks that the frame is allowed here (RFC 9114 §7.2).
    fn begin(&mut self, header: FrameHeader) -> Result<(), Error> {
        let FrameHeader { kind, len } = header;
        if !std::mem::replace(&mut self.has_settings, true) {
            if kind != FrameType::SETTINGS {
                return Err(Error::new(
                    Code::MISSING_SETTINGS,
                    "the control stream does not begin with SETTINGS",
                ));
            }
        } else if kind == FrameType::SETTINGS {
            return Err(Error::new(Code::FRAME_UNEXPECTED, "a second SETTINGS frame"));
        }
        let misplaced = matches!(kind, FrameType::DATA | FrameType::HEADERS | FrameType::PUSH_PROMISE);
        if misplaced || kind.is_http2_reserved() {
            return Err(Error::new(Code::FRAME_UNEXPECTED, format!("{kind:?} frame on the control stream")));
        }
        if kind.is_known() {
            self.idle_frames = 0;
            if len > MAX_CONTROL_PAYLOAD {
                return Err(Error::new(Code::EXCESSIVE_LOAD, format!("a {kind:?} frame of {len} bytes")));
            }
        } else {
            self.idle_frames += 1;
            if self.idle_frames > MAX_IDLE_FRAMES {
                return Err(Error::new(Code::EXCESSIVE_LOAD, "frames that bring nothing"));
            }
        }
        self.left = len;
        self.frame = Some(header);
        Ok(())
    }
}
