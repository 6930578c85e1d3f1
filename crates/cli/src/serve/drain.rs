//! Shutdown of a server: running responses are completed within a time limit.

use std::time::Duration;

use anabranch::Endpoint;
use anabranch::http3::Code;

use super::hand_over;
use super::shared::Shared;
use crate::signal::Stop;

/// Maximum time until the packets that close connections are sent. The server does not wait for their arrival
/// (RFC 9000 §10.2).
const FAREWELL: Duration = Duration::from_secs(1);

/// Closes every connection of the endpoint, and gives the shutdown as reason.
fn close(endpoint: &Endpoint) {
    endpoint.close(Code::NO_ERROR.into(), b"the server is shutting down");
}

/// Refuses new work, and returns when all connections have ended, after `patience`, or at the next signal. If the sockets are
/// `handed_over`, clients that have arrived here before are served, and packets for older processes forwarded until these end.
pub(super) async fn drain(
    shared: &Shared,
    endpoints: &[Endpoint],
    patience: Duration,
    stop: &mut Stop,
    handed_over: bool,
) {
    if !handed_over {
        shared.refusing.cancel();
        for endpoint in endpoints {
            // Without a configuration the call cannot fail.
            let _ = endpoint.set_server_config(None);
        }
    }
    shared.stopping.cancel();
    shared.http3.begin(patience);
    shared.connections.close();
    let orderly = async {
        // Responses that are unfinished after `patience` are aborted.
        let _ = tokio::time::timeout(patience, shared.connections.wait()).await;
        if handed_over {
            // Their packets come through this process, whose own time says nothing of theirs.
            hand_over::older_ended(endpoints).await;
        }
        endpoints.iter().for_each(close);
        let sent = async {
            for endpoint in endpoints {
                endpoint.wait_close_sent().await;
            }
        };
        let _ = tokio::time::timeout(FAREWELL, sent).await;
    };
    tokio::select! {
        () = orderly => {}
        () = stop.wait() => endpoints.iter().for_each(close),
    }
}
