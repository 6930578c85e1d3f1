//! Examples of RFC 9204, Appendix B, byte for byte at the decoder, and tests of encoder and decoder together.

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;

use super::*;

type Lines = Vec<(Vec<u8>, Vec<u8>, bool)>;

const LIMITS: Limits = Limits { max_size: 64 * 1024, max_fields: 256 };

fn lines(list: &[(&str, &str)]) -> Lines {
    list.iter().map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec(), false)).collect()
}

fn decode(decoder: &mut Decoder, stream: u64, section: &[u8]) -> (Decoded, Lines) {
    let mut got = Lines::new();
    let mut sink =
        |line: FieldLine<'_>| got.push((line.name.to_vec(), line.value.to_vec(), line.never_indexed));
    let decoded = decoder.decode(stream, section, &LIMITS, &mut sink).unwrap();
    (decoded, got)
}

fn encode(encoder: &mut Encoder, stream: u64, lines: &Lines, room: usize) -> Vec<u8> {
    let mut out = Vec::new();
    let fields = lines.iter().map(|(name, value, sensitive)| Field { name, value, sensitive: *sensitive });
    encoder.encode(stream, fields, room, &mut out);
    out
}

/// Replays the examples of RFC 9204 §B.1 to §B.5.
#[test]
fn appendix_b() {
    let mut decoder = Decoder::new(220, 1);
    let index = [&[0x00, 0x00, 0x51, 0x0b][..], b"/index.html"].concat();
    assert_eq!(decode(&mut decoder, 0, &index), (Decoded::Complete, lines(&[(":path", "/index.html")])));
    assert!(decoder.instructions().is_empty());

    let inserts =
        [&[0x3f, 0xbd, 0x01, 0xc0, 0x0f][..], b"www.example.com", &[0xc1, 0x0c], b"/sample/path"].concat();
    let section = [0x03, 0x81, 0x10, 0x11];
    assert_eq!(decode(&mut decoder, 4, &section), (Decoded::Blocked, vec![]));
    assert_eq!(decoder.take_unblocked(), None);
    decoder.on_encoder_stream(&inserts).unwrap();
    assert_eq!(decoder.take_unblocked(), Some(4));
    assert_eq!(decoder.take_unblocked(), None);
    let authority = (":authority", "www.example.com");
    let expected = lines(&[authority, (":path", "/sample/path")]);
    assert_eq!(decode(&mut decoder, 4, &section), (Decoded::Complete, expected));
    assert_eq!(std::mem::take(decoder.instructions()), [0x84]);

    let insert = [&[0x4a][..], b"custom-key", &[0x0c], b"custom-value"].concat();
    decoder.on_encoder_stream(&insert).unwrap();
    assert_eq!(std::mem::take(decoder.instructions()), [0x01]);

    let section = [0x05, 0x00, 0x80, 0xc1, 0x81];
    assert_eq!(decode(&mut decoder, 8, &section), (Decoded::Blocked, vec![]));
    decoder.cancel(8);
    assert_eq!(std::mem::take(decoder.instructions()), [0x48]);
    decoder.on_encoder_stream(&[0x02]).unwrap();
    assert_eq!(decoder.take_unblocked(), None, "the stream was cancelled");
    let expected = lines(&[authority, (":path", "/"), ("custom-key", "custom-value")]);
    assert_eq!(decode(&mut decoder, 12, &section), (Decoded::Complete, expected));

    decoder.on_encoder_stream(&[&[0x81, 0x0d][..], b"custom-value2"].concat()).unwrap();
    let expected = lines(&[("custom-key", "custom-value2")]);
    assert_eq!(decode(&mut decoder, 16, &[0x06, 0x00, 0x80]), (Decoded::Complete, expected));
    // The first entry was evicted; its duplicate was not.
    let gone = decoder.decode(20, &[0x06, 0x00, 0x84], &LIMITS, &mut |_| {});
    assert_eq!(gone.unwrap_err().code, crate::Code::QPACK_DECOMPRESSION_FAILED);
}

/// Encoder, decoder and the three kinds of streams between them. Each stream is delayed independently.
struct Network {
    encoder: Encoder,
    decoder: Decoder,
    encoder_stream: VecDeque<u8>,
    decoder_stream: VecDeque<u8>,
    /// Sections that have not arrived or that are blocked, with their lines, by stream.
    sections: BTreeMap<u64, (Vec<u8>, Lines)>,
    blocked: usize,
}

impl Network {
    fn new(capacity: u64, blocked_streams: u64) -> Self {
        let mut encoder = Encoder::new();
        encoder.set_limits(capacity, blocked_streams);
        Self {
            encoder,
            decoder: Decoder::new(capacity, blocked_streams),
            encoder_stream: VecDeque::new(),
            decoder_stream: VecDeque::new(),
            sections: BTreeMap::new(),
            blocked: 0,
        }
    }

    fn send(&mut self, stream: u64, list: Lines, room: usize) {
        let before = self.encoder.instructions().len();
        let section = encode(&mut self.encoder, stream, &list, room);
        assert!(
            self.encoder.instructions().len() <= room.saturating_add(before),
            "no more instructions than have room"
        );
        self.encoder_stream.extend(std::mem::take(self.encoder.instructions()));
        self.sections.insert(stream, (section, list));
    }

    /// Delivers `count` bytes of the encoder stream, and decodes the streams that they unblock.
    fn instruct(&mut self, count: usize) {
        let count = count.min(self.encoder_stream.len());
        let bytes: Vec<u8> = self.encoder_stream.drain(..count).collect();
        self.decoder.on_encoder_stream(&bytes).unwrap();
        while let Some(stream) = self.decoder.take_unblocked() {
            self.deliver(stream);
            assert!(!self.sections.contains_key(&stream), "an unblocked section decodes");
        }
        self.decoder_stream.extend(std::mem::take(self.decoder.instructions()));
    }

    /// Delivers the section of a stream.
    fn deliver(&mut self, stream: u64) {
        let Some((section, list)) = self.sections.get(&stream) else { return };
        match decode(&mut self.decoder, stream, section) {
            (Decoded::Complete, got) => {
                let same = got
                    .iter()
                    .zip(list)
                    .all(|(got, sent)| got.0 == sent.0 && got.1 == sent.1 && got.2 >= sent.2);
                assert!(same && got.len() == list.len(), "{got:?} instead of {list:?}");
                self.sections.remove(&stream);
            }
            (decoded, _) => {
                assert_eq!(decoded, Decoded::Blocked);
                self.blocked += 1;
            }
        }
        self.decoder_stream.extend(std::mem::take(self.decoder.instructions()));
    }

    fn acknowledge(&mut self, count: usize) {
        let count = count.min(self.decoder_stream.len());
        let bytes: Vec<u8> = self.decoder_stream.drain(..count).collect();
        self.encoder.on_decoder_stream(&bytes).unwrap();
    }

    /// Delivers everything.
    fn run_until_quiet(&mut self) {
        self.instruct(usize::MAX);
        for stream in self.sections.keys().copied().collect::<Vec<_>>() {
            self.deliver(stream);
        }
        assert!(self.sections.is_empty());
        self.acknowledge(usize::MAX);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Send { lines: Lines, room: usize },
    Instruct(usize),
    Deliver(usize),
    Cancel(usize),
    Acknowledge(usize),
}

fn line() -> impl Strategy<Value = (Vec<u8>, Vec<u8>, bool)> {
    let name = prop_oneof![
        Just(":path".to_owned()),
        Just(":status".to_owned()),
        Just("cookie".to_owned()),
        "x-[a-d]",
        "[a-z-]{0,40}",
    ];
    let value = prop_oneof![
        Just(b"200".to_vec()),
        "[a-c]".prop_map(String::into_bytes),
        "[a-z/]{0,60}".prop_map(String::into_bytes),
        proptest::collection::vec(any::<u8>(), 0..300),
    ];
    (name.prop_map(String::into_bytes), value, proptest::bool::weighted(0.1))
}

fn step() -> impl Strategy<Value = Step> {
    let lists = proptest::collection::vec(line(), 0..8);
    prop_oneof![
        3 => (lists, prop_oneof![Just(usize::MAX), 0..200usize]).prop_map(|(lines, room)| Step::Send { lines, room }),
        2 => prop_oneof![Just(usize::MAX), 0..40usize].prop_map(Step::Instruct),
        3 => (0..8usize).prop_map(Step::Deliver),
        1 => (0..8usize).prop_map(Step::Cancel),
        2 => prop_oneof![Just(usize::MAX), 0..6usize].prop_map(Step::Acknowledge),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Checks that every section decodes to the lines that were sent, and that neither side reports an error,
    /// in any order of arrival.
    #[test]
    fn any_order_of_arrival(
        capacity in prop_oneof![Just(0u64), 1..64u64, 64..400u64, Just(4096), Just(1 << 20)],
        blocked_streams in prop_oneof![Just(0u64), 1..4u64, Just(100)],
        repeated in proptest::collection::vec(line(), 0..6),
        steps in proptest::collection::vec(step(), 0..80),
    ) {
        let mut network = Network::new(capacity, blocked_streams);
        let mut next = 0;
        for step in steps {
            let some = |network: &Network, nth: usize| network.sections.keys().nth(nth).copied();
            match step {
                Step::Send { mut lines, room } => {
                    lines.extend(repeated.iter().cloned());
                    network.send(next, lines, room);
                    next += 4;
                }
                Step::Instruct(count) => network.instruct(count),
                Step::Deliver(nth) => {
                    if let Some(stream) = some(&network, nth) {
                        network.deliver(stream);
                    }
                }
                Step::Cancel(nth) => {
                    if let Some(stream) = some(&network, nth) {
                        network.sections.remove(&stream);
                        network.decoder.cancel(stream);
                    }
                }
                Step::Acknowledge(count) => network.acknowledge(count),
            }
        }
        network.run_until_quiet();
    }
}

/// Returns the lines of a recurring response. Its date varies with `second`.
fn response(second: usize) -> Lines {
    lines(&[
        (":status", "200"),
        ("content-type", "text/html; charset=utf-8"),
        ("content-length", "100"),
        ("date", &format!("Sun, 22 Nov 2026 00:00:{second:02} GMT")),
        ("server", "anabranch"),
    ])
}

#[test]
fn repeated_lines_become_one_byte_each() {
    let mut network = Network::new(4096, 16);
    for round in 0..4 {
        network.send(4 * round, response(0), usize::MAX);
        network.run_until_quiet();
    }
    let section = encode(&mut network.encoder, 100, &response(0), usize::MAX);
    assert_eq!(section.len(), 2 + 5);
    assert!(network.encoder.instructions().is_empty());
    assert_eq!(decode(&mut network.decoder, 100, &section), (Decoded::Complete, response(0)));
}

/// Checks that a table that is too small for all dates still accepts new ones, and that lines used in every
/// section stay in the table.
#[test]
fn a_full_table_goes_on_working() {
    let mut network = Network::new(512, 16);
    for second in 0..60 {
        for round in 0..4 {
            network.send(1000 * second + 4 * round, response(second as usize), usize::MAX);
            network.run_until_quiet();
        }
        let section =
            encode(&mut network.encoder, 1000 * second + 16, &response(second as usize), usize::MAX);
        assert_eq!(section.len(), 2 + 5, "second {second}");
        network.sections.insert(1000 * second + 16, (section, response(second as usize)));
        network.encoder_stream.extend(std::mem::take(network.encoder.instructions()));
        network.run_until_quiet();
    }
    assert_eq!(network.blocked, 0);
}
