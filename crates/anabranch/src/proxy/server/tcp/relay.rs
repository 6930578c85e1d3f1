//! TCP tunnels over other HTTP versions, whose connections were upgraded to byte streams.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};

use super::super::buffer::Buffer;
use super::super::flow::Outcome;
use super::link::Link;

/// Carries bytes in both directions until both have ended, or until either side aborts the tunnel.
pub(in crate::proxy::server) async fn relay<T>(link: &Link, io: T)
where
    T: AsyncRead + AsyncWrite,
{
    let (reader, writer) = split(io);
    let carried = async {
        match tokio::try_join!(upload(link, reader), download(link, writer)) {
            Ok(_) => Outcome::Complete,
            Err(outcome) => outcome,
        }
    };
    let outcome = tokio::select! {
        outcome = carried => outcome,
        outcome = link.aborted() => outcome,
    };
    link.end(outcome);
}

async fn upload(link: &Link, mut reader: impl AsyncRead + Unpin) -> Result<(), Outcome> {
    let mut buffer = Buffer::new();
    loop {
        match reader.read_buf(buffer.for_read()).await {
            Ok(0) => return link.finish().map_err(|_| Outcome::ByTarget),
            Ok(n) => {
                link.write_all(buffer.read()).await.map_err(|_| Outcome::ByTarget)?;
                pause(link.flow.sent(n)).await;
            }
            Err(_) => return Err(Outcome::ByClient),
        }
    }
}

async fn download(link: &Link, mut writer: impl AsyncWrite + Unpin) -> Result<(), Outcome> {
    let mut buffer = Buffer::new();
    loop {
        match link.stream.try_read_buf(buffer.for_read()) {
            Ok(0) => {
                writer.shutdown().await.map_err(|_| Outcome::ByClient)?;
                link.end_download();
                return Ok(());
            }
            Ok(n) => {
                writer.write_all(buffer.read()).await.map_err(|_| Outcome::ByClient)?;
                writer.flush().await.map_err(|_| Outcome::ByClient)?;
                pause(link.flow.received(n)).await;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                buffer.release();
                link.stream.readable().await.map_err(|_| Outcome::ByTarget)?;
            }
            Err(_) => return Err(Outcome::ByTarget),
        }
    }
}

async fn pause(wait: Option<std::time::Duration>) {
    if let Some(wait) = wait {
        tokio::time::sleep(wait).await;
    }
}
