//! State of a partly received file, so that after a failure only the rest is requested, and is checked to
//! fit.

use std::time::Duration;

use bytes::{Buf, Bytes};
use http::header::{self, HeaderValue};
use http::{HeaderMap, Response, StatusCode};

use crate::exit::{Exit, Failure, Result};

/// Maximum number of received bytes that are requested again, to compare them with the new response.
pub(super) const MAX_OVERLAP: usize = 4 * 1024;
/// Pause before the first retry; each further pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// Maximum pause before a retry.
const MAX_PAUSE: Duration = Duration::from_secs(16);

/// Byte range in a response (RFC 9110 §14.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    start: u64,
    /// Offset after the last byte, if known.
    end: Option<u64>,
    /// Size of the whole file, if known.
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
    /// `true` if the response contained less than the whole file.
    is_partial: bool,
    /// Validator that identifies the file: a strong entity tag, or else a strong modification date. Later
    /// responses must have the same one.
    validator: Option<HeaderValue>,
    bytes: u64,
    /// Last received bytes.
    tail: Vec<u8>,
}

/// Relation of a new response to the received part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    /// The response continues the received part, after this many repeated bytes.
    GoesOn(usize),
    /// The response begins anew: the file has changed, or the server does not support ranges.
    Anew,
}

impl Arrived {
    /// Creates the state before the first content byte of a response with this header.
    pub(super) fn begin(head: &Response<()>) -> Self {
        let part = Part::of(head);
        let is_partial = head.status() == StatusCode::PARTIAL_CONTENT;
        // A response with several ranges cannot be continued.
        let validator = part.and_then(|_| validator(head.headers()));
        let part = part.unwrap_or(Part { start: 0, end: None, total: None });
        Self { part, is_partial, validator, bytes: 0, tail: Vec::new() }
    }

    /// Creates the state for a response that repeats `tail`, the last bytes of an existing file.
    pub(super) fn behind(head: &Response<()>, tail: Vec<u8>) -> Self {
        let mut arrived = Self::begin(head);
        arrived.part.start += tail.len() as u64;
        arrived.tail = tail;
        arrived
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the size of the requested part, if known.
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

    /// Returns the header fields that request the rest and a short overlap; `None` if nothing has arrived, or
    /// there is no validator to show that the rest is of the same file.
    pub(super) fn rest(&self) -> Option<[(header::HeaderName, HeaderValue); 2]> {
        let validator = self.validator.clone().filter(|_| self.bytes > 0)?;
        let from = self.part.start + self.bytes - self.tail.len() as u64;
        let to = self.part.end.filter(|_| self.is_partial).map(|end| (end - 1).to_string());
        let range = format!("bytes={from}-{}", to.unwrap_or_default());
        Some([(header::RANGE, range.try_into().ok()?), (header::IF_RANGE, validator)])
    }

    /// Compares a response with the request for the rest.
    ///
    /// # Errors
    /// Fails if the response has neither the rest nor the whole file.
    pub(super) fn fit(&self, head: &Response<()>) -> Result<Fit> {
        match head.status() {
            StatusCode::PARTIAL_CONTENT => {
                let from = self.part.start + self.bytes - self.tail.len() as u64;
                let part = Part::of(head);
                let same = |part: &Part| {
                    (part.start, part.end, part.total) == (from, self.part.end.or(part.end), self.part.total)
                };
                match part {
                    // The validator is compared, because a server may ignore If-Range.
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

    /// Compares the repeated bytes with those already received, and removes them from the front of `piece`.
    /// `left` is the number of repeated bytes that have not been compared.
    ///
    /// # Errors
    /// Fails if the bytes differ.
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

/// Returns the validator for If-Range (RFC 9110 §13.1.5): a strong entity tag, or else a strong modification
/// date. The date is strong if it lies so long before the response that the file cannot have changed twice
/// within the second that the date names (§8.8.2.2).
fn validator(headers: &HeaderMap) -> Option<HeaderValue> {
    if let Some(tag) = headers.get(header::ETAG) {
        return Some(tag.clone()).filter(is_tag);
    }
    let modified = headers.get(header::LAST_MODIFIED)?;
    let date = |value: &HeaderValue| httpdate::parse_http_date(value.to_str().ok()?).ok();
    let age = date(headers.get(header::DATE)?)?.duration_since(date(modified)?).ok()?;
    (age >= Duration::from_secs(1)).then(|| modified.clone())
}

/// Count of retries, and the pauses between them.
#[derive(Debug)]
pub(super) struct Tries {
    allowed: u32,
    made: u32,
    /// Number of bytes that had arrived at the last failure.
    bytes: u64,
}

impl Tries {
    pub(super) fn new(allowed: u32) -> Self {
        Self { allowed, made: 0, bytes: 0 }
    }

    /// Returns the number of the next retry after a failure with `bytes` received, and the pause before it.
    /// `None` if no retries are left. Progress since the last failure resets the count.
    ///
    /// `random`, any number, shortens the pause by up to a half. So a server that was down does not get all
    /// its clients back at once.
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
