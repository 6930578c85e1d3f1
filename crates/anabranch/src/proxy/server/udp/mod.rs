//! Tunnels between clients and UDP flows to targets (RFC 9298).
//!
//! A flow's datagrams are sent in QUIC DATAGRAM frames, or in DATAGRAM capsules on the stream (RFC 9297 §3.5) if there are
//! no such frames. Datagrams that do not fit into a frame are dropped, unless the client itself has sent capsules. A flow
//! has no buffer while it is idle.

mod carry;
mod queue;
mod relay;

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use anabranch_http3::capsule::{CapsuleReader, CapsuleType};
use tokio::net::UdpSocket;

pub(super) use self::carry::{Stop, rest};
pub(super) use self::queue::{Capsules, Queue};
pub(super) use self::relay::relay;

use self::carry::Carrier;
use super::flow::{Flow, Outcome};
use crate::http3::{Body, Code, Datagrams};
use crate::proxy::FlowTerms;

/// Maximum number of bytes that one read takes from a stream, without a copy.
const MAX_PIECE: usize = 64 * 1024;

/// Types of the capsules that are parsed; others are skipped (RFC 9297 §3.2).
const WANTED: &[CapsuleType] = &[CapsuleType::DATAGRAM];

/// A UDP flow that does not carry datagrams yet.
pub(super) struct UdpFlow {
    pub(super) socket: UdpSocket,
    pub(super) flow: Arc<Flow>,
    /// Time without datagrams in either direction after which the flow ends.
    pub(super) idle: Duration,
    pub(super) terms: FlowTerms,
}

/// A UDP flow, and the request that carries it. It is boxed: an `async` function would hold it twice.
struct Tunneled {
    udp: UdpFlow,
    body: Body,
    datagrams: Option<Datagrams>,
    queue: Arc<Queue>,
}

/// Begins to carry datagrams, in a task. Returns the body of the response, which carries capsules.
pub(super) fn over_http3(udp: UdpFlow, body: Body, datagrams: Option<Datagrams>) -> Capsules {
    let queue = Arc::new(Queue::of(&udp.flow, udp.terms.deadline()));
    let tunneled = Tunneled { udp, body, datagrams, queue: Arc::clone(&queue) };
    tokio::spawn(supervise(Box::new(tunneled)));
    Capsules::new(queue)
}

async fn supervise(mut tunneled: Box<Tunneled>) {
    let Tunneled { udp, body, datagrams, queue } = &mut *tunneled;
    let carrier = Carrier::new(udp, queue, datagrams.as_ref());
    let stop = tokio::select! {
        stop = read_capsules(&carrier, body) => stop,
        stop = carrier.read_datagrams() => stop,
        stop = carrier.read_target() => stop,
        () = poll_fn(|cx| queue.poll_abandoned(cx)) => Stop::Abort(Outcome::ByClient, Code::CONNECT_ERROR),
        () = carrier.idle_for(udp.idle) => Stop::End(Outcome::Idle),
    };
    match stop {
        Stop::End(outcome) => udp.flow.end(outcome),
        Stop::Abort(outcome, code) => {
            udp.flow.end(outcome);
            body.abort(code);
        }
    }
    queue.end();
}

/// Sends the payloads of the capsules in the request's body to the target, until the body ends.
async fn read_capsules(carrier: &Carrier<'_>, body: &mut Body) -> Stop {
    let mut capsules = CapsuleReader::new(WANTED);
    loop {
        match body.read_chunk(MAX_PIECE).await {
            Ok(Some(piece)) => {
                if let Err(stop) = carrier.capsules(&mut capsules, &piece) {
                    return stop;
                }
            }
            // RFC 9297 §3.3: a capsule that is cut off is malformed.
            Ok(None) if capsules.end().is_err() => {
                return Stop::Abort(Outcome::ByClient, Code::MESSAGE_ERROR);
            }
            Ok(None) => return Stop::End(Outcome::Complete),
            Err(_) => return Stop::Abort(Outcome::ByClient, Code::CONNECT_ERROR),
        }
    }
}

#[cfg(test)]
mod tests;
