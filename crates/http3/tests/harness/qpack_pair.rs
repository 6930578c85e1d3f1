//! Invariants of an encoder and a decoder with a dynamic table: several sections of one stream, each of which
//! arrives, waits, or is cancelled, in any order with the instructions of both streams.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use anabranch_http3::qpack::{Decoded, Decoder, Encoder, Field, FieldLine, Limits};
use anabranch_testkit::source::Source;

/// Maximum number of operations of a script.
const MAX_OPERATIONS: usize = 300;

/// Number of streams in use at the same time.
const STREAMS: u8 = 6;

const LIMITS: Limits = Limits { max_size: u64::MAX, max_fields: usize::MAX };

type Line = (Vec<u8>, Vec<u8>, bool);

/// A section on its way, and its lines.
type Section = (Vec<u8>, Vec<Line>);

struct Pair {
    encoder: Encoder,
    decoder: Decoder,
    /// Bytes on the encoder's and on the decoder's stream that have not arrived.
    instructions: VecDeque<u8>,
    answers: VecDeque<u8>,
    /// Sections that have not been decoded, by stream.
    sections: BTreeMap<u64, VecDeque<Section>>,
    /// Streams whose reader has given up.
    cancelled: BTreeSet<u64>,
    /// Number that makes the IDs of later streams unique.
    generation: u64,
}

pub(crate) fn run(data: &[u8]) {
    let mut source = Source::new(data);
    let capacity = source.choose(&[0, 64, 100, 220, 400, 4_096]);
    let blocked = u64::from(source.byte() % 8);
    let mut pair = Pair {
        encoder: Encoder::new(),
        decoder: Decoder::new(capacity, blocked),
        instructions: VecDeque::new(),
        answers: VecDeque::new(),
        sections: BTreeMap::new(),
        cancelled: BTreeSet::new(),
        generation: 0,
    };
    pair.encoder.set_limits(capacity, blocked);
    for _ in 0..MAX_OPERATIONS {
        if source.is_empty() {
            break;
        }
        pair.operate(&mut source);
        assert!(pair.waiting() as u64 <= STREAMS.into());
    }
    pair.carry_instructions(usize::MAX);
    let streams: Vec<_> = pair.sections.keys().copied().collect();
    for stream in streams {
        while pair.sections.get(&stream).is_some_and(|sections| !sections.is_empty()) {
            assert!(pair.decode(stream), "all entries have arrived");
        }
    }
    pair.carry_answers(usize::MAX);
}

impl Pair {
    fn waiting(&self) -> usize {
        self.sections.values().filter(|sections| !sections.is_empty()).count()
    }

    fn operate(&mut self, source: &mut Source<'_>) {
        let operation = source.byte();
        let stream = self.generation * 4 * u64::from(STREAMS) + 4 * u64::from(source.byte() % STREAMS);
        match operation % 8 {
            0..=2 => self.encode(stream, source),
            3 => self.carry_instructions(source.byte().into()),
            4 => self.carry_answers(source.byte().into()),
            5 => _ = self.decode(stream),
            6 => self.cancel(stream),
            _ if self.waiting() == 0 => self.generation += 1,
            _ => {}
        }
    }

    fn encode(&mut self, stream: u64, source: &mut Source<'_>) {
        // No section follows on a stream that was reset or is no longer read.
        if self.cancelled.contains(&stream) {
            return;
        }
        let room = usize::from(source.byte()) * 4;
        let lines: Vec<Line> = (0..source.byte() % 8).map(|_| line(source)).collect();
        let mut section = Vec::new();
        let fields =
            lines.iter().map(|(name, value, sensitive)| Field { name, value, sensitive: *sensitive });
        self.encoder.encode(stream, fields, room, &mut section);
        self.instructions.extend(self.encoder.instructions().drain(..));
        self.sections.entry(stream).or_default().push_back((section, lines));
    }

    /// Abandons a stream before its sections are decoded (RFC 9204 §2.2.2.2).
    fn cancel(&mut self, stream: u64) {
        let Some(sections) = self.sections.remove(&stream) else { return };
        if !sections.is_empty() {
            self.decoder.cancel(stream);
            self.cancelled.insert(stream);
            self.answers.extend(self.decoder.instructions().drain(..));
        }
    }

    fn carry_instructions(&mut self, max: usize) {
        let arriving: Vec<u8> = self.instructions.drain(..max.min(self.instructions.len())).collect();
        self.decoder.on_encoder_stream(&arriving).expect("instructions of our own");
        while let Some(stream) = self.decoder.take_unblocked() {
            assert!(self.sections.contains_key(&stream), "a stream that waits");
            self.decode(stream);
        }
        self.answers.extend(self.decoder.instructions().drain(..));
    }

    fn carry_answers(&mut self, max: usize) {
        let arriving: Vec<u8> = self.answers.drain(..max.min(self.answers.len())).collect();
        self.encoder.on_decoder_stream(&arriving).expect("answers of our own");
    }

    /// Decodes the next section of a stream. Returns `false` if there is none, or if it has to wait.
    fn decode(&mut self, stream: u64) -> bool {
        let Some((section, lines)) = self.sections.get(&stream).and_then(|sections| sections.front()) else {
            return false;
        };
        let mut decoded = Vec::new();
        let mut sink = |line: FieldLine<'_>| {
            decoded.push((line.name.to_vec(), line.value.to_vec(), line.never_indexed));
        };
        match self.decoder.decode(stream, section, &LIMITS, &mut sink).expect("a section of our own") {
            Decoded::Complete => {}
            Decoded::Blocked => return false,
            _ => panic!("nothing is too large"),
        }
        assert_eq!(decoded.len(), lines.len());
        for (decoded, line) in decoded.iter().zip(lines) {
            assert_eq!((&decoded.0, &decoded.1), (&line.0, &line.1));
            assert!(decoded.2 || !line.2, "sensitive lines are never indexed");
        }
        self.sections.entry(stream).or_default().pop_front();
        self.answers.extend(self.decoder.instructions().drain(..));
        true
    }
}

/// Returns a field line whose parts often recur.
fn line(source: &mut Source<'_>) -> Line {
    const NAMES: [&[u8]; 6] = [b":path", b"x-a", b"x-b", b"cookie", b"date", b"authorization"];
    let (choice, value) = (source.byte(), source.byte());
    let name = match choice % 8 {
        known @ 0..=5 => NAMES[usize::from(known)].to_vec(),
        _ => vec![b'n'; usize::from(source.byte() % 40) + 1],
    };
    (name, vec![b'a' + value % 16; usize::from(value % 64)], choice >= 0xf0)
}
