//! Content of the streams of multipath cases. Every eight bytes encode their position, and SHA-256 verifies
//! the whole. A client's stream begins with the length of the response, as eight bytes, big endian; content
//! follows. The response is that amount of content, and then the SHA-256 of the received bytes.

use std::sync::Arc;

use anabranch::{Connection, RecvStream, SendStream};
use aws_lc_rs::digest::{Context, Digest, SHA256, SHA256_OUTPUT_LEN};
use bytes::Bytes;
use tokio::sync::watch;

use super::words::{expected, pieces};
use crate::exit::{Exit, Failure, Result};

/// Maximum number of bytes of one read.
const READ: usize = 256 * 1024;

/// Number of bytes transferred in both directions.
pub(super) type Moved = watch::Sender<u64>;

async fn send(stream: &mut SendStream, count: u64, moved: &Moved) -> Result {
    for piece in pieces(count) {
        let len = piece.len() as u64;
        stream.write_chunk(Bytes::from(piece)).await?;
        moved.send_modify(|moved| *moved += len);
    }
    Ok(())
}

/// Reads a stream to its end. Returns the SHA-256 of all but the last `kept` bytes, and those bytes.
async fn receive(stream: &mut RecvStream, kept: usize, moved: &Moved) -> Result<(Digest, Vec<u8>)> {
    let (mut context, mut tail) = (Context::new(&SHA256), Vec::new());
    while let Some(bytes) = stream.read_chunk(READ).await? {
        moved.send_modify(|moved| *moved += bytes.len() as u64);
        tail.extend_from_slice(&bytes);
        let done = tail.len().saturating_sub(kept);
        context.update(&tail[..done]);
        tail.drain(..done);
    }
    Ok((context.finish(), tail))
}

/// Runs the client's side of one stream.
pub(super) async fn ask(connection: Connection, download: u64, upload: u64, moved: Arc<Moved>) -> Result {
    let (mut to, mut from) = connection.open_bi().await?;
    to.write_all(&download.to_be_bytes()).await?;
    let sending = async {
        send(&mut to, upload, &moved).await?;
        to.finish().map_err(|error| Failure::new(Exit::Protocol, error))
    };
    let ((), (sum, theirs)) = tokio::try_join!(sending, receive(&mut from, SHA256_OUTPUT_LEN, &moved))?;
    if sum.as_ref() != expected(download).as_ref() {
        return Err(Failure::new(Exit::Protocol, "what came is not what was asked for"));
    }
    if theirs != expected(upload).as_ref() {
        return Err(Failure::new(Exit::Protocol, "the server has received something else than was sent"));
    }
    Ok(())
}

/// Runs the server's side of one stream.
pub(super) async fn answer(mut to: SendStream, mut from: RecvStream, moved: Arc<Moved>) -> Result {
    let mut count = [0; 8];
    from.read_exact(&mut count).await?;
    let sending = send(&mut to, u64::from_be_bytes(count), &moved);
    let ((), (sum, _)) = tokio::try_join!(sending, receive(&mut from, 0, &moved))?;
    to.write_all(sum.as_ref()).await?;
    to.finish().map_err(|error| Failure::new(Exit::Protocol, error))
}
