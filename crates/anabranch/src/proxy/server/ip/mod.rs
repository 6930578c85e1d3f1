//! Tunnels for IP packets (RFC 9484).
//!
//! A client gets addresses of the proxy's pools. Its packets go to the proxy's network if their source is one of these
//! addresses and the access list allows the destination. Packets travel in QUIC DATAGRAM frames. Those that must fit but do
//! not travel as capsules on the stream; the senders of others get an ICMP message.

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

/// Number of bytes that are taken from a stream at a time, without a copy.
const PIECE: usize = 64 * 1024;
/// Time after which a client that has requested no address gets some.
const UNASKED: Duration = Duration::from_millis(200);

/// A tunnel for IP packets before it begins.
pub(super) struct IpFlow {
    pub(super) network: IpNetwork,
    pub(super) flow: Arc<Flow>,
    pub(super) allow: Allow,
    /// Name of the user.
    pub(super) user: String,
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

/// Assigns addresses to a client that has not requested any. Ends only if that fails.
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
