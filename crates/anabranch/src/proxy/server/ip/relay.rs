//! Tunnels for IP packets over other HTTP versions, whose connections were upgraded to byte streams (RFC 9484 §4.2).

use std::future::poll_fn;
use std::sync::Arc;

use anabranch_http3::capsule::CapsuleReader;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};

use super::super::buffer::Buffer;
use super::super::flow::Outcome;
use super::super::udp::Stop;
use super::session::{Session, WANTED};
use super::{IpFlow, assign_late};
use crate::http3::Code;

/// Carries packets as capsules in both directions until the client ends the stream or either side aborts the tunnel.
pub(in crate::proxy::server) async fn relay<T>(ip: IpFlow, io: T)
where
    T: AsyncRead + AsyncWrite,
{
    let session = Arc::new(Session::new(ip, None));
    let (reader, mut writer) = split(io);
    let stop = match session.announce() {
        Err(stop) => stop,
        Ok(()) => tokio::select! {
            stop = read_capsules(&session, reader) => stop,
            stop = write_capsules(&session, &mut writer) => stop,
            stop = assign_late(&session) => stop,
        },
    };
    session.release();
    match stop {
        Stop::End(outcome) => {
            session.flow().end(outcome);
            let _ = writer.shutdown().await;
        }
        Stop::Abort(outcome, _) => session.flow().end(outcome),
    }
}

async fn read_capsules(session: &Arc<Session>, mut reader: impl AsyncRead + Unpin) -> Stop {
    let mut capsules = CapsuleReader::new(WANTED);
    let mut buffer = Buffer::new();
    loop {
        match reader.read_buf(buffer.for_read()).await {
            Ok(0) if capsules.end().is_ok() => return Stop::End(Outcome::Complete),
            Ok(0) | Err(_) => return Stop::Abort(Outcome::ByClient, Code::MESSAGE_ERROR),
            Ok(_) => {
                if let Err(stop) = session.capsules(&mut capsules, buffer.read()) {
                    return stop;
                }
            }
        }
    }
}

async fn write_capsules(session: &Session, writer: &mut (impl AsyncWrite + Unpin)) -> Stop {
    while let Some(capsule) = poll_fn(|cx| session.queue().poll_pop(cx)).await {
        let written = async {
            writer.write_all(&capsule).await?;
            writer.flush().await
        };
        if written.await.is_err() {
            return Stop::Abort(Outcome::ByClient, Code::CONNECT_ERROR);
        }
    }
    Stop::End(Outcome::Complete)
}
