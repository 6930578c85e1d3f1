//! Difference between noq and quinn: reading.

use bytes::Bytes;
use quinn::{ReadError, RecvStream};

/// The largest read, in bytes.
const READ: usize = 256 * 1024;

/// Receives and drops everything up to the end of the stream; returns how much that was.
pub async fn drain(recv: &mut RecvStream, moved: &impl Fn(u64)) -> Result<u64, ReadError> {
    let mut total = 0;
    while let Some(bytes) = next(recv).await? {
        total += bytes.len() as u64;
        moved(bytes.len() as u64);
    }
    Ok(total)
}

/// Returns the next bytes of a stream.
pub async fn next(recv: &mut RecvStream) -> Result<Option<Bytes>, ReadError> {
    recv.read_chunk(READ).await
}
