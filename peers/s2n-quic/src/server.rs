//! Server: `perf`, `hq-interop` and `h3` on one endpoint.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::mpsc;

use aws_lc_rs::hmac;
use bytes::Bytes;
use peer_common::args::{ResetKey, Server};
use peer_common::report::Report;
use peer_common::{Failure, files, life};
use s2n_quic::Connection;
use s2n_quic::connection::Handle;
use s2n_quic::provider::endpoint_limits::{ConnectionAttempt, Limiter, Outcome};
use s2n_quic::provider::stateless_reset_token::{self, Generator};
use s2n_quic::stream::{BidirectionalStream, ReceiveStream, SendStream};
use s2n_quic_core::stateless_reset::Token;

use crate::http3::{self, Transport};
use crate::{datagrams, io, limits, next_datagram, send_datagram, tls, work, wrong};

/// Rule that decides whether clients must first validate their address.
struct Gate {
    retry: bool,
}

impl Limiter for Gate {
    fn on_connection_attempt(&mut self, _: &ConnectionAttempt<'_>) -> Outcome {
        if self.retry { Outcome::retry() } else { Outcome::allow() }
    }
}

/// Generator of the stateless reset tokens that belong to a key.
struct Tokens(hmac::Key);

impl Tokens {
    fn new(ResetKey(key): &ResetKey) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, key))
    }
}

impl Generator for Tokens {
    fn generate(&mut self, id: &[u8]) -> Token {
        let mut token = [0; 16];
        token.copy_from_slice(&hmac::sign(&self.0, id).as_ref()[..16]);
        token.into()
    }
}

impl stateless_reset_token::Provider for Tokens {
    type Generator = Self;
    type Error = Infallible;

    fn start(self) -> Result<Self, Infallible> {
        Ok(self)
    }
}

/// Serves until `ending` yields.
pub async fn run(options: Server, ending: mpsc::Receiver<()>) -> Result<(), Failure> {
    if options.common.v2 || options.preferred.is_some() {
        return Err(Failure::Unsupported("s2n-quic has neither QUIC version 2 nor preferred_address".into()));
    }
    let limits =
        limits(&options.common)?.with_active_connection_migration(options.migration).map_err(wrong)?;
    let (io, local) = io(options.listen, &options.common)?;
    let builder = s2n_quic::Server::builder()
        .with_tls(tls::server(&options)?)?
        .with_limits(limits)?
        .with_datagram(datagrams()?)?
        .with_endpoint_limits(Gate { retry: options.retry })?
        .with_io(io)?;
    let mut server = match &options.reset_key {
        Some(key) => builder.with_stateless_reset_token(Tokens::new(key))?.start(),
        None => builder.start(),
    }
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
    let Ok(alpn) = connection.application_protocol() else { return };
    if alpn == "h3" {
        return http3::server::serve(Transport::new(connection), root).await;
    }
    let hq = alpn == "hq-interop";
    if !hq {
        tokio::spawn(echo_datagrams(connection.handle()));
    }
    while let Ok(Some(stream)) = connection.accept_bidirectional_stream().await {
        if hq {
            tokio::spawn(answer_file(stream, root.clone()));
        } else {
            tokio::spawn(answer_perf(stream));
        }
    }
}

async fn echo_datagrams(connection: Handle) {
    while let Ok(datagram) = next_datagram(&connection).await {
        if send_datagram(&connection, datagram).await.is_err() {
            return;
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
