//! Reading from streams, which differs between quinn and its fork noq.

use bytes::Bytes;
use quinn::{ReadError, RecvStream};

/// Number of chunks in one call: about a batch of packets.
const CHUNKS: usize = 16;

/// Reads and discards all data until the end of the stream. Returns its length.
pub async fn drain(recv: &mut RecvStream, moved: &impl Fn(u64)) -> Result<u64, ReadError> {
    let mut chunks: [Bytes; CHUNKS] = Default::default();
    let mut total = 0;
    while let Some(filled) = recv.read_chunks(&mut chunks).await? {
        let bytes = chunks[..filled].iter_mut().map(|chunk| std::mem::take(chunk).len() as u64).sum();
        total += bytes;
        moved(bytes);
    }
    Ok(total)
}

/// Returns the next bytes of a stream, as many as are available.
pub async fn next(recv: &mut RecvStream) -> Result<Option<Bytes>, ReadError> {
    Ok(recv.read_chunk(usize::MAX, true).await?.map(|chunk| chunk.bytes))
}
