//! State of a file that has begun to arrive, so that after a failure only the rest is fetched, and fits.

use std::time::Duration;

use bytes::{Buf, Bytes};
use http::header::{self, HeaderValue};
use http::{HeaderMap, Response, StatusCode};

use crate::exit::{Exit, Failure, Result};

/// Bytes before the rest that are fetched once more, to compare them with those that are there.
pub(super) const MAX_OVERLAP: usize = 4 * 1024;
/// The first pause before another try; each one is twice as long as the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// The longest one.
const MAX_PAUSE: Duration = Duration::from_secs(16);

/// Range of bytes of a file that an answer has (RFC 9110 §14.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    start: u64,
    /// Behind the last byte, if that is known.
    end: Option<u64>,
    /// Of the whole file, if that is known.
    total: Option<u64>,
}

impl Part {
    fn of(head: &Response<()>) -> Option<Self> {
        let field = |name| head.headers().get(name)?.to_str().ok();
        if head.status() != StatusCode::PARTIAL_CONTENT {
            let len = field(header::CONTENT_LENGTH).and_then(|len| len.parse().ok());
            return Some(Self { start: 0, end: len, total: len });
        }
        let (range, total) = field(header::CONTENT_RANGE)?.strip_prefix("bytes ")?.split_once('/')?;
        let (first, last) = range.split_once('-')?;
        let (start, last) = (first.parse().ok()?, last.parse::<u64>().ok()?);
        Some(Self { start, end: last.checked_add(1), total: total.parse().ok() })
    }
}

/// The part of one file that has arrived.
#[derive(Debug)]
pub(super) struct Arrived {
    part: Part,
    /// `true` if an answer had less than the whole file.
    is_partial: bool,
    /// Validator that an answer must have to be of the same file: a strong entity tag, or else a date that is
    /// strong enough.
    validator: Option<HeaderValue>,
    bytes: u64,
    /// The last of them.
    tail: Vec<u8>,
}

/// Relation of another answer to the part that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    /// It goes on behind what is there, after as many bytes that are there already.
    GoesOn(usize),
    /// It begins anew: the file is another one, or the server has no parts of it.
    Anew,
}

impl Arrived {
    /// Creates the state before the first byte of an answer with this head.
    pub(super) fn begin(head: &Response<()>) -> Self {
        let part = Part::of(head);
        let is_partial = head.status() == StatusCode::PARTIAL_CONTENT;
        // Several parts in one answer have no rest that could be asked for.
        let validator = part.and_then(|_| validator(head.headers()));
        let part = part.unwrap_or(Part { start: 0, end: None, total: None });
        Self { part, is_partial, validator, bytes: 0, tail: Vec::new() }
    }

    /// Creates the state for an answer that repeats `tail`, the last bytes of a file that was there before.
    pub(super) fn behind(head: &Response<()>, tail: Vec<u8>) -> Self {
        let mut arrived = Self::begin(head);
        arrived.part.start += tail.len() as u64;
        arrived.tail = tail;
        arrived
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the size of the whole part, if that is known.
    pub(super) fn wanted(&self) -> Option<u64> {
        self.part.end.map(|end| end.saturating_sub(self.part.start))
    }

    pub(super) fn push(&mut self, piece: &[u8]) {
        self.bytes += piece.len() as u64;
        let kept = &piece[piece.len().saturating_sub(MAX_OVERLAP)..];
        let surplus = (self.tail.len() + kept.len()).saturating_sub(MAX_OVERLAP);
        self.tail.drain(..surplus);
        self.tail.extend_from_slice(kept);
    }

    /// Returns the header fields that ask for the rest, and for a little of the part that is there. `None` if
    /// nothing shows whether that would be of the same file.
    pub(super) fn rest(&self) -> Option<[(header::HeaderName, HeaderValue); 2]> {
        let validator = self.validator.clone().filter(|_| self.bytes > 0)?;
        let from = self.part.start + self.bytes - self.tail.len() as u64;
        let to = self.part.end.filter(|_| self.is_partial).map(|end| (end - 1).to_string());
        let range = format!("bytes={from}-{}", to.unwrap_or_default());
        Some([(header::RANGE, range.try_into().ok()?), (header::IF_RANGE, validator)])
    }

    /// Returns the relation of an answer to the request for the rest.
    ///
    /// # Errors
    /// If it is neither the rest nor the whole.
    pub(super) fn fit(&self, head: &Response<()>) -> Result<Fit> {
        match head.status() {
            StatusCode::PARTIAL_CONTENT => {
                let from = self.part.start + self.bytes - self.tail.len() as u64;
                let part = Part::of(head);
                let same = |part: &Part| {
                    (part.start, part.end, part.total) == (from, self.part.end.or(part.end), self.part.total)
                };
                match part {
                    // A server that ignores If-Range says which file it is nevertheless.
                    Some(part) if same(&part) && self.has_same_validator(head.headers()) => {
                        Ok(Fit::GoesOn(self.tail.len()))
                    }
                    _ => Err(Failure::new(Exit::Http, "the server sends another part than the rest")),
                }
            }
            // The file has become shorter.
            StatusCode::RANGE_NOT_SATISFIABLE => Ok(Fit::Anew),
            status if status.is_success() => Ok(Fit::Anew),
            status => Err(Failure::new(Exit::Http, status)),
        }
    }

    fn has_same_validator(&self, headers: &HeaderMap) -> bool {
        let named = |name| headers.get(name).is_none_or(|value| Some(value) == self.validator.as_ref());
        if self.validator.as_ref().is_some_and(is_tag) {
            named(header::ETAG)
        } else {
            named(header::LAST_MODIFIED)
        }
    }

    /// Compares what came once more with what is there, and takes it off the front of `piece`; `left` bytes
    /// of it are to come.
    ///
    /// # Errors
    /// If they differ.
    pub(super) fn compare(&self, piece: &mut Bytes, left: &mut usize) -> Result {
        let n = piece.len().min(*left);
        let there = &self.tail[self.tail.len() - *left..][..n];
        if piece[..n] != *there {
            return Err(Failure::new(Exit::Http, "the rest does not fit what is there"));
        }
        *left -= n;
        piece.advance(n);
        Ok(())
    }
}

fn is_tag(validator: &HeaderValue) -> bool {
    validator.as_bytes().starts_with(b"\"")
}

/// Returns the validator that If-Range may name (RFC 9110 §13.1.5): a strong entity tag, or a date of
/// modification that lies so long before the answer that the file cannot have changed twice in that second
/// (§8.8.2.2).
fn validator(headers: &HeaderMap) -> Option<HeaderValue> {
    if let Some(tag) = headers.get(header::ETAG) {
        return Some(tag.clone()).filter(is_tag);
    }
    let modified = headers.get(header::LAST_MODIFIED)?;
    let date = |value: &HeaderValue| httpdate::parse_http_date(value.to_str().ok()?).ok();
    let age = date(headers.get(header::DATE)?)?.duration_since(date(modified)?).ok()?;
    (age >= Duration::from_secs(1)).then(|| modified.clone())
}

/// Number of tries and the pauses between them.
#[derive(Debug)]
pub(super) struct Tries {
    allowed: u32,
    made: u32,
    /// Bytes that had arrived at the last failure.
    bytes: u64,
}

impl Tries {
    pub(super) fn new(allowed: u32) -> Self {
        Self { allowed, made: 0, bytes: 0 }
    }

    /// Returns the number of the next try after a failure with `bytes` present, and the pause before it;
    /// `None` if there are no more. Progress since the last failure starts the count anew.
    ///
    /// `random`, any number, shortens the pause by up to a half. This way the clients of a server that was
    /// away do not all come back at the same time.
    pub(super) fn next(&mut self, bytes: u64, random: u16) -> Option<(u32, Duration)> {
        if bytes > self.bytes {
            (self.made, self.bytes) = (0, bytes);
        }
        if self.made == self.allowed {
            return None;
        }
        let pause = FIRST_PAUSE.saturating_mul(1 << self.made.min(16)).min(MAX_PAUSE);
        self.made += 1;
        let shorter = pause / 2 * u32::from(random) / u32::from(u16::MAX);
        Some((self.made, pause - shorter))
    }
}

#[cfg(test)]
mod tests;
