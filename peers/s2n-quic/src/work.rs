//! Work of a client on a connection, and functions for transfers of both client and server.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use peer_common::args::Work;
use peer_common::progress::{Progress, share};
use peer_common::{Failure, PATTERN, failed, files};
use s2n_quic::Connection;
use s2n_quic::stream::{BidirectionalStream, Error, ReceiveStream, SendStream};
use tokio::task::JoinSet;

use crate::http3::{self, Transport};

/// Number of chunks in one call: 1 MiB when sending, about a batch of packets when receiving.
const CHUNKS: usize = 16;

/// Sends `count` bytes by reference to the static pattern.
pub async fn send_bytes(send: &mut SendStream, mut count: u64, moved: &impl Fn(u64)) -> Result<(), Error> {
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
        send.send_vectored(&mut chunks[..filled]).await?;
        moved(bytes);
        count -= bytes;
    }
    Ok(())
}

/// Reads and discards all data until the end of the stream. Returns its length.
pub async fn drain(recv: &mut ReceiveStream, moved: &impl Fn(u64)) -> Result<u64, Error> {
    let mut chunks: [Bytes; CHUNKS] = Default::default();
    let mut total = 0;
    loop {
        let (filled, open) = recv.receive_vectored(&mut chunks).await?;
        let bytes = chunks[..filled].iter_mut().map(|chunk| std::mem::take(chunk).len() as u64).sum();
        total += bytes;
        moved(bytes);
        if !open {
            return Ok(total);
        }
    }
}

/// Does all of `work` on `connection`.
pub async fn run(mut connection: Connection, work: &Work, progress: &Arc<Progress>) -> Result<(), Failure> {
    let mut tasks = JoinSet::new();
    match work {
        Work::Perf { download, upload, streams } => {
            for index in 0..*streams {
                let (down, up) = (share(*download, index, *streams), share(*upload, index, *streams));
                let stream = connection.open_bidirectional_stream().await?;
                tasks.spawn(perf(stream, down, up, Arc::clone(progress)));
            }
        }
        Work::Fetch { http3: true, out, paths } => {
            return http3::client::fetch(Transport::new(connection), out.as_deref(), paths, progress).await;
        }
        Work::Fetch { http3: false, out, paths } => {
            for path in paths {
                // This waits for credit if the server allows fewer streams than there are paths.
                let stream = connection.open_bidirectional_stream().await?;
                tasks.spawn(fetch(stream, out.clone(), path.clone(), Arc::clone(progress)));
            }
        }
        Work::Handshakes { .. } | Work::Requests(_) | Work::Datagrams { .. } => {
            return failed("this case needs a transfer");
        }
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}

async fn perf(
    stream: BidirectionalStream,
    download: u64,
    upload: u64,
    progress: Arc<Progress>,
) -> Result<(), Failure> {
    let (mut recv, mut send) = stream.split();
    send.send(Bytes::copy_from_slice(&download.to_be_bytes())).await?;
    let moved = |bytes| progress.add(bytes);
    let sending = async {
        send_bytes(&mut send, upload, &moved).await?;
        send.finish()
    };
    let (sent, received) = tokio::join!(sending, drain(&mut recv, &moved));
    sent?;
    match received? {
        n if n == download => Ok(()),
        n => failed(format!("asked for {download} bytes, got {n}")),
    }
}

async fn fetch(
    stream: BidirectionalStream,
    out: Option<PathBuf>,
    path: String,
    progress: Arc<Progress>,
) -> Result<(), Failure> {
    let (mut recv, mut send) = stream.split();
    send.send(files::request(&path).into()).await?;
    send.finish()?;
    let Some(out) = out else {
        drain(&mut recv, &|bytes| progress.add(bytes)).await?;
        return Ok(());
    };
    let Some(target) = files::destination(&out, &path) else {
        return failed(format!("no file name in {path}"));
    };
    let mut body = Vec::new();
    while let Some(chunk) = recv.receive().await? {
        progress.add(chunk.len() as u64);
        body.extend_from_slice(&chunk);
    }
    std::fs::write(target, body)?;
    Ok(())
}
