//! Helpers for the tests of several modules.

/// Decodes hexadecimal digits; spaces are ignored.
pub(crate) fn hex(digits: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        digits.chars().filter(|c| !c.is_whitespace()).map(|c| c.to_digit(16).unwrap() as u8).collect();
    assert!(digits.len().is_multiple_of(2));
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}
