//! QPACK encoder and decoder for files in the format of the QPACK offline interop. A file consists of
//! records, each with a stream ID (8 bytes), a length (4 bytes) and a payload. Stream 0 is the encoder
//! stream. Header lists are in QIF: a line for each field with a tab between name and value, and an empty
//! line after each list. `cargo xtask qpack` runs this example against other stacks.

use std::error::Error;
use std::fs;

use anabranch_http3::qpack::{Decoded, Decoder, Encoder, Field, Limits};

const USAGE: &str = "qpack_interop generate SEED LISTS QIF
qpack_interop encode QIF ENCODED CAPACITY BLOCKED ACKNOWLEDGE
qpack_interop decode ENCODED QIF CAPACITY BLOCKED";

type List = Vec<(String, String)>;
type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["generate", seed, lists, to] => {
            let mut random = Random(seed.parse()?);
            let lists: Vec<List> = (0..lists.parse()?).map(|index| random.list(index)).collect();
            fs::write(to, to_qif(&lists))?;
        }
        ["encode", from, to, capacity, blocked, acknowledge] => {
            let lists = from_qif(&fs::read_to_string(from)?)?;
            fs::write(to, encode(&lists, capacity.parse()?, blocked.parse()?, acknowledge == "1")?)?;
        }
        ["decode", from, to, capacity, blocked] => {
            let lists = decode(&fs::read(from)?, capacity.parse()?, blocked.parse()?)?;
            fs::write(to, to_qif(&lists))?;
        }
        _ => return Err(USAGE.into()),
    }
    Ok(())
}

/// Encodes the lists on streams 1, 2, 3, … If `acknowledge` is set, the decoder acknowledges each section at
/// once. Otherwise it never does, and each section precedes the instructions that it needs.
fn encode(lists: &[List], capacity: u64, blocked: u64, acknowledge: bool) -> Outcome<Vec<u8>> {
    let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new(capacity, blocked));
    encoder.set_limits(capacity, blocked);
    let mut out = Vec::new();
    let setup = std::mem::take(encoder.instructions());
    decoder.on_encoder_stream(&setup)?;
    record(&mut out, 0, &setup);
    for (stream, list) in (1..).zip(lists) {
        let mut section = Vec::new();
        let fields = list.iter().map(|(name, value)| Field {
            name: name.as_bytes(),
            value: value.as_bytes(),
            sensitive: false,
        });
        encoder.encode(stream, fields, usize::MAX, &mut section);
        let instructions = std::mem::take(encoder.instructions());
        if acknowledge {
            record(&mut out, 0, &instructions);
            record(&mut out, stream, &section);
            decoder.on_encoder_stream(&instructions)?;
            decoder.decode(stream, &section, &UNLIMITED, &mut |_| {})?;
            encoder.on_decoder_stream(&std::mem::take(decoder.instructions()))?;
        } else {
            record(&mut out, stream, &section);
            record(&mut out, 0, &instructions);
        }
    }
    Ok(out)
}

/// Limits that permit everything, because the files are trusted.
const UNLIMITED: Limits = Limits { max_size: u64::MAX, max_fields: usize::MAX };

fn record(out: &mut Vec<u8>, stream: u64, payload: &[u8]) {
    if !payload.is_empty() {
        out.extend_from_slice(&stream.to_be_bytes());
        out.extend_from_slice(&(payload.len() as u32).to_be_bytes());
        out.extend_from_slice(payload);
    }
}

/// Decodes the sections. Returns the lists in the order of their streams.
fn decode(mut encoded: &[u8], capacity: u64, blocked: u64) -> Outcome<Vec<List>> {
    let mut decoder = Decoder::new(capacity, blocked);
    let mut lists = std::collections::BTreeMap::new();
    let mut waiting = std::collections::BTreeMap::new();
    while let Some((header, rest)) = encoded.split_first_chunk::<12>() {
        let (stream, len) = header.split_at(8);
        let stream = u64::from_be_bytes(stream.try_into()?);
        let (payload, rest) =
            rest.split_at_checked(u32::from_be_bytes(len.try_into()?) as usize).ok_or("cut off")?;
        encoded = rest;
        if stream > 0 {
            waiting.insert(stream, payload);
            section(&mut decoder, stream, &mut waiting, &mut lists)?;
            continue;
        }
        decoder.on_encoder_stream(payload)?;
        while let Some(stream) = decoder.take_unblocked() {
            section(&mut decoder, stream, &mut waiting, &mut lists)?;
        }
    }
    if !encoded.is_empty() || !waiting.is_empty() {
        return Err(format!("cut off; {} streams still wait", waiting.len()).into());
    }
    Ok(lists.into_values().collect())
}

/// Decodes a section that has arrived. It stays in `waiting` while it is blocked.
fn section(
    decoder: &mut Decoder,
    stream: u64,
    waiting: &mut std::collections::BTreeMap<u64, &[u8]>,
    lists: &mut std::collections::BTreeMap<u64, List>,
) -> Outcome<()> {
    let payload = waiting.get(&stream).ok_or("an unblocked stream that has no section")?;
    let mut list = List::new();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let decoded = decoder
        .decode(stream, payload, &UNLIMITED, &mut |line| list.push((text(line.name), text(line.value))))?;
    if decoded == Decoded::Complete {
        waiting.remove(&stream);
        lists.insert(stream, list);
    }
    Ok(())
}

fn to_qif(lists: &[List]) -> String {
    let line = |(name, value): &(String, String)| format!("{name}\t{value}\n");
    lists.iter().map(|list| list.iter().map(line).collect::<String>() + "\n").collect()
}

fn from_qif(text: &str) -> Outcome<Vec<List>> {
    let lists = text.split("\n\n").filter(|list| !list.trim().is_empty());
    let line = |line: &str| {
        let (name, value) = line.split_once('\t').ok_or_else(|| format!("no tab in {line:?}"))?;
        Ok((name.to_owned(), value.to_owned()))
    };
    lists.map(|list| list.lines().map(line).collect()).collect()
}

/// Random numbers from a seed (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % limit
    }

    fn pick(&mut self, from: &[&'static str]) -> &'static str {
        from[self.below(from.len() as u64) as usize]
    }

    /// Returns field lines of a browser, a program or a server. Most of them recur; some are sent once.
    fn list(&mut self, index: u64) -> List {
        let mut list = if self.below(2) == 0 { self.request() } else { self.response(index) };
        if self.below(8) == 0 {
            list.push((
                "x-request-id".to_owned(),
                format!("{:016x}{:016x}", self.below(u64::MAX), self.below(u64::MAX)),
            ));
        }
        if self.below(16) == 0 {
            let name = format!("x-{}", self.pick(&["trace", "empty", "region", "experiment"]));
            list.push((
                name,
                self.pick(&["", "a=1;b=2", "é ü ß", "north", "\u{7f}~\"quoted\"{}"]).to_owned(),
            ));
        }
        list
    }

    fn request(&mut self) -> List {
        let path = match self.below(4) {
            0 => "/".to_owned(),
            1 => format!("/images/{}.png?width={}", self.below(40), 100 * self.below(20)),
            2 => format!("/api/v2/items/{}", self.below(1_000_000)),
            _ => self.pick(&["/style.css", "/app.js", "/favicon.ico"]).to_owned(),
        };
        let agent = self.pick(&[
            "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36",
            "curl/8.14.1",
        ]);
        let mut list = lines(&[
            (":method", self.pick(&["GET", "GET", "GET", "POST", "HEAD"])),
            (":scheme", "https"),
            (":authority", self.pick(&["www.example.com", "static.example.com", "localhost:4433"])),
            (":path", &path),
            ("user-agent", agent),
            (
                "accept",
                self.pick(&[
                    "*/*",
                    "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8",
                    "image/avif,image/webp",
                ]),
            ),
            ("accept-encoding", "gzip, deflate, br, zstd"),
            ("priority", self.pick(&["u=0, i", "u=1", "u=5"])),
        ]);
        if self.below(2) == 0 {
            let cookie = format!("session={:032x}; theme=dark", self.below(3));
            list.push(("cookie".to_owned(), cookie));
        }
        list
    }

    fn response(&mut self, index: u64) -> List {
        let mut list = lines(&[
            (":status", self.pick(&["200", "200", "200", "304", "404", "418"])),
            ("content-type", self.pick(&["text/html; charset=utf-8", "image/webp", "application/json"])),
            ("content-length", &self.below(100_000).to_string()),
            ("date", &format!("Sun, 22 Nov 2026 12:{:02}:{:02} GMT", index / 600 % 60, index / 10 % 60)),
            ("server", "anabranch"),
            (
                "cache-control",
                self.pick(&["max-age=3600", "no-cache", "public, max-age=31536000, immutable"]),
            ),
        ]);
        if self.below(3) == 0 {
            list.push(("etag".to_owned(), format!("\"{:x}\"", self.below(u64::MAX))));
            list.push(("vary".to_owned(), self.pick(&["accept-encoding", "accept, origin"]).to_owned()));
        }
        if self.below(10) == 0 {
            let sources = "https://cdn.example.com ".repeat(1 + self.below(60) as usize);
            list.push((
                "content-security-policy".to_owned(),
                format!("default-src 'self'; img-src {sources}'self'"),
            ));
        }
        list
    }
}

fn lines(list: &[(&str, &str)]) -> List {
    list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}
