//! The server behind several commands: it speaks `perf` and `hq-interop`, whichever the client asks for.

use std::path::PathBuf;
use std::sync::Arc;

use anabranch::{Connection, Endpoint, Incoming};

use crate::exit::note;
use crate::{hq, perf};

/// What a server gives.
#[derive(Debug, Default)]
pub(crate) struct Services {
    /// Directory of files for `hq-interop`: an absolute path without links.
    pub(crate) root: Option<PathBuf>,
    /// Say on standard error what was asked for.
    pub(crate) log: bool,
}

/// Accepts connections until the endpoint is closed.
pub(crate) async fn accept(endpoint: Endpoint, services: Arc<Services>) {
    while let Some(incoming) = endpoint.accept().await {
        tokio::spawn(serve(incoming, Arc::clone(&services)));
    }
}

async fn serve(incoming: Incoming, services: Arc<Services>) {
    // Early data is served before the handshake is complete; whatever is asked for here may be asked for twice.
    let Ok(connecting) = incoming.accept() else { return };
    if connecting.handshake_data().await.is_err() {
        return;
    }
    let Ok((connection, _)) = connecting.into_0rtt() else { return };
    match connection.handshake_data().protocol.as_deref() {
        Some(protocol) if protocol == hq::ALPN.as_bytes() => files(connection, services).await,
        _ => perf::server::serve(connection).await,
    }
}

async fn files(connection: Connection, services: Arc<Services>) {
    let client = connection.remote_address();
    while let Ok((send, receive)) = connection.accept_bi().await {
        let services = Arc::clone(&services);
        tokio::spawn(async move {
            let sent = hq::answer(services.root.as_deref(), send, receive).await;
            if services.log {
                match sent {
                    Some(bytes) => note(format_args!("{client} {bytes} bytes")),
                    None => note(format_args!("{client} not served")),
                }
            }
        });
    }
}
