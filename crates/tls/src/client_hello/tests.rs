use proptest::prelude::*;

use super::{
    ALPN, ClientHello, DECODE_ERROR, HelloOffer, ILLEGAL_PARAMETER, MAX_CLIENT_HELLO_LEN, MAX_EXTENSIONS,
    MISSING_EXTENSION, QUIC_TRANSPORT_PARAMETERS, SERVER_NAME, UNEXPECTED_MESSAGE, client_hello_parameters,
};

fn vector16(content: &[u8]) -> Vec<u8> {
    [&u16::try_from(content.len()).unwrap().to_be_bytes(), content].concat()
}

fn extension(kind: u16, data: &[u8]) -> Vec<u8> {
    [&kind.to_be_bytes()[..], &vector16(data)].concat()
}

/// Returns a valid ClientHello with these extensions.
fn hello(extensions: &[Vec<u8>]) -> Vec<u8> {
    let mut body = vec![3, 3];
    body.extend([0xab; 32]);
    body.push(0);
    body.extend(vector16(&[0x13, 0x01]));
    body.extend([1, 0]);
    body.extend(vector16(&extensions.concat()));
    let len = u32::try_from(body.len()).unwrap().to_be_bytes();
    [&[1, len[1], len[2], len[3]], &body[..]].concat()
}

fn server_name(name: &[u8]) -> Vec<u8> {
    extension(SERVER_NAME, &vector16(&[&[0], &vector16(name)[..]].concat()))
}

fn usual() -> Vec<u8> {
    hello(&[
        server_name(b"example.com"),
        extension(43, &[2, 3, 4]),
        extension(ALPN, &vector16(b"\x02h3\x04test")),
        extension(QUIC_TRANSPORT_PARAMETERS, b"parameters"),
    ])
}

fn offer(bytes: &[u8]) -> HelloOffer<'_> {
    match client_hello_parameters(bytes) {
        ClientHello::Parameters(offer) => offer,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn assert_alert(bytes: &[u8], alert: u8) {
    assert_eq!(client_hello_parameters(bytes), ClientHello::Malformed { alert });
}

#[test]
fn reads_parameters_name_and_protocols() {
    let bytes = usual();
    let offer = offer(&bytes);
    assert_eq!(offer.parameters, b"parameters");
    assert_eq!(offer.server_name, Some("example.com"));
    assert!(offer.alpn().eq([&b"h3"[..], b"test"]));
}

#[test]
fn name_and_protocols_are_optional() {
    let bytes = hello(&[extension(QUIC_TRANSPORT_PARAMETERS, &[])]);
    let offer = offer(&bytes);
    assert_eq!((offer.parameters, offer.server_name, offer.alpn().count()), (&[][..], None, 0));
}

/// Checks that every prefix is incomplete, and that bytes after the ClientHello are ignored.
#[test]
fn every_prefix_is_incomplete_and_a_suffix_is_ignored() {
    let mut bytes = usual();
    for len in 0..bytes.len() {
        assert_eq!(client_hello_parameters(&bytes[..len]), ClientHello::Incomplete, "{len}");
    }
    bytes.extend(b"more");
    assert_eq!(offer(&bytes).parameters, b"parameters");
}

/// Parses the ClientHello of RFC 9001 appendix A.2.
#[test]
fn reads_a_hello_of_another_implementation() {
    let bytes = crate::hex::hex(
        "010000ed0303ebf8fa56f12939b9584a3896472ec40bb863cfd3e86804fe3a47f06a2b69484c000004130113
         02010000c000000010000e00000b6578616d706c652e636f6dff01000100000a00080006001d001700180010
         0007000504616c706e000500050100000000003300260024001d00209370b2c9caa47fbabaf4559fedba753d
         e171fa71f50f1ce15d43e994ec74d748002b0003020304000d0010000e040305030603020308040805080600
         2d00020101001c00024001003900320408ffffffffffffffff05048000ffff07048000ffff08011001048000
         75300901100f088394c8f03e51570806048000ffff",
    );
    let offer = offer(&bytes);
    assert_eq!(offer.server_name, Some("example.com"));
    assert!(offer.alpn().eq([b"alpn"]));
    assert_eq!((offer.parameters.len(), offer.parameters[0]), (50, 4));
}

#[test]
fn what_is_not_a_client_hello_is_refused_at_its_first_byte() {
    assert_alert(&[2], UNEXPECTED_MESSAGE);
    assert_alert(&[0, 0], UNEXPECTED_MESSAGE);
}

#[test]
fn a_hello_without_parameters_lacks_an_extension() {
    assert_alert(&hello(&[server_name(b"example.com")]), MISSING_EXTENSION);
    assert_alert(&hello(&[]), MISSING_EXTENSION);
}

#[test]
fn an_extension_that_comes_twice_is_illegal() {
    let parameters = extension(QUIC_TRANSPORT_PARAMETERS, b"p");
    assert_alert(&hello(&[parameters.clone(), parameters]), ILLEGAL_PARAMETER);
}

#[test]
fn a_length_above_the_bound_is_not_waited_for() {
    let len = u32::try_from(MAX_CLIENT_HELLO_LEN).unwrap();
    let head = |len: u32| [1, (len >> 16) as u8, (len >> 8) as u8, len as u8];
    assert_eq!(client_hello_parameters(&head(len)), ClientHello::Incomplete);
    assert_alert(&head(len + 1), DECODE_ERROR);
}

#[test]
fn more_extensions_than_the_bound_are_refused() {
    let parameters = extension(QUIC_TRANSPORT_PARAMETERS, b"p");
    let many = |others: u16| {
        let mut extensions: Vec<_> = (0..others).map(|i| extension(0x4000 + i, &[])).collect();
        extensions.push(parameters.clone());
        hello(&extensions)
    };
    let most = u16::try_from(MAX_EXTENSIONS).unwrap();
    assert_eq!(offer(&many(most - 1)).parameters, b"p");
    assert_alert(&many(most), DECODE_ERROR);
}

#[test]
fn malformed_extensions_are_refused() {
    let parameters = extension(QUIC_TRANSPORT_PARAMETERS, b"p");
    for bad in [
        server_name(b""),
        server_name(b"\xff"),
        extension(SERVER_NAME, &vector16(&[1, 0, 1, b'x'])),
        extension(SERVER_NAME, &[0]),
        extension(ALPN, &vector16(&[0])),
        extension(ALPN, &vector16(b"\x05h3")),
        extension(ALPN, &[&vector16(b"\x02h3")[..], &[0]].concat()),
    ] {
        assert_alert(&hello(&[bad, parameters.clone()]), DECODE_ERROR);
    }
}

/// Checks bodies whose inner lengths contradict the outer length.
#[test]
fn a_cut_body_is_refused() {
    let whole = usual();
    for cut in 1..whole.len() - 4 {
        let mut bytes = whole[..whole.len() - cut].to_vec();
        let len = u32::try_from(bytes.len() - 4).unwrap().to_be_bytes();
        bytes[1..4].copy_from_slice(&len[1..]);
        assert_alert(&bytes, DECODE_ERROR);
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = client_hello_parameters(&bytes);
        if let [first, high, ..] = &mut bytes[..] {
            (*first, *high) = (1, 0);
            let _ = client_hello_parameters(&bytes);
        }
    }

    #[test]
    fn mutated_hellos_never_panic(at in 0..130usize, byte: u8, cut in 0..130usize) {
        let mut bytes = usual();
        let len = bytes.len();
        bytes[at % len] = byte;
        if let ClientHello::Parameters(offer) = client_hello_parameters(&bytes) {
            prop_assert!(offer.alpn().all(|name| !name.is_empty()));
        }
        let _ = client_hello_parameters(&bytes[..cut % len]);
    }
}
