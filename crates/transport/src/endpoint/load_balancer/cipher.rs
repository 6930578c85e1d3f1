//! Encryption of server ID and nonce (draft-ietf-quic-load-balancers-21 §5.4, §5.5). AES is that of aws-lc-rs.

use aws_lc_rs::cipher::{AES_128, DecryptingKey, DecryptionContext, EncryptingKey, UnboundCipherKey};

/// Length of a block of AES, in bytes.
const BLOCK: usize = 16;

/// Key of a configuration, for blocks of one length.
#[derive(Debug)]
pub(super) enum Cipher {
    /// Key for blocks of exactly 16 bytes (§5.4.1).
    SinglePass(Box<(EncryptingKey, DecryptingKey)>),
    /// Key for blocks of other lengths: a Feistel network of four rounds (§5.4.2).
    FourPass(Box<EncryptingKey>),
}

impl Cipher {
    /// Creates the key for blocks of `len` bytes.
    #[expect(clippy::expect_used, reason = "the key has the length of AES-128 keys")]
    pub(super) fn new(key: &[u8; 16], len: usize) -> Self {
        match len {
            BLOCK => {
                let decrypting = DecryptingKey::ecb(unbound(key)).expect("16 bytes");
                Self::SinglePass(Box::new((encrypting(key), decrypting)))
            }
            _ => Self::four_pass(key),
        }
    }

    /// Creates the key of a Feistel network, whatever the length of the block.
    pub(super) fn four_pass(key: &[u8; 16]) -> Self {
        Self::FourPass(Box::new(encrypting(key)))
    }

    /// Encrypts the server ID and the nonce.
    pub(super) fn encrypt(&self, block: &mut [u8]) {
        match self {
            Self::SinglePass(keys) => encrypt(&keys.0, block),
            Self::FourPass(key) => passes(key, block, &[1, 2, 3, 4]),
        }
    }

    /// Decrypts a block whose first `wanted` bytes are needed. The others may stay encrypted.
    #[expect(clippy::expect_used, reason = "AES refuses only blocks of other lengths")]
    pub(super) fn decrypt(&self, block: &mut [u8], wanted: usize) {
        match self {
            Self::SinglePass(keys) => {
                keys.1.decrypt(block, DecryptionContext::None).expect("a block");
            }
            // The left half is complete after three passes (§5.5.2).
            Self::FourPass(key) if wanted <= block.len() / 2 => passes(key, block, &[4, 3, 2]),
            Self::FourPass(key) => passes(key, block, &[4, 3, 2, 1]),
        }
    }
}

#[expect(clippy::expect_used, reason = "the key has the length of AES-128 keys")]
fn unbound(key: &[u8; 16]) -> UnboundCipherKey {
    UnboundCipherKey::new(&AES_128, key).expect("16 bytes")
}

#[expect(clippy::expect_used, reason = "the key has the length of AES-128 keys")]
fn encrypting(key: &[u8; 16]) -> EncryptingKey {
    EncryptingKey::ecb(unbound(key)).expect("16 bytes")
}

#[expect(clippy::expect_used, reason = "AES refuses only blocks of other lengths")]
fn encrypt(key: &EncryptingKey, block: &mut [u8]) {
    key.encrypt(block).expect("a block");
}

/// Carries out the passes with these numbers on a block of 2 to 19 bytes: each changes one half by the other (§5.4.2.3). The
/// middle byte of an odd length belongs to both halves, four bits to each.
fn passes(key: &EncryptingKey, block: &mut [u8], numbers: &[u8]) {
    let len = block.len();
    let half = len.div_ceil(2);
    let (mut left, mut right) = ([0; BLOCK], [0; BLOCK]);
    left[..half].copy_from_slice(&block[..half]);
    right[..half].copy_from_slice(&block[len - half..]);
    let clear = |left: &mut [u8; BLOCK], right: &mut [u8; BLOCK]| {
        if len % 2 == 1 {
            left[half - 1] &= 0xf0;
            right[0] &= 0x0f;
        }
    };
    clear(&mut left, &mut right);
    for &number in numbers {
        let (from, to) = if number % 2 == 1 { (&left, &mut right) } else { (&right, &mut left) };
        // The function "expand" of §5.4.2.2. A half has 10 bytes at most.
        let mut expanded = [0; BLOCK];
        expanded[..half].copy_from_slice(&from[..half]);
        expanded[BLOCK - 2] = len as u8;
        expanded[BLOCK - 1] = number;
        encrypt(key, &mut expanded);
        to.iter_mut().zip(expanded).take(half).for_each(|(byte, mask)| *byte ^= mask);
        clear(&mut left, &mut right);
    }
    block[len - half..].copy_from_slice(&right[..half]);
    let shared = block[half - 1];
    block[..half].copy_from_slice(&left[..half]);
    if len % 2 == 1 {
        block[half - 1] |= shared;
    }
}
