//! Retry Integrity Tag (RFC 9001 §5.8).

use anabranch_wire::{ConnectionId, Format};
use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

use crate::TAG_LEN;

/// Computes the tag at the end of a Retry packet. `retry_without_tag` is the packet from its first byte up to
/// the tag.
///
/// The tag proves that the sender of the Retry has seen the client's first Destination Connection ID. A
/// comparison with a received tag need not run in constant time, because the key is public.
#[expect(clippy::expect_used, reason = "key and nonce are constants of the version with the right lengths")]
pub fn retry_tag(format: &Format, original_dcid: &ConnectionId, retry_without_tag: &[u8]) -> [u8; TAG_LEN] {
    // Retry Pseudo-Packet: ODCID length, ODCID, and the Retry packet without its tag. All of it is associated
    // data.
    let mut pseudo = Vec::with_capacity(1 + original_dcid.len() + retry_without_tag.len());
    pseudo.push(u8::try_from(original_dcid.len()).expect("at most 20 bytes"));
    pseudo.extend_from_slice(original_dcid);
    pseudo.extend_from_slice(retry_without_tag);

    let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &format.retry_key).expect("16 bytes"));
    let nonce = Nonce::assume_unique_for_key(format.retry_nonce);
    let tag = key.seal_in_place_separate_tag(nonce, Aad::from(&pseudo), &mut []).expect("an empty plaintext");
    let mut out = [0; TAG_LEN];
    out.copy_from_slice(tag.as_ref());
    out
}
