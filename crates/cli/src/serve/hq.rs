//! `hq-interop` over the file service: HTTP/0.9, the protocol of interoperability tests.

use anabranch::{Connection, VarInt};
use std::sync::Arc;

use tokio::task::JoinSet;

use super::protocol::Protocol;
use super::shared::Shared;
use crate::hq;

/// Serves requests until the connection ends, or until the server stops and running responses have been
/// acknowledged. The transport's stream limit bounds the number of concurrent requests.
pub(super) async fn serve(connection: Connection, shared: Arc<Shared>) {
    let service = shared.service(Protocol::Hq, connection.remote_address(), Arc::default());
    let mut answers = JoinSet::new();
    loop {
        tokio::select! {
            () = shared.stopping.cancelled() => break,
            Some(_) = answers.join_next() => {}
            stream = connection.accept_bi() => match stream {
                Ok((send, receive)) => _ = answers.spawn(hq::answer(service.clone(), send, receive)),
                Err(_) => return,
            },
        }
    }
    while answers.join_next().await.is_some() {}
    connection.close(VarInt::from_u32(0), b"");
}
