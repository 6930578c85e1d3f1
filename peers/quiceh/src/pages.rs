//! `pages`: a client's cost of many HTTP/3 responses, without sockets.
//!
//! As in the reference's own benchmark, there are 80 responses of 31,250 bytes, 2.5 MB in total. Their
//! packets arrive in batches of 157, about the capacity of a socket's default buffer. The clock runs while
//! the client's `recv` handles a batch and while the client reads the available content from HTTP/3. With
//! version 1, content is copied into a separate buffer for each response, as long as its `content-length`.
//! With VReverso, it is read where it was decrypted. Every sample uses a new connection, which is created
//! while the clock is stopped.

use std::collections::HashMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use peer_common::args::Values;
use peer_common::report::Report;
use peer_common::{Failure, PATTERN, failed, socket};
use quiche::h3::{self, Error, Event, Header, HeaderRef, NameValue};
use quiche::{Config, PROTOCOL_VERSION_VREVERSO};

use crate::pair::{PACKET, Pair};
use crate::{stack, unlimited};

/// Number of responses in one sample.
const ANSWERS: usize = 80;

/// Bytes of content in each response.
const CONTENT: usize = 31_250;

/// Number of packets in a batch for the client.
const BATCH: usize = 157;

/// Number of samples that are discarded before the measured ones.
const WARM_UP: usize = 5;

/// Runs `pages --samples N [--one-core K]`, with the flags for the stack's settings.
pub fn run(flags: Vec<String>) -> Result<(), Failure> {
    let flags = Values::parse(flags, &[&["--samples", "--one-core"], unlimited::FLAGS].concat())?;
    let samples = flags.get("--samples")?.unwrap_or(50_usize).max(1);
    if let Some(cpu) = flags.get("--one-core")? {
        socket::pin(cpu)?;
    }
    let (mut client, mut server) = unlimited::configs(&flags)?;
    for _ in 0..WARM_UP {
        Pages::new(&mut client, &mut server)?.sample()?;
    }
    let mut times = Vec::with_capacity(samples);
    for _ in 0..samples {
        times.push(Pages::new(&mut client, &mut server)?.sample()?);
    }
    times.sort_unstable();
    let millis = |time: Duration| format!("{:.4}", time.as_secs_f64() * 1e3);
    Report::new()
        .text("name", &unlimited::name(&flags)?)
        .raw("samples", samples)
        .raw("ms", millis(times[samples / 2]))
        .raw("min_ms", millis(times[0]))
        .print();
    Ok(())
}

/// Client that has sent its requests, and the packets of the responses.
struct Pages {
    pair: Pair,
    http: h3::Connection,
    packets: Vec<Vec<u8>>,
}

impl Pages {
    fn new(client: &mut Config, server: &mut Config) -> Result<Self, Failure> {
        let mut pair = Pair::new(client, server)?;
        let config = h3::Config::new()?;
        let mut http = h3::Connection::with_transport(&mut pair.client, &config)?;
        let mut serving = h3::Connection::with_transport(&mut pair.server, &config)?;
        pair.exchange()?;
        let request = [
            HeaderRef::new(b":method", b"GET"),
            HeaderRef::new(b":scheme", b"https"),
            HeaderRef::new(b":authority", b"localhost"),
            HeaderRef::new(b":path", b"/"),
        ];
        for _ in 0..ANSWERS {
            http.send_request(&mut pair.client, &request, true)?;
        }
        pair.exchange()?;
        let mut asked = Vec::new();
        while let Ok((id, event)) = serving.poll(&mut pair.server) {
            if matches!(event, Event::Headers { .. }) {
                asked.push(id);
            }
        }
        // The client must read the server's settings before the clock runs.
        pair.exchange()?;
        while http.poll(&mut pair.client).is_ok() {}
        answer(&mut serving, &mut pair, &asked)?;
        let packets = flight(&mut pair)?;
        Ok(Self { pair, http, packets })
    }

    /// Measures the time that the client takes for all responses.
    fn sample(mut self) -> Result<Duration, Failure> {
        let (mut own, mut read, mut finished) = (HashMap::new(), 0, 0);
        let mut packets = std::mem::take(&mut self.packets);
        let start = Instant::now();
        for batch in packets.chunks_mut(BATCH) {
            for packet in batch {
                self.pair.client.recv(packet, Pair::to_client())?;
            }
            finished += self.take(&mut own, &mut read)?;
        }
        let elapsed = start.elapsed();
        if (read, finished) != (ANSWERS * CONTENT, ANSWERS) {
            return failed(format!("{finished} answers with {read} bytes in all"));
        }
        Ok(elapsed)
    }

    /// Reads the available data. Returns the number of responses that are now complete.
    fn take(&mut self, own: &mut HashMap<u64, Buffer>, read: &mut usize) -> Result<usize, Failure> {
        let lends = self.pair.client.version() == PROTOCOL_VERSION_VREVERSO;
        let (http, client) = (&mut self.http, &mut self.pair.client);
        let mut finished = 0;
        loop {
            match http.poll(client) {
                Ok((id, Event::Headers { list, .. })) if !lends => {
                    own.insert(id, Buffer { bytes: vec![0; length(&list)?], filled: 0 });
                }
                Ok((id, Event::Data)) if lends => {
                    stack::read_body(http, client, id, &mut [], |piece| *read += black_box(piece).len());
                }
                Ok((id, Event::Data)) => {
                    let Some(buffer) = own.get_mut(&id) else { return failed("content without a head") };
                    while let Ok(n) = http.recv_body(client, id, &mut buffer.bytes[buffer.filled..]) {
                        buffer.filled += n;
                        *read += n;
                    }
                    black_box(&buffer.bytes);
                }
                Ok((_, Event::Finished)) => finished += 1,
                Ok(_) => {}
                Err(Error::Done) => return Ok(finished),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Content of a response, in the client's own memory.
struct Buffer {
    bytes: Vec<u8>,
    filled: usize,
}

fn length(head: &[Header]) -> Result<usize, Failure> {
    let field = head.iter().find(|field| field.name() == b"content-length");
    let Some(field) = field else { return failed("an answer without content-length") };
    Ok(std::str::from_utf8(field.value())?.parse()?)
}

/// Sends the server's responses to all requests of `asked`.
fn answer(serving: &mut h3::Connection, pair: &mut Pair, asked: &[u64]) -> Result<(), Failure> {
    if asked.len() != ANSWERS {
        return failed(format!("{} requests arrived", asked.len()));
    }
    let length = CONTENT.to_string();
    let head = [
        HeaderRef::new(b":status", b"200"),
        HeaderRef::new(b"server", stack::NAME.as_bytes()),
        HeaderRef::new(b"content-length", length.as_bytes()),
    ];
    for &id in asked {
        serving.send_response(&mut pair.server, id, &head, false)?;
        let sent = serving.send_body(&mut pair.server, id, &PATTERN[..CONTENT], true)?;
        if sent != CONTENT {
            return failed(format!("the server could send {sent} bytes of an answer only"));
        }
    }
    Ok(())
}

/// Returns all packets that the server has to send.
fn flight(pair: &mut Pair) -> Result<Vec<Vec<u8>>, Failure> {
    let mut packets = Vec::new();
    loop {
        let mut packet = vec![0; PACKET];
        match pair.server.send(&mut packet) {
            Ok((n, _)) => {
                packet.truncate(n);
                packets.push(packet);
            }
            Err(quiche::Error::Done) => return Ok(packets),
            Err(error) => return Err(error.into()),
        }
    }
}
