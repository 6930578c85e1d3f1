//! Terms of UDP flows in the field of a message, and the numbers of payloads.

use std::collections::BTreeSet;

use http::{HeaderMap, HeaderValue};

use super::super::FlowTerms;
use super::super::copies::{FIELD, NUMBERED, Numbers};

/// Number of the latest payload numbers among which duplicates are recognised, as in `copies.rs`.
const WINDOW: i64 = 4_096;

/// Reads the input's lines as the field of a message, and its bytes as the numbers of received payloads.
///
/// # Panics
/// Panics if terms change when they are written and read, or if a number is received twice.
pub fn flows(data: &[u8]) {
    let lines = data.split(|byte| *byte == b'\n');
    let lines: HeaderMap =
        lines.filter_map(|line| Some((FIELD, HeaderValue::from_bytes(line).ok()?))).collect();
    let terms = FlowTerms::of(&lines);
    let written: HeaderMap = terms.value().map(|value| (FIELD, value)).into_iter().collect();
    assert_eq!(FlowTerms::of(&written), terms, "terms are the same after they are written and read");
    assert_eq!(written.is_empty(), terms == FlowTerms::default());
    assert_eq!(terms.as_agreed(terms), terms);
    assert!(!terms.as_agreed(FlowTerms::default()).has_numbers());
    numbers(data);
}

/// Compares the numbers that are received with a model in which they do not wrap around.
fn numbers(data: &[u8]) {
    let numbers = Numbers::default();
    let mut received = BTreeSet::new();
    for &[jump, step] in data.as_chunks().0 {
        let largest = received.last().copied().unwrap_or(-1);
        let number = match jump % 4 {
            0 => largest + 1 + i64::from(step) * 64,
            1 => largest + 1 - i64::from(step) * 20,
            2 => largest + (i64::from(step) << 22),
            _ => largest + 1 - i64::from(step % 8),
        };
        // The first number may be any one in the first half of the numbers.
        let number = number.max(0);
        let [a, b, c, d] = (number as u32).to_be_bytes();
        let is_new = !received.contains(&number) && number > largest - WINDOW;
        let read = numbers.first(&[NUMBERED, a, b, c, d]);
        assert_eq!(read, is_new.then_some(number as u32));
        received.insert(number);
    }
}
