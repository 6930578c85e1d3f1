//! What the streams of multipath cases carry: every eight bytes say where they belong, and SHA-256 says whether all of them
//! came there. A stream starts with eight bytes, big endian, how much to send back; the content follows. The answer is as much
//! content, and the SHA-256 of what came.

use std::sync::Arc;

use aws_lc_rs::digest::{Context, SHA256, SHA256_OUTPUT_LEN};
use bytes::Bytes;
use peer_common::{Failure, failed};
use quinn::{Connection, RecvStream, SendStream};
use tokio::sync::watch;

use crate::reading;

/// Bytes of one write, a multiple of eight.
const PIECE: u64 = 64 * 1024;

/// How many bytes have moved, in both directions.
pub type Moved = watch::Sender<u64>;

/// What has come, and how much.
#[derive(PartialEq, Eq)]
pub struct Sum {
    count: u64,
    sha256: Vec<u8>,
}

/// The content from `from` on, up to `count`.
fn piece(from: u64, count: u64) -> Vec<u8> {
    let len = (count - from).min(PIECE);
    let words = (from / 8..).flat_map(u64::to_le_bytes);
    words.take(len as usize).collect()
}

/// The sum of the first `count` bytes of the content.
fn expected(count: u64) -> Sum {
    let mut context = Context::new(&SHA256);
    let mut from = 0;
    while from < count {
        let bytes = piece(from, count);
        context.update(&bytes);
        from += bytes.len() as u64;
    }
    Sum { count, sha256: context.finish().as_ref().to_vec() }
}

async fn send(stream: &mut SendStream, count: u64, moved: &Moved) -> Result<(), Failure> {
    let mut from = 0;
    while from < count {
        let bytes = piece(from, count);
        let len = bytes.len() as u64;
        stream.write_chunk(Bytes::from(bytes)).await?;
        moved.send_modify(|moved| *moved += len);
        from += len;
    }
    Ok(())
}

/// Reads to the end; what came before the last `kept` bytes is summed up, those are returned.
async fn receive(stream: &mut RecvStream, kept: usize, moved: &Moved) -> Result<(Sum, Vec<u8>), Failure> {
    let (mut context, mut count, mut tail) = (Context::new(&SHA256), 0, Vec::new());
    while let Some(bytes) = reading::next(stream).await? {
        moved.send_modify(|moved| *moved += bytes.len() as u64);
        tail.extend_from_slice(&bytes);
        let done = tail.len().saturating_sub(kept);
        context.update(&tail[..done]);
        count += done as u64;
        tail.drain(..done);
    }
    Ok((Sum { count, sha256: context.finish().as_ref().to_vec() }, tail))
}

/// The client's side of one stream.
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
    if sum != expected(download) {
        return failed(format!("{} bytes of {download} came, or others", sum.count));
    }
    match theirs == expected(upload).sha256 {
        true => Ok(()),
        false => failed("the server received something else than was sent"),
    }
}

/// The server's side of one stream.
pub async fn answer(mut to: SendStream, mut from: RecvStream, moved: Arc<Moved>) -> Result<(), Failure> {
    let mut count = [0; 8];
    from.read_exact(&mut count).await?;
    let count = u64::from_be_bytes(count);
    let (sent, received) = tokio::join!(send(&mut to, count, &moved), receive(&mut from, 0, &moved));
    sent?;
    to.write_all(&received?.0.sha256).await?;
    to.finish()?;
    // Until the client has it all, the connection must not end.
    to.stopped().await?;
    Ok(())
}
