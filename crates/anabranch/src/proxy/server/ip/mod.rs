//! Tunnels for IP packets (RFC 9484).
//!
//! The proxy assigns addresses of its pools to a client. It forwards a packet of the client to its network if the packet's
//! source is one of these addresses and the access list allows the destination. Packets are sent in QUIC DATAGRAM frames. A
//! packet that does not fit is sent as a capsule on the stream if it has at most 1,280 bytes or may be fragmented;
//! otherwise it is dropped, and its sender gets an ICMP message.

mod network;
mod pool;
mod relay;
mod session;

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use anabranch_http3::capsule::CapsuleReader;
use tokio::time::sleep;

pub use self::network::{IpDrops, IpNetwork, PacketSink};
pub use self::pool::{InvalidPool, MAX_ASSIGNED};

pub(super) use self::relay::relay;
pub(super) use self::session::Allow;

use self::session::{Session, WANTED};
use super::flow::{Flow, Outcome};
use super::udp::{Capsules, Stop};
use crate::http3::{Body, Code, Datagrams};

/// Maximum number of bytes that one read takes from a stream, without a copy.
const PIECE: usize = 64 * 1024;
/// Time after the begin of a tunnel at which the proxy assigns addresses to a client that has none.
const UNASKED: Duration = Duration::from_millis(200);

/// A tunnel for IP packets that does not carry any yet.
pub(super) struct IpFlow {
    pub(super) network: IpNetwork,
    pub(super) flow: Arc<Flow>,
    pub(super) allow: Allow,
    /// Name of the user; `None` for a client without credentials.
    pub(super) user: Option<String>,
}

/// Begins to carry packets, in a task. Returns the body of the response, which carries capsules.
pub(super) fn over_http3(ip: IpFlow, body: Body, datagrams: Option<Datagrams>) -> Capsules {
    let session = Arc::new(Session::new(ip, datagrams));
    let capsules = Capsules::new(Arc::clone(session.queue()));
    tokio::spawn(supervise(session, body));
    capsules
}

async fn supervise(session: Arc<Session>, mut body: Body) {
    let stop = match session.announce() {
        Err(stop) => stop,
        Ok(()) => tokio::select! {
            stop = read_capsules(&session, &mut body) => stop,
            stop = session.read_datagrams() => stop,
            stop = assign_late(&session) => stop,
            () = poll_fn(|cx| session.queue().poll_abandoned(cx)) => Stop::Abort(Outcome::ByClient, Code::CONNECT_ERROR),
        },
    };
    session.release();
    match stop {
        Stop::End(outcome) => session.flow().end(outcome),
        Stop::Abort(outcome, code) => {
            session.flow().end(outcome);
            body.abort(code);
        }
    }
    session.queue().end();
}

/// Assigns addresses to a client that has none after [`UNASKED`]. Returns only if the client's queue of capsules is full.
async fn assign_late(session: &Arc<Session>) -> Stop {
    sleep(UNASKED).await;
    if !session.has_addresses()
        && let Err(stop) = session.assign_unasked()
    {
        return stop;
    }
    std::future::pending().await
}

/// Handles the capsules of the request's body until its end.
async fn read_capsules(session: &Arc<Session>, body: &mut Body) -> Stop {
    let mut capsules = CapsuleReader::new(WANTED);
    loop {
        match body.read_chunk(PIECE).await {
            Ok(Some(piece)) => {
                if let Err(stop) = session.capsules(&mut capsules, &piece) {
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
