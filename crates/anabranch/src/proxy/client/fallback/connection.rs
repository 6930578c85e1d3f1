//! A connection of HTTP/2, and the task that moves its frames.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use h2::client::{self, Builder, SendRequest};
use h2::{Ping, PingPong};
use http::Request;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{sleep, timeout};

use super::error::{Http2Error, TcpFailure};
use super::receive::RecvHalf;
use super::send::SendHalf;
use super::stream::Stream;
use super::{CONNECTION_WINDOW, MAX_HEADER, MAX_SEND_BUFFER, MAX_TUNNELS, STREAM_WINDOW};

/// Interval at which the proxy is asked whether it is still there (PING, RFC 9113 §6.7).
const PING_INTERVAL: Duration = Duration::from_secs(10);
/// Maximum time until it responds. Bytes that wait in the kernel delay the question.
const PING_TIMEOUT: Duration = Duration::from_secs(20);

/// A connection to the proxy. It ends when this value and the streams of its tunnels are dropped.
#[derive(Debug)]
pub(in crate::proxy::client) struct Connection {
    requests: SendRequest<Bytes>,
    /// Places of tunnels.
    room: Arc<Semaphore>,
    /// End of the connection.
    ended: watch::Receiver<Option<Http2Error>>,
}

impl Connection {
    /// Begins HTTP/2. Returns when the proxy's SETTINGS have arrived, and with them everything that TLS has to say: whether
    /// the client's certificate is accepted shows after the handshake (RFC 8446 §4.4.2.4).
    pub(super) async fn begin<T>(io: T, farewell: &watch::Sender<bool>) -> Result<Self, TcpFailure>
    where
        T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let (requests, mut connection) = builder().handshake(io).await.map_err(TcpFailure::http2)?;
        let closed = || TcpFailure::Later(Http2Error::GoneAway.into());
        let mut pings = connection.ping_pong().ok_or_else(closed)?;
        tokio::select! {
            // SETTINGS are the proxy's first frame (RFC 9113 §3.4).
            answered = pings.ping(Ping::opaque()) => {
                answered.map_err(TcpFailure::http2)?;
            }
            end = &mut connection => return Err(end.map_or_else(TcpFailure::http2, |()| closed())),
        }
        let places = MAX_TUNNELS.min(requests.current_max_send_streams());
        let (tell, ended) = watch::channel(None);
        tokio::spawn(drive(connection, pings, tell, farewell.subscribe()));
        Ok(Self { requests, room: Arc::new(Semaphore::new(places)), ended })
    }

    /// Returns whether the proxy supports extended CONNECT (RFC 8441).
    pub(in crate::proxy::client) fn supports_extended_connect(&self) -> bool {
        self.requests.is_extended_connect_protocol_enabled()
    }

    /// Sends a request, as soon as there is a place for its tunnel.
    ///
    /// # Errors
    /// Fails if the connection has ended, or is about to.
    pub(in crate::proxy::client) async fn request(
        &self,
        request: Request<()>,
    ) -> Result<(SendHalf, RecvHalf), Http2Error> {
        let place = Arc::clone(&self.room).acquire_owned();
        tokio::select! {
            biased;
            place = place => self.begin_stream(request, place.map_err(|_| Http2Error::Closed)?),
            end = self.closed() => Err(end),
        }
    }

    fn begin_stream(
        &self,
        request: Request<()>,
        place: OwnedSemaphorePermit,
    ) -> Result<(SendHalf, RecvHalf), Http2Error> {
        let sent = self.requests.clone().send_request(request, false);
        let (response, sending) = sent.map_err(|error| Http2Error::of_stream(&error))?;
        let stream = Stream::new(sending, self.ended.clone(), place);
        Ok((SendHalf::new(Arc::clone(&stream)), RecvHalf::new(stream, response)))
    }

    /// Returns the reason for the end of the connection, if it has ended.
    pub(in crate::proxy::client) fn end(&self) -> Option<Http2Error> {
        self.ended.borrow().clone()
    }

    /// Waits for the end of the connection, and returns the reason. The future does not keep the connection.
    pub(in crate::proxy::client) fn closed(&self) -> impl Future<Output = Http2Error> + Send + use<> {
        let mut ended = self.ended.clone();
        async move {
            let end = ended.wait_for(Option::is_some).await.ok().and_then(|end| end.clone());
            // The task always says why, unless the runtime ends.
            end.unwrap_or(Http2Error::Closed)
        }
    }
}

fn builder() -> Builder {
    let mut builder = Builder::new();
    builder
        .enable_push(false)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_header_list_size(MAX_HEADER)
        .max_send_buffer_size(MAX_SEND_BUFFER);
    builder
}

/// Moves the frames of a connection until its end, or until the client says `farewell`.
async fn drive<T>(
    mut connection: client::Connection<T>,
    mut pings: PingPong,
    tell: watch::Sender<Option<Http2Error>>,
    mut farewell: watch::Receiver<bool>,
) where
    T: AsyncRead + AsyncWrite + Unpin,
{
    let told = async {
        if farewell.wait_for(|is_over| *is_over).await.is_err() {
            // The client is gone, and open tunnels keep the connection.
            std::future::pending::<()>().await;
        }
    };
    let end = tokio::select! {
        end = &mut connection => match end {
            Ok(()) => Http2Error::GoneAway,
            Err(error) => Http2Error::lost(&error.to_string()),
        },
        () = silence(&mut pings) => Http2Error::lost("the proxy does not answer any more"),
        () = told => Http2Error::lost("closed by this end"),
    };
    // Streams that end with the connection find the reason.
    tell.send_replace(Some(end));
    drop(connection);
}

/// Waits until the proxy leaves a PING without a response.
async fn silence(pings: &mut PingPong) {
    loop {
        sleep(PING_INTERVAL).await;
        match timeout(PING_TIMEOUT, pings.ping(Ping::opaque())).await {
            Ok(Ok(_)) => {}
            // The connection has ended, and says itself why.
            Ok(Err(_)) => std::future::pending().await,
            Err(_) => return,
        }
    }
}
