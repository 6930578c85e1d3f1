use anabranch_wire::PathId;
use proptest::prelude::*;

use super::{OpenError, PacketKey, nonce};
use crate::hex::hex_array;
use crate::{Suite, TAG_LEN};

const SUITES: [Suite; 3] = [Suite::Aes128Gcm, Suite::Aes256Gcm, Suite::ChaCha20Poly1305];
const HEADER: &[u8] = b"a header";

fn key(suite: Suite) -> PacketKey {
    PacketKey::new(suite, &[0x5a; 32][..suite.key_len()], [0xa5; 12])
}

fn sealed(key: &PacketKey, path: PathId, pn: u64, payload: &[u8]) -> Vec<u8> {
    let mut packet = [HEADER, payload, &[0; TAG_LEN]].concat();
    key.seal(path, pn, HEADER.len(), &mut packet);
    packet
}

/// Checks the test vector of RFC 10069, "Nonce".
#[test]
fn multipath_nonce_vector() {
    let iv = hex_array("6b26114b9cba2b63a9e8dd4f");
    assert_eq!(nonce(&iv, PathId(3), 54_321), hex_array("6b2611489cba2b63a9e8097e"));
}

/// Checks that path ID 0 does not change the nonce (RFC 9001 §5.3, appendix A.5).
#[test]
fn nonce_of_path_zero_is_that_of_rfc_9001() {
    let iv = hex_array("e0459b3474bdd0e44a41c144");
    assert_eq!(nonce(&iv, PathId::ZERO, 654_360_564), hex_array("e0459b3474bdd0e46d417eb0"));
}

/// Checks that the largest path ID and packet number affect different bytes.
#[test]
fn nonce_keeps_path_and_number_apart() {
    let number = nonce(&[0; 12], PathId::ZERO, (1 << 62) - 1);
    assert_eq!(number, hex_array("000000003fffffffffffffff"));
    assert_eq!(nonce(&[0; 12], PathId(u32::MAX), 0), hex_array("ffffffff0000000000000000"));
}

#[test]
fn every_way_to_seal_and_open_agrees() {
    for key in SUITES.map(key) {
        for len in [0, 1, 15, 16, 17, 1200, 9000] {
            let payload: Vec<u8> = (0..len).map(|i| i as u8).collect();
            let packet = sealed(&key, PathId(2), 77, &payload);

            let mut scattered = HEADER.to_vec();
            scattered.resize(packet.len(), 0xee);
            let (data, footer) = payload.split_at(len - len.min(9));
            key.seal_from(PathId(2), 77, HEADER.len(), data, footer, &mut scattered);
            assert_eq!(scattered, packet, "{key:?} {len}");

            let mut elsewhere = vec![0xee; len];
            assert_eq!(key.open_into(PathId(2), 77, HEADER, &packet[HEADER.len()..], &mut elsewhere), Ok(()));
            assert_eq!(elsewhere, payload);

            let mut in_place = packet;
            assert_eq!(key.open(PathId(2), 77, HEADER.len(), &mut in_place), Ok(len));
            assert_eq!(in_place[HEADER.len()..][..len], payload);
        }
    }
}

#[test]
fn path_and_number_are_part_of_the_nonce() {
    for key in SUITES.map(key) {
        let packet = sealed(&key, PathId(1), 5, b"payload");
        for (path, pn) in [(PathId(0), 5), (PathId(2), 5), (PathId(1), 4)] {
            assert_eq!(key.open(path, pn, HEADER.len(), &mut packet.clone()), Err(OpenError));
        }
    }
}

#[test]
fn every_flipped_bit_is_noticed() {
    for key in SUITES.map(key) {
        let packet = sealed(&key, PathId::ZERO, 0, b"payload");
        for bit in 0..packet.len() * 8 {
            let mut forged = packet.clone();
            forged[bit / 8] ^= 1 << (bit % 8);
            let (header, payload) = forged.split_at(HEADER.len());
            let out = &mut [0; 7];
            assert_eq!(key.open_into(PathId::ZERO, 0, header, payload, out), Err(OpenError), "bit {bit}");
            assert_eq!(key.open(PathId::ZERO, 0, HEADER.len(), &mut forged), Err(OpenError), "bit {bit}");
        }
    }
}

/// Checks that `sealed` can be opened with another key after a failed `open_into`, and that nothing outside
/// of `out` changes. The content of `out` is unspecified, so it is not checked.
#[test]
fn a_failed_open_into_can_be_repeated_with_another_key() {
    for suite in SUITES {
        let right = key(suite);
        let wrong = PacketKey::new(suite, &[1; 32][..suite.key_len()], [0xa5; 12]);
        let packet = sealed(&right, PathId::ZERO, 0, b"payload");
        let payload = &packet[HEADER.len()..];
        let mut buffer = *b"before.......after";
        let out = &mut buffer[6..13];
        assert_eq!(wrong.open_into(PathId::ZERO, 0, HEADER, payload, out), Err(OpenError));
        assert_eq!(right.open_into(PathId::ZERO, 0, HEADER, payload, out), Ok(()));
        assert_eq!(&buffer, b"beforepayloadafter");
    }
}

/// Checks that bytes around a packet never change, whether it opens or not, for all lengths around the
/// cipher's block sizes.
#[test]
fn nothing_is_written_beside_the_place() {
    // An odd length, so that packets are not aligned.
    const CANARY: [u8; 61] = [0xc5; 61];
    let between = |len: usize| [&CANARY[..], &vec![0xee; len], &CANARY].concat();
    let intact = |around: &[u8]| around.starts_with(&CANARY) && around.ends_with(&CANARY);
    for key in SUITES.map(key) {
        for len in (0..=300).chain([1199, 1200, 1350, 8999]) {
            let payload = vec![0x11; len];
            let packet = sealed(&key, PathId(1), 9, &payload);
            for forged in [None, Some(0), Some(packet.len() - 1)] {
                let mut packet = packet.clone();
                forged.into_iter().for_each(|at: usize| packet[at] ^= 1);
                let mut around = between(len);
                let (header, body) = packet.split_at(HEADER.len());
                let opened = key.open_into(PathId(1), 9, header, body, &mut around[61..61 + len]);
                assert_eq!(opened.is_err(), forged.is_some());
                assert!(intact(&around), "{key:?} {len}");
            }
            let mut around = between(packet.len());
            let place = &mut around[61..61 + packet.len()];
            place[..HEADER.len()].copy_from_slice(HEADER);
            let (data, footer) = payload.split_at(len - len.min(9));
            key.seal_from(PathId(1), 9, HEADER.len(), data, footer, place);
            assert!(place == packet && intact(&around), "{key:?} {len}");
        }
    }
}

#[test]
fn lengths_that_do_not_fit_fail_before_anything_is_written() {
    for key in SUITES.map(key) {
        let packet = sealed(&key, PathId::ZERO, 0, b"payload");
        let payload = &packet[HEADER.len()..];
        for len in [0, 6, 8] {
            let mut out = vec![0xee; len];
            assert_eq!(key.open_into(PathId::ZERO, 0, HEADER, payload, &mut out), Err(OpenError));
            assert_eq!(out, vec![0xee; len]);
        }
        assert_eq!(key.open_into(PathId::ZERO, 0, HEADER, &payload[..TAG_LEN - 1], &mut []), Err(OpenError));
        for len in 0..HEADER.len() + TAG_LEN {
            assert_eq!(key.open(PathId::ZERO, 0, HEADER.len(), &mut packet[..len].to_vec()), Err(OpenError));
        }
    }
}

/// Checks the limits of RFC 9001 §6.6.
#[test]
fn limits() {
    assert_eq!(Suite::Aes128Gcm.confidentiality_limit(), 1 << 23);
    assert_eq!(Suite::Aes256Gcm.confidentiality_limit(), 1 << 23);
    assert_eq!(Suite::Aes256Gcm.integrity_limit(), 1 << 52);
    assert_eq!(Suite::ChaCha20Poly1305.integrity_limit(), 1 << 36);
    assert_eq!(key(Suite::Aes256Gcm).suite(), Suite::Aes256Gcm);
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_open(bytes in proptest::collection::vec(any::<u8>(), 0..200), header_len in 0..220usize) {
        for key in SUITES.map(key) {
            prop_assert!(key.open(PathId(1), 1, header_len, &mut bytes.clone()).is_err());
        }
    }
}
