//! Tests of the examples of RFC 7541, and of invalid codes.

use proptest::prelude::*;

use super::*;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b' ').collect();
    let digit = |byte: u8| char::from(byte).to_digit(16).unwrap() as u8;
    digits.chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

fn decoded(code: &[u8]) -> Result<Vec<u8>, HuffmanError> {
    let mut out = Vec::new();
    decode(code, usize::MAX, &mut out).map(|()| out)
}

/// Strings of RFC 7541 §C.4 and §C.6.
#[test]
fn examples() {
    for (text, code) in [
        ("www.example.com", "f1e3 c2e5 f23a 6ba0 ab90 f4ff"),
        ("no-cache", "a8eb 1064 9cbf"),
        ("custom-key", "25a8 49e9 5ba9 7d7f"),
        ("custom-value", "25a8 49e9 5bb8 e8b4 bf"),
        ("302", "6402"),
        ("private", "aec3 771a 4b"),
        ("Mon, 21 Oct 2013 20:13:21 GMT", "d07a be94 1054 d444 a820 0595 040b 8166 e082 a62d 1bff"),
        ("https://www.example.com", "9d29 ad17 1863 c78f 0b97 c8e9 ae82 ae43 d3"),
        ("307", "640e ff"),
        ("Mon, 21 Oct 2013 20:13:22 GMT", "d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff"),
        ("gzip", "9bd9 ab"),
        (
            "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1",
            "94e7 821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 \
             b106 3d50 07",
        ),
    ] {
        let code = hex(code);
        let mut out = Vec::new();
        encode(text.as_bytes(), &mut out);
        assert_eq!(out, code, "{text}");
        assert_eq!(encoded_len(text.as_bytes()), code.len());
        assert_eq!(decoded(&code), Ok(text.as_bytes().to_vec()));
    }
}

/// Checks codes of Appendix B, at least one of each length.
#[test]
fn codes_of_the_appendix() {
    for (symbol, code, length) in [
        (48, 0x0, 5),
        (116, 0x9, 5),
        (32, 0x14, 6),
        (58, 0x5c, 7),
        (38, 0xf8, 8),
        (33, 0x3f8, 10),
        (124, 0x7fc, 11),
        (62, 0xffb, 12),
        (126, 0x1ffd, 13),
        (94, 0x3ffc, 14),
        (123, 0x7ffe, 15),
        (208, 0x7fff2, 19),
        (226, 0xfffed, 20),
        (153, 0x1fffdc, 21),
        (233, 0x3fffeb, 22),
        (239, 0x7ffff4, 23),
        (142, 0xffffeb, 24),
        (199, 0x1ffffec, 25),
        (255, 0x3ffffee, 26),
        (254, 0x7fffff0, 27),
        (127, 0xffffffc, 28),
        (22, 0x3ffffffe, 30),
        (EOS, 0x3fffffff, 30),
    ] {
        assert_eq!((CODES[symbol], LENGTHS[symbol]), (code, length), "symbol {symbol}");
    }
}

#[test]
fn padding_is_short_and_of_ones() {
    assert_eq!(decoded(&[]), Ok(vec![]));
    // "a" is 00011, so the padding is three ones.
    assert_eq!(decoded(&[0b0001_1111]), Ok(b"a".to_vec()));
    for wrong in [0b0001_1110, 0b0001_1011, 0b0001_1101] {
        assert_eq!(decoded(&[wrong]), Err(HuffmanError::Malformed), "{wrong:#b}");
    }
    // Padding of eight bits, alone and after three valid bits of padding.
    assert_eq!(decoded(&[0xff]), Err(HuffmanError::Malformed));
    assert_eq!(decoded(&[0b0001_1111, 0xff]), Err(HuffmanError::Malformed));
    // Code that is cut off.
    assert_eq!(decoded(&[0xff, 0xc0]), Err(HuffmanError::Malformed));
}

#[test]
fn the_end_of_string_is_not_part_of_it() {
    assert_eq!(decoded(&[0xff, 0xff, 0xff, 0xff]), Err(HuffmanError::Malformed));
    assert_eq!(decoded(&[0xff, 0xff, 0xff, 0xfc]), Err(HuffmanError::Malformed));
    assert_eq!(decoded(&[0x1f, 0xff, 0xff, 0xff, 0xff, 0x00]), Err(HuffmanError::Malformed));
}

/// Checks that decoding stops at the limit. The shortest code has 5 bits, so a string expands to at most 8/5
/// of its length.
#[test]
fn expansion_stops_at_the_limit() {
    let zeros = [0; 1000];
    let mut out = Vec::new();
    assert_eq!(decode(&zeros, 1600, &mut out), Ok(()));
    assert_eq!(out, vec![b'0'; 1600]);
    let mut out = Vec::new();
    assert_eq!(decode(&zeros, 1599, &mut out), Err(HuffmanError::TooLong));
    assert!(out.len() <= 1599 && out.capacity() <= 1600);
    let mut out = Vec::new();
    assert_eq!(decode(&zeros, 100, &mut out), Err(HuffmanError::TooLong));
    assert_eq!(out.capacity(), 0, "nothing is decoded when the length alone is too much");
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded(text in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut code = Vec::new();
        encode(&text, &mut code);
        prop_assert_eq!(code.len(), encoded_len(&text));
        prop_assert!(min_decoded_len(code.len()) <= text.len());
        prop_assert_eq!(decoded(&code), Ok(text));
    }

    /// Checks that valid code equals the encoding of its text: each text has exactly one encoding.
    #[test]
    fn there_is_one_code_for_a_text(code in proptest::collection::vec(any::<u8>(), 0..40)) {
        if let Ok(text) = decoded(&code) {
            let mut again = Vec::new();
            encode(&text, &mut again);
            prop_assert_eq!(again, code);
        }
    }
}
