//! Server: `perf`, `hq-interop` and `h3` on one endpoint.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};

use aws_lc_rs::hmac;
use bytes::Bytes;
use peer_common::args::{ResetKey, Server};
use peer_common::report::Report;
use peer_common::{Failure, files, life, socket};
use quinn::crypto::rustls::HandshakeData;
use quinn::{
    Connection, Endpoint, Incoming, RecvStream, SendStream, ServerConfig, TokioRuntime, ValidationTokenConfig,
};

use crate::setup::{endpoint_config, transport};
use crate::{http3, reading, tls, work};

/// Serves until `ending` yields.
pub async fn run(options: Server, ending: mpsc::Receiver<()>) -> Result<(), Failure> {
    if options.common.v2 {
        return Err(Failure::Unsupported("quinn has no QUIC version 2".into()));
    }
    let mut config = ServerConfig::with_crypto(tls::server(&options.cert, &options.key, options.tickets)?);
    config.transport_config(Arc::new(transport(&options.common)?)).migration(options.migration);
    let mut tokens = ValidationTokenConfig::default();
    tokens.sent(1);
    config.validation_token_config(tokens);
    match options.preferred {
        Some(SocketAddr::V4(address)) => _ = config.preferred_address_v4(Some(address)),
        Some(SocketAddr::V6(address)) => _ = config.preferred_address_v6(Some(address)),
        None => {}
    }
    let socket = socket::bind(options.listen)?;
    let mut shared = endpoint_config(&[]);
    if let Some(ResetKey(key)) = &options.reset_key {
        shared.reset_key(Arc::new(hmac::Key::new(hmac::HMAC_SHA256, key)));
        // A reset is sent only for connection IDs that the server may have issued. quinn's default IDs
        // contain a mark of the process.
        crate::unmarked_ids(&mut shared);
    }
    let endpoint = Endpoint::new(shared, Some(config), socket, Arc::new(TokioRuntime))?;
    life::ready(endpoint.local_addr()?);

    let (tell, mut ended) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let _ = ending.recv();
        let _ = tell.send(());
    });
    loop {
        let incoming = tokio::select! {
            incoming = endpoint.accept() => incoming,
            _ = &mut ended => None,
        };
        let Some(incoming) = incoming else { break };
        if options.retry && !incoming.remote_address_validated() {
            incoming.retry()?;
        } else {
            tokio::spawn(connection(incoming, options.root.clone()));
        }
    }
    endpoint.close(0u32.into(), b"");
    Report::new().cpu().print();
    Ok(())
}

/// Serves one connection from its first packet on: a server can respond to 0-RTT requests before the
/// handshake is complete.
async fn connection(incoming: Incoming, root: Option<PathBuf>) {
    // If a client disconnects, or fails its handshake, the client's own test reports it.
    let Ok(mut connecting) = incoming.accept() else { return };
    let Ok(data) = connecting.handshake_data().await else { return };
    let alpn = data.downcast::<HandshakeData>().ok().and_then(|data| data.protocol);
    let connection = match connecting.into_0rtt() {
        Ok((connection, _)) => connection,
        Err(_) => return,
    };
    match alpn.as_deref() {
        Some(b"h3") => http3::server::serve(http3::transport(&connection), root).await,
        Some(b"hq-interop") => {
            while let Ok((send, recv)) = connection.accept_bi().await {
                tokio::spawn(answer_file(send, recv, root.clone()));
            }
        }
        _ => {
            tokio::spawn(echo_datagrams(connection.clone()));
            while let Ok((send, recv)) = connection.accept_bi().await {
                tokio::spawn(answer_perf(send, recv));
            }
        }
    }
}

async fn echo_datagrams(connection: Connection) {
    while let Ok(datagram) = connection.read_datagram().await {
        if connection.send_datagram(datagram).is_err() {
            return;
        }
    }
}

/// Serves a `perf` stream. The first eight bytes are the number of bytes to send back; all other data from
/// the client is discarded. The end of the response tells the client that all of its data has arrived.
async fn answer_perf(mut send: SendStream, mut recv: RecvStream) {
    let mut count = [0; 8];
    if recv.read_exact(&mut count).await.is_err() {
        return;
    }
    let (drained, sent) = tokio::join!(
        reading::drain(&mut recv, &|_| {}),
        work::send_bytes(&mut send, u64::from_be_bytes(count), &|_| {})
    );
    if drained.is_ok() && sent.is_ok() {
        let _ = send.finish();
    }
}

async fn answer_file(mut send: SendStream, mut recv: RecvStream, root: Option<PathBuf>) {
    let request = recv.read_to_end(files::MAX_REQUEST).await.ok();
    let path = root.zip(request).and_then(|(root, request)| files::requested(&root, &request));
    match path.and_then(|path| std::fs::read(path).ok()) {
        Some(body) => {
            if send.write_chunk(Bytes::from(body)).await.is_ok() {
                let _ = send.finish();
            }
        }
        None => _ = send.reset(1u32.into()),
    }
}
