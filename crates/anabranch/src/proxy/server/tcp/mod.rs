//! Tunnels between clients and TCP connections to targets.
//!
//! The proxy passes a regular end of either direction on, and the other direction goes on. If one side aborts the tunnel, the
//! proxy aborts the other side: by RST on TCP, by RESET_STREAM and STOP_SENDING with H3_CONNECT_ERROR on QUIC
//! (RFC 9114 §4.4).

mod download;
mod link;
mod relay;

use std::sync::Arc;

pub(super) use self::download::Download;
pub(super) use self::link::Link;
pub(super) use self::relay::relay;

use super::flow::Outcome;
use crate::http3::{Body, Code};

/// Maximum number of bytes that one read takes from a stream, without a copy.
const MAX_PIECE: usize = 64 * 1024;

/// Begins to carry a request's body to the target, in a task. Returns the body of the response, which carries the target's
/// bytes.
pub(super) fn over_http3(link: Arc<Link>, body: Body) -> Download {
    tokio::spawn(supervise(Arc::clone(&link), body));
    Download::new(link)
}

/// Carries the request's body to the target, and ends the tunnel when either side aborts it.
async fn supervise(link: Arc<Link>, mut body: Body) {
    let outcome = tokio::select! {
        outcome = link.aborted() => outcome,
        outcome = async {
            match upload(&link, &mut body).await {
                Ok(()) => link.downloaded().await,
                Err(outcome) => outcome,
            }
        } => outcome,
    };
    link.end(outcome);
    if outcome != Outcome::Complete {
        // The stream is reset at once, also while the client does not read.
        body.abort(Code::CONNECT_ERROR);
    }
}

/// Carries the request's body to the target until its end, without a copy.
async fn upload(link: &Link, body: &mut Body) -> Result<(), Outcome> {
    loop {
        // An error means that the client has reset the stream, or that the connection to the client is lost.
        let piece = body.read_chunk(MAX_PIECE).await.map_err(|_| Outcome::ByClient)?;
        let Some(piece) = piece else {
            return link.finish().map_err(|_| Outcome::ByTarget);
        };
        link.write_all(&piece).await.map_err(|_| Outcome::ByTarget)?;
        if let Some(wait) = link.flow.sent(piece.len()) {
            tokio::time::sleep(wait).await;
        }
    }
}
