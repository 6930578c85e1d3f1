//! UDP tunnels over other HTTP versions, whose connections were upgraded to byte streams (RFC 9298 §3.2).

use std::future::poll_fn;

use anabranch_http3::capsule::CapsuleReader;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};

use super::super::buffer::Buffer;
use super::super::flow::Outcome;
use super::carry::{Carrier, Stop};
use super::queue::Queue;
use super::{UdpFlow, WANTED};
use crate::http3::Code;

/// Carries datagrams as capsules until the client ends the stream, the target is unreachable, or the flow is idle.
pub(in crate::proxy::server) async fn relay<T>(udp: UdpFlow, io: T)
where
    T: AsyncRead + AsyncWrite,
{
    let queue = Queue::of(&udp.flow, udp.terms.deadline());
    let carrier = Carrier::new(&udp, &queue, None);
    let (reader, mut writer) = split(io);
    let stop = tokio::select! {
        stop = read_capsules(&carrier, reader) => stop,
        stop = carrier.read_target() => stop,
        stop = write_capsules(&queue, &mut writer) => stop,
        () = carrier.idle_for(udp.idle) => Stop::End(Outcome::Idle),
    };
    match stop {
        Stop::End(outcome) => {
            udp.flow.end(outcome);
            let _ = writer.shutdown().await;
        }
        Stop::Abort(outcome, _) => udp.flow.end(outcome),
    }
}

async fn read_capsules(carrier: &Carrier<'_>, mut reader: impl AsyncRead + Unpin) -> Stop {
    let mut capsules = CapsuleReader::new(WANTED);
    let mut buffer = Buffer::new();
    loop {
        match reader.read_buf(buffer.for_read()).await {
            Ok(0) if capsules.end().is_ok() => return Stop::End(Outcome::Complete),
            Ok(0) | Err(_) => return Stop::Abort(Outcome::ByClient, Code::MESSAGE_ERROR),
            Ok(_) => {
                if let Err(stop) = carrier.capsules(&mut capsules, buffer.read()) {
                    return stop;
                }
            }
        }
    }
}

async fn write_capsules(queue: &Queue, writer: &mut (impl AsyncWrite + Unpin)) -> Stop {
    while let Some(capsule) = poll_fn(|cx| queue.poll_pop(cx)).await {
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
