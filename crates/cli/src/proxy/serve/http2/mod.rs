//! Tunnels over HTTP/2 (RFC 9113), each on a stream.

mod stream;

use std::convert::Infallible;
use std::future::{Future, poll_fn, ready};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anabranch::proxy::server::Carried;
use anabranch::rustls::pki_types::CertificateDer;
use bytes::Bytes;
use h2::ext::Protocol;
use h2::server::{Builder, SendResponse};
use h2::{Ping, PingPong, RecvStream};
use http::{Request, Response, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{sleep, timeout};

use self::stream::Stream;
use super::shared::Shared;

/// Maximum number of concurrent tunnels on a connection.
const MAX_STREAMS: u32 = 1_024;
/// Maximum size of a request's header section, in bytes.
const MAX_HEADER: u32 = 32 * 1024;
/// Maximum number of bytes of a tunnel that wait to be sent to the client.
const MAX_BUFFER: usize = 64 * 1024;
/// Maximum number of bytes of a tunnel, and of all tunnels of a connection, that its targets have not taken yet.
const STREAM_WINDOW: u32 = 512 * 1024;
const CONNECTION_WINDOW: u32 = 4 * STREAM_WINDOW;
/// Maximum time until a client has begun HTTP/2.
const MAX_HELLO: Duration = Duration::from_secs(10);
/// Time after which a client is asked whether it is still there, and time for its answer.
const PING: Duration = Duration::from_secs(30);

/// Client of a connection.
#[derive(Clone)]
pub(super) struct Client {
    pub(super) address: SocketAddr,
    pub(super) chain: Option<Arc<[CertificateDer<'static>]>>,
}

/// Serves a connection until it ends. Requests and tunnels have clones of `open`. When `ending` is ready, no more requests are
/// accepted, and tunnels go on.
pub(super) async fn serve<T, O>(
    io: T,
    client: Client,
    open: &Arc<O>,
    shared: &Arc<Shared>,
    ending: impl Future<Output = ()>,
) where
    T: AsyncRead + AsyncWrite + Unpin,
    O: Send + Sync + 'static,
{
    let Ok(Ok(mut connection)) = timeout(MAX_HELLO, builder().handshake::<_, Bytes>(io)).await else {
        return;
    };
    let pings = connection.ping_pong();
    let mut silent = pin!(silence(pings));
    let mut ending = pin!(ending);
    let mut is_ending = false;
    loop {
        let accepted = tokio::select! {
            accepted = connection.accept() => accepted,
            () = &mut silent => return,
            () = &mut ending, if !is_ending => {
                is_ending = true;
                connection.graceful_shutdown();
                continue;
            }
        };
        let Some(Ok((request, respond))) = accepted else { return };
        let (client, open, proxy) = (client.clone(), Arc::clone(open), Arc::clone(shared));
        shared.connections.spawn(async move {
            let _open = open;
            carry(&proxy, &client, request, respond).await
        });
    }
}

/// Responds to a request, and carries the tunnel that it opens.
async fn carry(
    shared: &Shared,
    client: &Client,
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
) -> Option<()> {
    let (mut parts, content) = request.into_parts();
    shared.identities.identify(client.chain.as_deref(), &mut parts.extensions);
    let protocol = parts.extensions.get::<Protocol>().map(|protocol| protocol.as_str().to_owned());
    let Some(asked) = shared.proxy.asked(&parts, protocol.as_deref(), client.address) else {
        let mut response = Response::new(());
        *response.status_mut() = StatusCode::NOT_FOUND;
        return respond.send_response(response, true).ok().map(drop);
    };
    let opened = tokio::select! {
        opened = shared.proxy.open(asked) => opened,
        // The client does not want it any more.
        _ = poll_fn(|cx| respond.poll_reset(cx)) => return None,
    };
    match opened {
        Ok(tunnel) => {
            let send = respond.send_response(tunnel.response(StatusCode::OK), false).ok()?;
            let stream = Stream::new(send, content, tunnel.carried() == Carried::Tcp);
            tunnel.relay(ready(Ok::<_, Infallible>(stream)), MAX_HELLO).await.ok()
        }
        Err(refusal) => respond.send_response(refusal.response(), true).ok().map(drop),
    }
}

fn builder() -> Builder {
    let mut builder = Builder::new();
    builder
        .enable_connect_protocol()
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(MAX_HEADER)
        .max_send_buffer_size(MAX_BUFFER)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW);
    builder
}

/// Waits until the client leaves a PING without a response (RFC 9113 §6.7).
async fn silence(pings: Option<PingPong>) {
    let Some(mut pings) = pings else { return std::future::pending().await };
    loop {
        sleep(PING).await;
        match timeout(PING, pings.ping(Ping::opaque())).await {
            Ok(Ok(_)) => {}
            // The connection has ended, which shows elsewhere.
            Ok(Err(_)) => return std::future::pending().await,
            Err(_) => return,
        }
    }
}
