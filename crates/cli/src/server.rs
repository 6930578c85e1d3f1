//! Server of several commands. It supports `perf`, `hq-interop` and HTTP/3; the client's ALPN chooses.

use std::path::Path;
use std::sync::Arc;

use anabranch::{Connection, Endpoint, Incoming};

use http::StatusCode;

use crate::events::{ConnectionEvents, Events};
use crate::exit::{Failure, Result};
use crate::files::Files;
use crate::{hq, perf};

/// Services of a server.
#[derive(Debug, Default)]
pub(crate) struct Services {
    /// Files for `hq-interop` and HTTP/3.
    files: Option<Files>,
    /// Destination of events.
    events: Events,
}

impl Services {
    /// Creates the services, with the files of the directory `root` if there is one.
    pub(crate) fn new(root: Option<&Path>, events: Events) -> Result<Self> {
        let open = |root: &Path| {
            Files::open(root, false)
                .map_err(|error| Failure::io(format_args!("cannot open {}", root.display()), &error))
        };
        Ok(Self { files: root.map(open).transpose()?, events })
    }
}

/// Accepts connections until the endpoint is closed.
pub(crate) async fn accept(endpoint: Endpoint, services: Arc<Services>) {
    while let Some(incoming) = endpoint.accept().await {
        tokio::spawn(serve(incoming, Arc::clone(&services)));
    }
}

async fn serve(incoming: Incoming, services: Arc<Services>) {
    // Early data is served before the handshake is complete. It may be replayed, which is harmless for these
    // services.
    let Ok(connecting) = incoming.accept() else { return };
    if connecting.handshake_data().await.is_err() {
        return;
    }
    let Ok((connection, _)) = connecting.into_0rtt() else { return };
    let watch = ConnectionEvents::new(&connection, &services.events);
    let established = async {
        if connection.handshake_complete().await.is_ok() {
            watch.established();
        }
    };
    tokio::join!(established, speak(connection.clone(), &services));
}

async fn speak(connection: Connection, services: &Services) {
    match connection.handshake_data().protocol.as_deref() {
        Some(protocol) if protocol == hq::ALPN.as_bytes() => files(connection, services.files.clone()).await,
        Some(protocol) if protocol == perf::http3::ALPN.as_bytes() => {
            perf::http3::serve(connection, services.files.clone()).await;
        }
        _ => perf::server::serve(connection).await,
    }
}

async fn files(connection: Connection, files: Option<Files>) {
    while let Ok((send, receive)) = connection.accept_bi().await {
        let files = files.clone();
        tokio::spawn(async move {
            match files {
                Some(files) => hq::answer(files, send, receive).await,
                None => hq::refuse(send, StatusCode::NOT_FOUND),
            }
        });
    }
}
