//! One stream: what it still sends, and what becomes of the data that arrives.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use peer_common::http3::{self, CONTENT_TYPE, Content};
use peer_common::{Failure, failed, files};
use tquic::h3::{Header, NameValue};

use crate::outgoing::Outgoing;

/// `:authority` of every request. The servers of the contract have one host and ignore it.
const AUTHORITY: &[u8] = b"localhost";

/// Use of the data that arrives.
pub enum Incoming {
    /// Server: a request of `hq-interop`.
    Request(Vec<u8>),
    /// Server: the number of bytes to send back, until all eight bytes of it are there, and data to discard.
    Perf(Vec<u8>),
    /// Nothing becomes of it; this much of it is expected, if that is known.
    Discard(Option<u64>),
    /// Client: a file, and where it is stored.
    File(Vec<u8>, PathBuf),
}

/// Stream.
pub struct Stream {
    pub incoming: Incoming,
    pub outgoing: Outgoing,
    received: u64,
}

impl Stream {
    pub fn new(incoming: Incoming, outgoing: Outgoing) -> Self {
        Self { incoming, outgoing, received: 0 }
    }

    /// Returns a server's stream.
    pub fn served(alpn: &[u8]) -> Self {
        let incoming = match alpn {
            b"h3" => Incoming::Discard(None),
            b"hq-interop" => Incoming::Request(Vec::new()),
            _ => Incoming::Perf(Vec::new()),
        };
        Self::new(incoming, Outgoing::default())
    }

    /// Returns the stream on which a client asks for `path`.
    pub fn fetching(path: &str, http3: bool, out: Option<&Path>) -> Result<Self, Failure> {
        let incoming = match out.map(|out| files::destination(out, path)) {
            None => Incoming::Discard(None),
            Some(Some(target)) => Incoming::File(Vec::new(), target),
            Some(None) => return failed(format!("no file name in {path}")),
        };
        let outgoing = if http3 {
            let path = format!("/{}", path.trim_start_matches('/'));
            let head = [
                (&b":method"[..], &b"GET"[..]),
                (b":scheme", b"https"),
                (b":authority", AUTHORITY),
                (b":path", path.as_bytes()),
            ];
            let head = head.map(|(name, value)| Header::new(name, value)).to_vec();
            Outgoing { head: Some(head), end: true, ..Outgoing::default() }
        } else {
            Outgoing::all(files::request(path))
        };
        Ok(Self::new(incoming, outgoing))
    }

    /// Returns a stream of `perf`.
    pub fn perf(download: u64, upload: u64) -> Self {
        let content = Bytes::copy_from_slice(&download.to_be_bytes());
        let outgoing = Outgoing { content, pattern: upload, end: true, ..Outgoing::default() };
        Self::new(Incoming::Discard(Some(download)), outgoing)
    }

    /// Takes data that has arrived.
    pub fn take(&mut self, data: &[u8]) {
        self.received += data.len() as u64;
        match &mut self.incoming {
            Incoming::File(body, _) => body.extend_from_slice(data),
            Incoming::Request(request) => {
                request.extend_from_slice(&data[..data.len().min(files::MAX_REQUEST)]);
            }
            Incoming::Perf(count) if count.len() < 8 => {
                let missing = 8 - count.len();
                count.extend(data.iter().take(missing));
                if let Some(count) = count.first_chunk() {
                    self.outgoing.pattern = u64::from_be_bytes(*count);
                }
            }
            Incoming::Perf(_) | Incoming::Discard(_) => {}
        }
    }

    /// Takes the end of the data. Returns false if a server has no answer.
    pub fn end(&mut self, root: Option<&Path>) -> Result<bool, Failure> {
        match &self.incoming {
            Incoming::File(body, target) => std::fs::write(target, body)?,
            Incoming::Perf(count) if count.len() < 8 => return Ok(false),
            // The end of the response tells the client that all of its data has arrived.
            Incoming::Perf(_) => self.outgoing.end = true,
            Incoming::Request(request) => {
                let path = root.and_then(|root| files::requested(root, request));
                let Some(body) = path.and_then(|path| std::fs::read(path).ok()) else { return Ok(false) };
                self.outgoing = Outgoing::all(body);
            }
            Incoming::Discard(Some(expected)) if *expected != self.received => {
                return failed(format!("asked for {expected} bytes, got {}", self.received));
            }
            Incoming::Discard(_) => {}
        }
        Ok(true)
    }

    /// Takes the head of an HTTP message: a request that is to be answered, or an answer.
    pub fn head(&mut self, head: &[Header], is_server: bool, root: Option<&Path>) -> Result<(), Failure> {
        let value = |name: &[u8]| {
            let field = head.iter().find(|field| field.name() == name);
            field.map(|field| String::from_utf8_lossy(field.value()).into_owned()).unwrap_or_default()
        };
        if !is_server {
            let status = value(b":status");
            return if status == "200" { Ok(()) } else { failed(format!("status {status}")) };
        }
        let content = http3::content(root, &value(b":path"));
        let status = if content.is_some() { "200" } else { "404" };
        let length = content.as_ref().map_or(0, Content::len).to_string();
        let fields = [
            (":status", status),
            ("content-length", &length),
            ("content-type", CONTENT_TYPE),
            ("server", "tquic"),
        ];
        let head = fields.map(|(name, value)| Header::new(name.as_bytes(), value.as_bytes())).to_vec();
        let (content, pattern) = match content {
            Some(Content::File(body)) => (body.into(), 0),
            Some(Content::Pattern(count)) => (Bytes::new(), count),
            None => (Bytes::new(), 0),
        };
        self.outgoing = Outgoing { head: Some(head), content, pattern, end: true, ..Outgoing::default() };
        Ok(())
    }
}
