//! Header sections of a response that wait for the application.

use std::collections::VecDeque;

use http::HeaderMap;
use http::response::Parts;

/// Maximum number of interim responses that wait for the application.
const MAX_INTERIM: usize = 16;
/// Size of a field beyond its name and its value, in bytes (RFC 9114 §4.2.2).
const FIELD_OVERHEAD: usize = 32;

/// Interim responses, and the final response, in the order of their arrival.
#[derive(Debug, Default)]
pub(super) struct Heads {
    waiting: VecDeque<Parts>,
    /// Size of all waiting sections in bytes, as RFC 9114 §4.2.2 counts it.
    size: u64,
}

impl Heads {
    /// Adds an interim response. Does not, and returns `false`, if [`MAX_INTERIM`] wait, or if all would have more than `max_size`
    /// bytes.
    pub(super) fn push_interim(&mut self, parts: Parts, max_size: u64) -> bool {
        if self.waiting.len() >= MAX_INTERIM {
            return false;
        }
        if self.size + size(&parts.headers) > max_size {
            return false;
        }
        self.push(parts);
        true
    }

    /// Adds the final response.
    pub(super) fn push(&mut self, parts: Parts) {
        self.size += size(&parts.headers);
        self.waiting.push_back(parts);
    }

    /// Returns the oldest section.
    pub(super) fn pop(&mut self) -> Option<Parts> {
        let parts = self.waiting.pop_front()?;
        self.size -= size(&parts.headers);
        Some(parts)
    }
}

/// Returns the size of a header section in bytes (RFC 9114 §4.2.2). Its pseudo-header field, of constant size, does not count.
fn size(headers: &HeaderMap) -> u64 {
    let field = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
        name.as_str().len() + value.len() + FIELD_OVERHEAD
    };
    headers.iter().map(field).sum::<usize>() as u64
}
