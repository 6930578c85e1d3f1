//! Content of the streams of multipath cases. Every eight bytes encode their own position, and SHA-256
//! verifies the whole. A stream starts with eight bytes, big endian: the number of bytes to send back.
//! Content follows. The response contains that number of bytes, and the SHA-256 of the received content.

use std::sync::Arc;

use aws_lc_rs::digest::{Context, Digest, SHA256, SHA256_OUTPUT_LEN};
use bytes::Bytes;
use peer_common::{Failure, failed};
use quinn::{Connection, RecvStream, SendStream};
use tokio::sync::watch;

use super::words::{expected, pieces};
use crate::reading;

/// Number of bytes transferred, in both directions.
pub type Moved = watch::Sender<u64>;

async fn send(stream: &mut SendStream, count: u64, moved: &Moved) -> Result<(), Failure> {
    for piece in pieces(count) {
        let len = piece.len() as u64;
        stream.write_chunk(Bytes::from(piece)).await?;
        moved.send_modify(|moved| *moved += len);
    }
    Ok(())
}

/// Reads until the end of the stream. Returns the SHA-256 of all bytes but the last `kept`, and these last
/// ones.
async fn receive(stream: &mut RecvStream, kept: usize, moved: &Moved) -> Result<(Digest, Vec<u8>), Failure> {
    let (mut context, mut tail) = (Context::new(&SHA256), Vec::new());
    while let Some(bytes) = reading::next(stream).await? {
        moved.send_modify(|moved| *moved += bytes.len() as u64);
        tail.extend_from_slice(&bytes);
        let done = tail.len().saturating_sub(kept);
        context.update(&tail[..done]);
        tail.drain(..done);
    }
    Ok((context.finish(), tail))
}

/// Runs the client's side of one stream.
pub async fn ask(
    connection: Connection,
    download: u64,
    upload: u64,
    moved: Arc<Moved>,
) -> Result<(), Failure> {
    let (mut to, mut from) = connection.open_bi().await?;
    to.write_all(&download.to_be_bytes()).await?;
    let sending = async {
        send(&mut to, upload, &moved).await?;
        to.finish()?;
        Ok::<_, Failure>(())
    };
    let (sent, received) = tokio::join!(sending, receive(&mut from, SHA256_OUTPUT_LEN, &moved));
    sent?;
    let (sum, theirs) = received?;
    if sum.as_ref() != expected(download).as_ref() {
        return failed("what came is not what was asked for");
    }
    match theirs == expected(upload).as_ref() {
        true => Ok(()),
        false => failed("the server received something else than was sent"),
    }
}

/// Runs the server's side of one stream.
pub async fn answer(mut to: SendStream, mut from: RecvStream, moved: Arc<Moved>) -> Result<(), Failure> {
    let mut count = [0; 8];
    from.read_exact(&mut count).await?;
    let count = u64::from_be_bytes(count);
    let (sent, received) = tokio::join!(send(&mut to, count, &moved), receive(&mut from, 0, &moved));
    sent?;
    to.write_all(received?.0.as_ref()).await?;
    to.finish()?;
    // The connection must stay open until the client has received all data.
    to.stopped().await?;
    Ok(())
}
