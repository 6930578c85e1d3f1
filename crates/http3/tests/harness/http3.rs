//! Properties of any received frames, settings, priorities, capsules, datagrams and field sections. Nothing
//! panics, the result does not depend on the position at which the bytes are split, and decoded values are
//! the same after they are encoded and decoded again.
//!
//! The first byte gives the position at which the other bytes are split. Each parser reads all of the other
//! bytes.

use anabranch_http3::capsule::{Capsule, CapsuleReader, CapsuleType, MAX_CAPSULE_VALUE};
use anabranch_http3::frame::{ControlFrame, FrameHeader, HeaderReader, MAX_CONTROL_PAYLOAD};
use anabranch_http3::message::{FieldGatherer, Fields, content_length, request_fields, response_fields};
use anabranch_http3::message::{Malformed, trailer_fields};
use anabranch_http3::{Code, Error, Priority, decode_datagram, encode_datagram};
use bytes::Bytes;

pub(crate) fn run(data: &[u8]) {
    let Some((cut, data)) = data.split_first() else { return };
    let pieces = data.split_at(data.len() * usize::from(*cut) / 256);
    frames(data, pieces);
    capsules(data, pieces);
    datagram(data);
    priority(data);
    let lines = lines(data);
    request(&lines);
    response(&lines);
    trailers(&lines);
}

/// Parser of control frames, as in a session.
#[derive(Default)]
struct Frames {
    reader: HeaderReader,
    frame: Option<FrameHeader>,
    missing: u64,
    payload: Vec<u8>,
    read: Vec<Result<Option<ControlFrame>, Error>>,
}

impl Frames {
    fn read(&mut self, mut bytes: &[u8]) {
        loop {
            let Some(frame) = self.frame else {
                if bytes.is_empty() {
                    return;
                }
                let (taken, header) = self.reader.read(bytes);
                assert!(taken > 0);
                assert_eq!(self.reader.is_empty(), header.is_some());
                bytes = &bytes[taken..];
                self.missing = header.map_or(0, |header| header.len);
                self.frame = header;
                continue;
            };
            let now = usize::try_from(self.missing).unwrap_or(usize::MAX).min(bytes.len());
            if frame.len <= MAX_CONTROL_PAYLOAD {
                self.payload.extend_from_slice(&bytes[..now]);
            }
            bytes = &bytes[now..];
            self.missing -= now as u64;
            if self.missing > 0 {
                return;
            }
            self.read.push(ControlFrame::decode(frame.kind, &self.payload));
            self.payload.clear();
            self.frame = None;
        }
    }
}

fn frames(whole: &[u8], pieces: (&[u8], &[u8])) {
    let mut once = Frames::default();
    once.read(whole);
    let mut twice = Frames::default();
    twice.read(pieces.0);
    twice.read(pieces.1);
    assert_eq!(once.read, twice.read);
    for frame in once.read {
        match frame {
            Ok(Some(frame)) => {
                let mut bytes = Vec::new();
                frame.encode(&mut bytes);
                let mut again = Frames::default();
                again.read(&bytes);
                assert_eq!(again.read, [Ok(Some(frame))]);
            }
            Ok(None) => {}
            Err(error) => {
                let codes = [Code::FRAME_ERROR, Code::SETTINGS_ERROR, Code::EXCESSIVE_LOAD];
                assert!(codes.contains(&error.code), "{error}");
            }
        }
    }
}

fn read_capsules(pieces: &[&[u8]]) -> (Vec<Capsule>, Result<(), Malformed>) {
    let mut reader = CapsuleReader::new(&[CapsuleType::DATAGRAM, CapsuleType(1)]);
    let mut capsules = Vec::new();
    for mut piece in pieces.iter().copied() {
        while !piece.is_empty() {
            match reader.read(piece) {
                Ok((taken, capsule)) => {
                    assert!(taken > 0);
                    capsules.extend(capsule);
                    piece = &piece[taken..];
                }
                Err(malformed) => return (capsules, Err(malformed)),
            }
        }
    }
    (capsules, reader.end())
}

fn capsules(whole: &[u8], pieces: (&[u8], &[u8])) {
    let (capsules, end) = read_capsules(&[whole]);
    assert_eq!(read_capsules(&[pieces.0, pieces.1]), (capsules.clone(), end));
    let mut bytes = Vec::new();
    for capsule in &capsules {
        assert!(capsule.value.len() as u64 <= MAX_CAPSULE_VALUE);
        capsule.encode(&mut bytes);
    }
    assert_eq!(read_capsules(&[&bytes]), (capsules, Ok(())));
}

fn datagram(data: &[u8]) {
    match decode_datagram(Bytes::copy_from_slice(data)) {
        Ok((stream, payload)) => {
            assert_eq!(decode_datagram(encode_datagram(stream, &payload)), Ok((stream, payload)));
        }
        Err(error) => assert_eq!(error.code, Code::DATAGRAM_ERROR),
    }
}

fn priority(data: &[u8]) {
    let priority = Priority::parse(data);
    assert!(priority.urgency <= 7);
    assert_eq!(Priority::parse(priority.to_string().as_bytes()), priority);
}

/// Names with a meaning. Random bytes would rarely form them.
const NAMES: [&str; 16] = [
    ":method",
    ":scheme",
    ":authority",
    ":path",
    ":protocol",
    ":status",
    "host",
    "cookie",
    "te",
    "content-length",
    "connection",
    "priority",
    "accept",
    "set-cookie",
    "x-own",
    "authorization",
];

type Line<'a> = (&'a [u8], &'a [u8]);

/// Parses the lines of a field section. Name and value each consist of a length byte and as many bytes as it
/// says. For a name, a length from 240 on is instead the index of a known name plus 240.
fn lines(data: &[u8]) -> Vec<Line<'_>> {
    let mut rest = data;
    let mut string = |may_be_known: bool| {
        let (len, behind) = rest.split_first()?;
        let known = len.checked_sub(240).filter(|_| may_be_known);
        let (string, behind) = match known {
            Some(known) => (NAMES[usize::from(known)].as_bytes(), behind),
            None => behind.split_at(behind.len().min(usize::from(*len))),
        };
        rest = behind;
        Some(string)
    };
    std::iter::from_fn(|| Some((string(true)?, string(false)?))).collect()
}

fn gather(lines: &[Line<'_>]) -> Result<FieldGatherer, Malformed> {
    let mut gatherer = FieldGatherer::new();
    for (name, value) in lines {
        gatherer.add(name, value, value.len() % 2 == 0)?;
    }
    Ok(gatherer)
}

fn gather_fields(fields: &Fields<'_>) -> FieldGatherer {
    let mut gatherer = FieldGatherer::new();
    for field in fields.iter() {
        gatherer.add(field.name, field.value, field.sensitive).unwrap();
    }
    gatherer
}

fn request(lines: &[Line<'_>]) {
    let Ok(mut parts) = gather(lines).and_then(FieldGatherer::into_request) else { return };
    let _ = content_length(&parts.headers);
    assert!(Priority::of(&parts.headers).urgency <= 7);
    // Authorities that are missing or contain user information cannot be sent.
    let Ok(gatherer) = request_fields(&parts).map(|fields| gather_fields(&fields)) else { return };
    let again = gatherer.into_request().unwrap();
    parts.headers.remove("host");
    assert_eq!((again.method, again.uri, again.headers), (parts.method, parts.uri, parts.headers));
}

fn response(lines: &[Line<'_>]) {
    let Ok(parts) = gather(lines).and_then(FieldGatherer::into_response) else { return };
    let again = gather_fields(&response_fields(&parts).unwrap()).into_response().unwrap();
    assert_eq!(again.status, parts.status);
    let mut headers = parts.headers;
    headers.remove("te");
    assert_eq!(again.headers, headers);
}

fn trailers(lines: &[Line<'_>]) {
    let Ok(trailers) = gather(lines).and_then(FieldGatherer::into_trailers) else { return };
    assert_eq!(gather_fields(&trailer_fields(&trailers).unwrap()).into_trailers().unwrap(), trailers);
}
