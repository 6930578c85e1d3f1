//! QPACK within a session: encoder and decoder, their streams, and the conversion of decoded sections to HTTP
//! messages.

use anabranch_transport::stream::Streams;
use anabranch_wire::StreamId;
use bytes::BytesMut;

use super::types::Fault;
use crate::config::Config;
use crate::error::{Code, Error};
use crate::frame::{FrameHeader, FrameType, write_header};
use crate::message::{FieldGatherer, Fields, Malformed};
use crate::qpack::{Decoded, Decoder, Encoder, Field, Limits, MAX_UNSENT_INSTRUCTIONS};
use crate::settings::Settings;
use crate::stream_type::StreamType;
use crate::trace::{FieldTrace, Tracer};

/// Minimum length of decoder instructions that are sent without waiting for other data, in bytes.
const WORTH_A_PACKET: usize = 64;

/// Minimum length of section acknowledgments that are sent together with a field section, in bytes. A STREAM
/// frame for each of them would take both endpoints longer than the acknowledgment itself.
const WORTH_A_FRAME: usize = 16;

/// Encoder and decoder of field sections, with their streams.
pub(super) struct Qpack {
    encoder: Encoder,
    decoder: Decoder,
    limits: Limits,
    /// Our QPACK encoder and decoder streams; `None` until the peer's stream limit allows them.
    pub(super) encoder_stream: Option<StreamId>,
    pub(super) decoder_stream: Option<StreamId>,
    /// `true` if the decoder has instructions other than section acknowledgments.
    is_urgent: bool,
    /// `true` if a section of the peer added no acknowledgment while others wait. Without these its encoder may
    /// be unable to evict entries, and would not refer to new ones.
    is_stuck: bool,
    /// Memory for the field values of later sections.
    block: BytesMut,
    /// Buffer that is reused for every section that is encoded.
    section: Vec<u8>,
    /// Observer. It is stored here because all code that reads and writes frames can access this struct.
    pub(super) trace: Tracer,
}

/// Result of decoding a field section.
#[expect(clippy::large_enum_variant, reason = "it lives on the stack, for one call")]
pub(super) enum Section {
    /// Decoded fields, not yet checked as a message; an error if a line made the message malformed.
    Fields(Result<FieldGatherer, Malformed>),
    /// Section that refers to entries that have not arrived.
    Blocked,
    /// Section that exceeds this endpoint's limits.
    TooLarge,
}

impl Qpack {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            encoder: Encoder::new(),
            decoder: Decoder::new(config.qpack_max_table_capacity, config.qpack_blocked_streams),
            limits: Limits { max_size: config.max_field_section_size, max_fields: config.max_fields },
            encoder_stream: None,
            decoder_stream: None,
            is_urgent: false,
            is_stuck: false,
            block: BytesMut::new(),
            section: Vec::new(),
            trace: Tracer::default(),
        }
    }

    /// Returns the maximum length of an *encoded* section that is accepted, in bytes. It equals the limit of
    /// the decoded size: the encoding adds fewer bytes to a line than the 32 that the decoded size includes,
    /// unless Huffman codes lengthen a string.
    pub(super) fn max_section(&self) -> u64 {
        self.limits.max_size
    }

    /// Applies the peer's limits to this endpoint's encoder.
    pub(super) fn on_settings(&mut self, streams: &mut Streams, settings: &Settings) {
        self.encoder.set_limits(settings.qpack_max_table_capacity, settings.qpack_blocked_streams);
        self.flush_encoder(streams);
    }

    /// Begins our encoder or decoder stream: writes the stream type, then the queued instructions.
    pub(super) fn begin_stream(&mut self, streams: &mut Streams, kind: StreamType) {
        let (id, instructions) = match kind {
            StreamType::QPACK_ENCODER => (self.encoder_stream, self.encoder.instructions()),
            _ => (self.decoder_stream, self.decoder.instructions()),
        };
        instructions.insert(0, kind.0);
        if let Some(id) = id {
            flush(streams, id, instructions);
        }
    }

    /// Appends an encoded field section for `stream` to `out`.
    fn encode<'a>(
        &mut self,
        streams: &mut Streams,
        stream: StreamId,
        fields: impl Iterator<Item = Field<'a>>,
        out: &mut Vec<u8>,
    ) {
        let room = self.encoder_stream.and_then(|id| streams.writable(id)).unwrap_or(0);
        let room = usize::try_from(room).unwrap_or(usize::MAX);
        let queued = self.encoder.instructions().len();
        self.encoder.encode(stream.as_u64(), fields, room.saturating_sub(queued), out);
        self.flush_encoder(streams);
    }

    /// Appends a HEADERS frame for `stream` to `frames`.
    pub(super) fn write_headers(
        &mut self,
        streams: &mut Streams,
        stream: StreamId,
        fields: &Fields<'_>,
        frames: &mut Vec<u8>,
    ) {
        let mut section = std::mem::take(&mut self.section);
        section.clear();
        self.encode(streams, stream, fields.iter(), &mut section);
        if self.is_urgent || self.is_stuck || self.decoder.waiting() >= WORTH_A_FRAME {
            // If the backlog is too long, a later call reports it.
            let _ = self.flush_decoder(streams);
        }
        let header = FrameHeader { kind: FrameType::HEADERS, len: section.len() as u64 };
        write_header(header.kind, header.len, frames);
        frames.extend_from_slice(&section);
        self.section = section;
        if self.trace.is_on() {
            let mut traced = FieldTrace::default();
            fields.iter().for_each(|field| traced.push(field.name, field.value, field.sensitive));
            self.trace.frame_created(stream, header, traced.content());
        }
    }

    /// Decodes a field section of `stream`.
    pub(super) fn decode(&mut self, stream: StreamId, section: &[u8]) -> Result<Section, Fault> {
        let mut gatherer = FieldGatherer::with_block(std::mem::take(&mut self.block));
        let mut checked = Ok(());
        let mut traced = self.trace.is_on().then(FieldTrace::default);
        let waiting = self.decoder.waiting();
        let decoded = self.decoder.decode(stream.as_u64(), section, &self.limits, &mut |line| {
            if let Some(traced) = &mut traced {
                traced.push(line.name, line.value, line.never_indexed);
            }
            if checked.is_ok() {
                checked = gatherer.add(line.name, line.value, line.never_indexed);
            }
        })?;
        self.block = gatherer.take_block();
        self.is_stuck |= waiting > 0 && self.decoder.waiting() == waiting;
        if let (Some(traced), Decoded::Complete) = (&traced, &decoded) {
            let header = FrameHeader { kind: FrameType::HEADERS, len: section.len() as u64 };
            self.trace.frame_parsed(stream, header, traced.content());
        }
        Ok(match decoded {
            Decoded::Complete => Section::Fields(checked.map(|()| gatherer)),
            Decoded::Blocked => Section::Blocked,
            Decoded::TooLarge => Section::TooLarge,
        })
    }

    /// Queues a Stream Cancellation: the remaining sections of `stream` will not be decoded.
    pub(super) fn cancel(&mut self, stream: StreamId) {
        self.is_urgent = true;
        self.decoder.cancel(stream.as_u64());
    }

    /// Processes bytes of the peer's encoder stream.
    pub(super) fn on_encoder_stream(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.is_urgent = true;
        self.decoder.on_encoder_stream(bytes)
    }

    /// Processes bytes of the peer's decoder stream.
    pub(super) fn on_decoder_stream(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.encoder.on_decoder_stream(bytes)
    }

    /// Removes and returns a stream whose section can now be decoded.
    pub(super) fn take_unblocked(&mut self) -> Option<StreamId> {
        self.decoder.take_unblocked().map(StreamId::from_u64)
    }

    /// Writes the encoder's pending instructions to the encoder stream.
    pub(super) fn flush_encoder(&mut self, streams: &mut Streams) {
        if let Some(id) = self.encoder_stream {
            flush(streams, id, self.encoder.instructions());
        }
    }

    /// Writes the decoder's pending instructions, unless they are only a few section acknowledgments. These
    /// are not worth a packet of their own, and wait for a field section that they can accompany
    /// ([`WORTH_A_FRAME`], or fewer if the peer's encoder may lack them): it needs them to evict entries.
    pub(super) fn flush_decoder_if_due(&mut self, streams: &mut Streams) -> Result<(), Error> {
        let due = self.is_urgent || self.decoder.instructions().len() >= WORTH_A_PACKET;
        if due { self.flush_decoder(streams) } else { Ok(()) }
    }

    /// Writes the decoder's pending instructions to the decoder stream.
    pub(super) fn flush_decoder(&mut self, streams: &mut Streams) -> Result<(), Error> {
        self.is_urgent = false;
        self.is_stuck = false;
        let waiting = self.decoder.instructions();
        if let Some(id) = self.decoder_stream {
            flush(streams, id, waiting);
        }
        if waiting.len() >= MAX_UNSENT_INSTRUCTIONS {
            return Err(Error::new(Code::EXCESSIVE_LOAD, "the decoder stream gets no credit"));
        }
        Ok(())
    }
}

impl std::fmt::Debug for Qpack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Qpack").finish_non_exhaustive()
    }
}

fn flush(streams: &mut Streams, id: StreamId, instructions: &mut Vec<u8>) {
    if instructions.is_empty() {
        return;
    }
    // A stopped stream is handled when its event arrives.
    if let Ok(n) = streams.write(id, instructions) {
        instructions.drain(..n);
    }
}
