//! Shutdown of a proxy, which waits for open tunnels within a time limit.

use std::time::Duration;

use anabranch::Endpoint;
use anabranch::http3::Code;

use super::shared::Shared;
use crate::signal::Stop;

/// Maximum time for the CONNECTION_CLOSE frames to be sent, and again for the records of aborted tunnels to
/// be logged.
const FAREWELL: Duration = Duration::from_secs(1);

/// Closes all connections of the endpoint, with the shutdown as the reason phrase.
fn close(endpoint: &Endpoint) {
    endpoint.close(Code::NO_ERROR.into(), b"the proxy is shutting down");
}

/// Refuses new connections and requests, and waits until all connections have ended, but at most for
/// `patience`. Then, or at the next signal, closes those that are open.
pub(super) async fn drain(shared: &Shared, endpoints: &[Endpoint], patience: Duration, stop: &mut Stop) {
    shared.stopping.cancel();
    shared.http3.begin(patience);
    for endpoint in endpoints {
        // Without a configuration the call cannot fail.
        let _ = endpoint.set_server_config(None);
    }
    shared.connections.close();
    let orderly = async {
        // Tunnels that are open after `patience` are aborted.
        let _ = tokio::time::timeout(patience, shared.connections.wait()).await;
        endpoints.iter().for_each(close);
        let sent = async {
            for endpoint in endpoints {
                endpoint.wait_close_sent().await;
            }
        };
        let _ = tokio::time::timeout(FAREWELL, sent).await;
        // The tasks of the tunnels end, and their records are logged.
        let _ = tokio::time::timeout(FAREWELL, shared.proxy.drained()).await;
    };
    tokio::select! {
        () = orderly => {}
        () = stop.wait() => endpoints.iter().for_each(close),
    }
}
