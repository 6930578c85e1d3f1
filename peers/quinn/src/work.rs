//! Work of a client on a connection, and functions for transfers of both client and server.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use peer_common::args::Work;
use peer_common::progress::{Progress, share};
use peer_common::{Failure, PATTERN, failed, files};
use quinn::{Connection, RecvStream, SendStream, WriteError};
use tokio::task::JoinSet;

use crate::http3;
use crate::reading::{drain, next};

/// Number of chunks in one call: 1 MiB.
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
            let transport = http3::transport(connection);
            return http3::client::fetch(transport, out.as_deref(), paths, progress).await;
        }
        Work::Fetch { http3: false, out, paths } => {
            for path in paths {
                // This waits for credit if the server allows fewer streams than there are paths.
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
    while let Some(bytes) = next(&mut recv).await? {
        progress.add(bytes.len() as u64);
        body.extend_from_slice(&bytes);
    }
    std::fs::write(target, body)?;
    Ok(())
}
