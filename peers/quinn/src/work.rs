//! What a client does on a connection, and the byte movers both sides share.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use peer_common::args::Work;
use peer_common::progress::{Progress, share};
use peer_common::{Failure, PATTERN, failed, files};
use quinn::{Connection, ReadError, RecvStream, SendStream, WriteError};
use tokio::task::JoinSet;

use crate::http3;

/// Chunks moved per call: 1 MiB when sending, about a batch of packets when receiving.
const CHUNKS: usize = 16;

/// Sends `count` bytes by reference to the static pattern.
pub async fn send_bytes(
    send: &mut SendStream,
    mut count: u64,
    moved: &impl Fn(u64),
) -> Result<(), WriteError> {
    let mut chunks: [Bytes; CHUNKS] = Default::default();
    while count > 0 {
        let mut filled = 0;
        let mut bytes = 0;
        while filled < CHUNKS && bytes < count {
            let size = (count - bytes).min(PATTERN.len() as u64);
            chunks[filled] = Bytes::from_static(&PATTERN[..size as usize]);
            bytes += size;
            filled += 1;
        }
        send.write_all_chunks(&mut chunks[..filled]).await?;
        moved(bytes);
        count -= bytes;
    }
    Ok(())
}

/// Receives and drops everything up to the end of the stream; returns how much that was.
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

/// Does all of `work` on `connection`.
pub async fn run(connection: &Connection, work: &Work, progress: &Arc<Progress>) -> Result<(), Failure> {
    let mut tasks = JoinSet::new();
    match work {
        Work::Perf { download, upload, streams } => {
            for index in 0..*streams {
                let (down, up) = (share(*download, index, *streams), share(*upload, index, *streams));
                let (send, recv) = connection.open_bi().await?;
                tasks.spawn(perf(send, recv, down, up, Arc::clone(progress)));
            }
        }
        Work::Fetch { http3: true, out, paths } => {
            return http3::client::fetch(connection, out.as_deref(), paths, progress).await;
        }
        Work::Fetch { http3: false, out, paths } => {
            for path in paths {
                // Waits for credit when the server allows fewer streams than there are paths.
                let (send, recv) = connection.open_bi().await?;
                tasks.spawn(fetch(send, recv, out.clone(), path.clone(), Arc::clone(progress)));
            }
        }
        Work::Requests(_) | Work::Handshakes { .. } | Work::Datagrams { .. } => {
            return failed("this case needs a transfer");
        }
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}

async fn perf(
    mut send: SendStream,
    mut recv: RecvStream,
    download: u64,
    upload: u64,
    progress: Arc<Progress>,
) -> Result<(), Failure> {
    send.write_all(&download.to_be_bytes()).await?;
    let moved = |bytes| progress.add(bytes);
    let sending = async {
        send_bytes(&mut send, upload, &moved).await?;
        send.finish()?;
        Ok::<_, Failure>(())
    };
    let (sent, received) = tokio::join!(sending, drain(&mut recv, &moved));
    sent?;
    match received? {
        n if n == download => Ok(()),
        n => failed(format!("asked for {download} bytes, got {n}")),
    }
}

async fn fetch(
    mut send: SendStream,
    mut recv: RecvStream,
    out: Option<PathBuf>,
    path: String,
    progress: Arc<Progress>,
) -> Result<(), Failure> {
    send.write_all(&files::request(&path)).await?;
    send.finish()?;
    let Some(out) = out else {
        drain(&mut recv, &|bytes| progress.add(bytes)).await?;
        return Ok(());
    };
    let Some(target) = files::destination(&out, &path) else {
        return failed(format!("no file name in {path}"));
    };
    let mut body = Vec::new();
    while let Some(chunk) = recv.read_chunk(usize::MAX, true).await? {
        progress.add(chunk.bytes.len() as u64);
        body.extend_from_slice(&chunk.bytes);
    }
    std::fs::write(target, body)?;
    Ok(())
}
