//! Length of the content that `content-length` declares (RFC 9110 §8.6, RFC 9114 §4.1.2).

use http::HeaderMap;
use http::header::CONTENT_LENGTH;

use super::Malformed;

/// Returns the declared length of a message's content in bytes; `None` without `content-length`. A response
/// that never has content (to HEAD, or with status 204 or 304) may still declare the length that its content
/// would have. The caller must ignore the value in a successful response to CONNECT.
///
/// # Errors
///
/// Fails if a `content-length` is not a number, or if two of them differ.
pub fn content_length(headers: &HeaderMap) -> Result<Option<u64>, Malformed> {
    let mut length = None;
    for value in headers.get_all(CONTENT_LENGTH) {
        let value = number(value.as_bytes()).ok_or(Malformed("content-length is not a number"))?;
        if *length.get_or_insert(value) != value {
            return Err(Malformed("two values of content-length"));
        }
    }
    Ok(length)
}

/// Parses a number that consists of digits only; `str::parse` would also accept a sign.
fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |number, digit| {
        let digit = digit.checked_sub(b'0').filter(|digit| *digit < 10)?;
        number.checked_mul(10)?.checked_add(u64::from(digit))
    })
}
