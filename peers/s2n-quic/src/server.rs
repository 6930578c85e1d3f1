//! Server: `perf` and `hq-interop` on one endpoint.

use std::path::PathBuf;
use std::sync::mpsc;

use bytes::Bytes;
use peer_common::args::Server;
use peer_common::report::Report;
use peer_common::{Failure, files, life};
use s2n_quic::Connection;
use s2n_quic::provider::endpoint_limits::{ConnectionAttempt, Limiter, Outcome};
use s2n_quic::provider::tls::s2n_tls;
use s2n_quic::stream::{BidirectionalStream, ReceiveStream, SendStream};

use crate::{POLICY, io, limits, work, wrong};

/// Rule that decides whether clients must first validate their address.
struct Gate {
    retry: bool,
}

impl Limiter for Gate {
    fn on_connection_attempt(&mut self, _: &ConnectionAttempt<'_>) -> Outcome {
        if self.retry { Outcome::retry() } else { Outcome::allow() }
    }
}

/// Serves until `ending` yields.
pub async fn run(options: Server, ending: mpsc::Receiver<()>) -> Result<(), Failure> {
    if options.common.v2 || options.preferred.is_some() {
        return Err(Failure::Unsupported("s2n-quic has neither QUIC version 2 nor preferred_address".into()));
    }
    if options.reset_key.is_some() {
        return Err(Failure::Unsupported("this peer does not give s2n-quic a stateless reset key".into()));
    }
    let mut tls = s2n_tls::Server::builder()
        .with_application_protocols(["perf", "hq-interop"])?
        .with_certificate(&*options.cert, &*options.key)?;
    tls.config_mut().set_security_policy(&s2n_tls::security::Policy::from_version(POLICY)?)?;
    let limits =
        limits(&options.common)?.with_active_connection_migration(options.migration).map_err(wrong)?;
    let (io, local) = io(options.listen, &options.common)?;
    let mut server = s2n_quic::Server::builder()
        .with_tls(tls.build()?)?
        .with_limits(limits)?
        .with_endpoint_limits(Gate { retry: options.retry })?
        .with_io(io)?
        .start()
        .map_err(wrong)?;
    life::ready(local);

    let (tell, mut ended) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let _ = ending.recv();
        let _ = tell.send(());
    });
    loop {
        tokio::select! {
            connection = server.accept() => match connection {
                Some(connection) => _ = tokio::spawn(answer(connection, options.root.clone())),
                None => break,
            },
            _ = &mut ended => break,
        }
    }
    Report::new().cpu().print();
    Ok(())
}

/// Serves one connection. If a client disconnects, the client's own test reports it.
async fn answer(mut connection: Connection, root: Option<PathBuf>) {
    let hq = connection.application_protocol().is_ok_and(|alpn| alpn == "hq-interop");
    while let Ok(Some(stream)) = connection.accept_bidirectional_stream().await {
        if hq {
            tokio::spawn(answer_file(stream, root.clone()));
        } else {
            tokio::spawn(answer_perf(stream));
        }
    }
}

/// Serves a `perf` stream. The first eight bytes are the number of bytes to send back; all other data from
/// the client is discarded. The end of the response tells the client that all of its data has arrived.
async fn answer_perf(stream: BidirectionalStream) {
    let (mut recv, mut send) = stream.split();
    let Some(count) = requested_count(&mut recv).await else { return };
    let (drained, sent) =
        tokio::join!(work::drain(&mut recv, &|_| {}), work::send_bytes(&mut send, count, &|_| {}));
    if drained.is_ok() && sent.is_ok() {
        let _ = send.finish();
    }
}

async fn requested_count(recv: &mut ReceiveStream) -> Option<u64> {
    let mut count = [0; 8];
    let mut filled = 0;
    while filled < count.len() {
        let chunk = recv.receive().await.ok()??;
        let taken = chunk.len().min(count.len() - filled);
        count[filled..filled + taken].copy_from_slice(&chunk[..taken]);
        filled += taken;
    }
    Some(u64::from_be_bytes(count))
}

async fn answer_file(stream: BidirectionalStream, root: Option<PathBuf>) {
    let (mut recv, mut send) = stream.split();
    match requested_file(&mut recv, root).await {
        Some(body) => _ = send_file(&mut send, body).await,
        None => _ = send.reset(1u32.into()),
    }
}

async fn send_file(send: &mut SendStream, body: Bytes) -> Result<(), s2n_quic::stream::Error> {
    send.send(body).await?;
    send.finish()
}

async fn requested_file(recv: &mut ReceiveStream, root: Option<PathBuf>) -> Option<Bytes> {
    let mut request = Vec::new();
    while let Some(chunk) = recv.receive().await.ok()? {
        request.extend_from_slice(&chunk);
        if request.len() > files::MAX_REQUEST {
            return None;
        }
    }
    Some(Bytes::from(std::fs::read(files::requested(&root?, &request)?).ok()?))
}
