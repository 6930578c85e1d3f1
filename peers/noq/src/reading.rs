//! Reading from streams, which differs between noq and quinn.

use bytes::Bytes;
use quinn::{ReadError, RecvStream};

/// Maximum size of a read, in bytes.
const READ: usize = 256 * 1024;

/// Reads and discards all data until the end of the stream. Returns its length.
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
