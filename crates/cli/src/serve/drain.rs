//! The end of a server: running answers are finished, up to a time.

use std::time::Duration;

use anabranch::Endpoint;
use anabranch::http3::Code;

use super::shared::Shared;
use crate::signal::Stop;

/// Maximum time that the packets that close connections may take to leave. Their arrival is not waited for
/// (RFC 9000 §10.2).
const FAREWELL: Duration = Duration::from_secs(1);

/// Closes every connection, whatever it carries, and says why.
fn close(endpoint: &Endpoint) {
    endpoint.close(Code::NO_ERROR.into(), b"the server is shutting down");
}

/// Lets nothing new begin; returns when everything has ended, when `patience` is over, or at the next signal.
pub(super) async fn drain(shared: &Shared, endpoints: &[Endpoint], patience: Duration, stop: &mut Stop) {
    shared.stopping.cancel();
    shared.http3.begin(patience);
    for endpoint in endpoints {
        // No configuration has no invalid setting.
        let _ = endpoint.set_server_config(None);
    }
    shared.connections.close();
    let orderly = async {
        // What is not done by then is cut off.
        let _ = tokio::time::timeout(patience, shared.connections.wait()).await;
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
