//! Shutdown of a proxy: open tunnels may end within a time limit.

use std::time::Duration;

use anabranch::Endpoint;
use anabranch::http3::Code;

use super::shared::Shared;
use crate::signal::Stop;

/// Maximum time until the packets that close connections are sent.
const FAREWELL: Duration = Duration::from_secs(1);

/// Closes every connection of the endpoint, and gives the shutdown as reason.
fn close(endpoint: &Endpoint) {
    endpoint.close(Code::NO_ERROR.into(), b"the proxy is shutting down");
}

/// Refuses new work, and returns when all connections have ended, after `patience`, or at the next signal.
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
        // The tunnels learn of it, and write their lines of the log.
        let _ = tokio::time::timeout(FAREWELL, shared.proxy.drained()).await;
    };
    tokio::select! {
        () = orderly => {}
        () = stop.wait() => endpoints.iter().for_each(close),
    }
}
