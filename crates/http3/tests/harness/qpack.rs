//! Properties that must hold for any QPACK streams and field sections of a peer, and for any field lines that
//! we encode.
//!
//! The first three bytes select the table's capacity, the limit of blocked streams and the component under
//! test. The other bytes are a script: each step consists of an operation, a length and as many bytes as the
//! length says.

use anabranch_http3::Code;
use anabranch_http3::qpack::{Decoded, Decoder, Encoder, Field, FieldLine, Limits, MAX_UNSENT_INSTRUCTIONS};

/// Limits that are so low that a script reaches them.
const LIMITS: Limits = Limits { max_size: 2048, max_fields: 16 };

pub(crate) fn run(data: &[u8]) {
    let Some((&[capacity, blocked, who], script)) = data.split_first_chunk::<3>() else { return };
    let capacity = [0, 31, 32, 100, 220, 4096, 65536][usize::from(capacity % 7)];
    let blocked = u64::from(blocked % 4);
    match who % 3 {
        0 => wild_encoder(capacity, blocked, Script(script)),
        1 => wild_decoder(capacity, blocked, Script(script)),
        _ => both(capacity, blocked, Script(script)),
    }
}

/// Iterator over the operations of a script, with their bytes.
struct Script<'a>(&'a [u8]);

impl<'a> Iterator for Script<'a> {
    type Item = (u8, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (&[operation, len], rest) = self.0.split_first_chunk::<2>()?;
        let (bytes, rest) = rest.split_at(rest.len().min(usize::from(len)));
        self.0 = rest;
        Some((operation, bytes))
    }
}

/// Feeds arbitrary bytes of a peer to our decoder.
fn wild_encoder(capacity: u64, blocked: u64, script: Script<'_>) {
    let mut decoder = Decoder::new(capacity, blocked);
    let mut waiting = Vec::new();
    for (operation, bytes) in script {
        let stream = u64::from(operation >> 2);
        match operation % 4 {
            0 => {
                if let Err(error) = decoder.on_encoder_stream(bytes) {
                    assert_eq!(error.code, Code::QPACK_ENCODER_STREAM_ERROR);
                    return;
                }
                while let Some(stream) = decoder.take_unblocked() {
                    assert!(waiting.contains(&stream));
                    waiting.retain(|waiting| *waiting != stream);
                }
            }
            1 | 2 => match bounded(&mut decoder, stream, bytes) {
                Ok(Decoded::Blocked) => waiting.push(stream),
                Ok(_) => waiting.retain(|waiting| *waiting != stream),
                Err(code) => {
                    assert_eq!(code, Code::QPACK_DECOMPRESSION_FAILED);
                    return;
                }
            },
            _ => {
                decoder.cancel(stream);
                waiting.retain(|waiting| *waiting != stream);
            }
        }
        waiting.sort_unstable();
        waiting.dedup();
        assert!(waiting.len() as u64 <= blocked, "{waiting:?} wait");
        assert!(decoder.instructions().len() <= MAX_UNSENT_INSTRUCTIONS + 10);
    }
}

/// Decodes a section, and checks that the decoded lines are within the limits.
fn bounded(decoder: &mut Decoder, stream: u64, section: &[u8]) -> Result<Decoded, Code> {
    let (mut size, mut fields) = (0, 0);
    let mut sink = |line: FieldLine<'_>| {
        size += (line.name.len() + line.value.len() + 32) as u64;
        fields += 1;
    };
    let decoded = decoder.decode(stream, section, &LIMITS, &mut sink);
    assert!(size <= LIMITS.max_size && fields <= LIMITS.max_fields);
    if decoded == Ok(Decoded::Blocked) {
        assert_eq!(fields, 0);
    }
    decoded.map_err(|error| error.code)
}

/// Feeds arbitrary bytes of a peer to our encoder.
fn wild_decoder(capacity: u64, blocked: u64, script: Script<'_>) {
    let mut encoder = Encoder::new();
    encoder.set_limits(capacity, blocked);
    for (operation, bytes) in script {
        if operation % 2 == 0 {
            let room = usize::from(operation);
            let before = encoder.instructions().len();
            encoder.encode(u64::from(operation >> 5), fields(bytes), room, &mut Vec::new());
            assert!(encoder.instructions().len() <= before + room);
        } else if let Err(error) = encoder.on_decoder_stream(bytes) {
            assert_eq!(error.code, Code::QPACK_DECODER_STREAM_ERROR);
            return;
        }
    }
}

/// Connects our encoder to our decoder, and checks that every section is decoded correctly in any order of
/// arrival.
fn both(capacity: u64, blocked: u64, script: Script<'_>) {
    let mut encoder = Encoder::new();
    let mut decoder = Decoder::new(capacity, blocked);
    encoder.set_limits(capacity, blocked);
    let (mut instructions, mut answers) = (Vec::new(), Vec::new());
    let mut sections: Vec<(u64, Vec<u8>, &[u8])> = Vec::new();
    for (index, (operation, bytes)) in script.enumerate() {
        let amount = usize::from(operation >> 2);
        match operation % 4 {
            0 | 1 => {
                let mut section = Vec::new();
                encoder.encode(index as u64, fields(bytes), 4 * amount, &mut section);
                instructions.append(encoder.instructions());
                sections.push((index as u64, section, bytes));
            }
            2 => {
                let arriving: Vec<u8> = instructions.drain(..amount.min(instructions.len())).collect();
                decoder.on_encoder_stream(&arriving).expect("instructions of our own");
                sections.retain(|(stream, section, lines)| !arrive(&mut decoder, *stream, section, lines));
                answers.append(decoder.instructions());
            }
            _ => {
                let arriving: Vec<u8> = answers.drain(..amount.min(answers.len())).collect();
                encoder.on_decoder_stream(&arriving).expect("answers of our own");
            }
        }
    }
    decoder.on_encoder_stream(&instructions).expect("instructions of our own");
    for (stream, section, lines) in &sections {
        assert!(arrive(&mut decoder, *stream, section, lines), "all entries have come");
    }
    answers.append(decoder.instructions());
    encoder.on_decoder_stream(&answers).expect("answers of our own");
}

/// Decodes a section and checks that it contains `lines`. Returns `false` if it is blocked.
fn arrive(decoder: &mut Decoder, stream: u64, section: &[u8], lines: &[u8]) -> bool {
    let mut expected = fields(lines);
    let mut sink = |line: FieldLine<'_>| {
        let field = expected.next().expect("no more lines than were encoded");
        assert_eq!((line.name, line.value), (field.name, field.value));
        assert!(line.never_indexed || !field.sensitive);
    };
    let limits = Limits { max_size: u64::MAX, max_fields: usize::MAX };
    match decoder.decode(stream, section, &limits, &mut sink).expect("a section of our own") {
        Decoded::Complete => assert!(expected.next().is_none(), "no fewer lines than were encoded"),
        Decoded::Blocked => return false,
        _ => panic!("nothing is too large"),
    }
    true
}

/// Parses field lines from `bytes`. Each line consists of a choice of the name, a choice of the value, and
/// for some choices the value itself.
fn fields(bytes: &[u8]) -> impl Iterator<Item = Field<'_>> {
    const NAMES: [&[u8]; 8] =
        [b":path", b":status", b"cookie", b"x-a", b"x-b", b"a-name-that-stands-in-no-table", b"", b"date"];
    const VALUES: [&[u8]; 7] =
        [b"", b"200", b"/", b"a value that comes again and again", b"1", b"2", &[0xff; 90]];
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (&[name, choice], after) = rest.split_first_chunk::<2>()?;
        let len = if choice % 8 == 7 { usize::from(choice >> 3).min(after.len()) } else { 0 };
        let (literal, after) = after.split_at(len);
        rest = after;
        let value = VALUES.get(usize::from(choice % 8)).copied().unwrap_or(literal);
        Some(Field { name: NAMES[usize::from(name % 8)], value, sensitive: name > 0xf0 })
    })
}
