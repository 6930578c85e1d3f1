//! Content of the streams: each group of eight bytes is its own index, as a little-endian number.

use aws_lc_rs::digest::{Context, Digest, SHA256};

/// Number of bytes of one write, a multiple of eight.
const PIECE: u64 = 64 * 1024;

/// Returns one piece of the content, from offset `from` on. The last piece ends at offset `count`, so it may
/// be shorter.
fn piece(from: u64, count: u64) -> Vec<u8> {
    let len = (count - from).min(PIECE);
    (from / 8..).flat_map(u64::to_le_bytes).take(len as usize).collect()
}

/// Returns the first `count` bytes of the content, as pieces of one write each.
pub(super) fn pieces(count: u64) -> impl Iterator<Item = Vec<u8>> {
    (0..count).step_by(PIECE as usize).map(move |from| piece(from, count))
}

/// Returns the SHA-256 of the first `count` bytes of the content.
pub(super) fn expected(count: u64) -> Digest {
    let mut context = Context::new(&SHA256);
    pieces(count).for_each(|piece| context.update(&piece));
    context.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_says_where_it_belongs() {
        let all: Vec<u8> = pieces(2 * PIECE + 12).flatten().collect();
        assert_eq!(all.len() as u64, 2 * PIECE + 12);
        for (index, word) in (0_u64..).zip(all.chunks(8)) {
            assert_eq!(word, &index.to_le_bytes()[..word.len()], "{index}");
        }
        assert_ne!(expected(16).as_ref(), expected(17).as_ref());
    }
}
