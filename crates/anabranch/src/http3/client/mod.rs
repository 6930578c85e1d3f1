//! A client that sends requests by URL.

mod connect;
mod pool;
mod reach;
mod upload;

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use anabranch_transport::ClientConfig;
use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body::Body as _;

use self::pool::Pool;
use self::reach::Reach;
use self::upload::{Upload, Whole};
use super::body::response_length;
use super::half::Half;
use super::pump::Pump;
use super::{Body, Config, Connection, Error, RecvHalf, SendHalf};
use crate::endpoint::Endpoint;

/// An HTTP/3 client. It sends requests by URL, and keeps their connections for later requests to the same
/// host and port.
///
/// If the server certainly did not process a request, the client sends it once more automatically, provided
/// that its body is still available; see [`Error::is_unprocessed`]. Clones are cheap and refer to the same
/// client.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use anabranch::http3::{Client, Server};
/// use anabranch::{Endpoint, SelfSigned, config};
/// use axum::{Router, routing::post};
///
/// let identity = SelfSigned::new(["localhost"])?;
/// let endpoint = Endpoint::server(identity.server_config(["h3"])?, "127.0.0.1:0".parse()?)?;
/// let address = endpoint.local_addr()?;
/// let router = Router::new().route("/echo", post(|body: String| async move { body }));
/// tokio::spawn(Server::new(endpoint, router).serve());
///
/// let endpoint = Endpoint::client("127.0.0.1:0".parse()?)?;
/// let client = Client::new(endpoint, config::client(identity.roots()?, ["h3"])?);
/// let url = format!("https://localhost:{}/echo", address.port());
/// let mut response = client.post(&url, "hello").await?;
/// assert_eq!(response.status(), 200);
/// assert_eq!(response.body_mut().read_to_end(100).await?, "hello");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Client(Arc<Pool>);

/// A [`Client`] that is being configured.
#[derive(Debug)]
#[must_use = "a builder builds nothing by itself"]
pub struct ClientBuilder(Reach);

impl ClientBuilder {
    /// Sets the limits and features of HTTP/3.
    pub fn config(mut self, config: Config) -> Self {
        self.0.config = config;
        self
    }

    /// Sets whether requests with safe methods may be sent before the handshake is complete (0-RTT), if a
    /// session of the server is stored. An attacker may replay such requests (RFC 8470). The default is
    /// `false`.
    pub fn early_data(mut self, early_data: bool) -> Self {
        self.0.early_data = early_data;
        self
    }

    /// Sets the address that is used for URLs with the host `host`, instead of asking the resolver.
    pub fn resolve(mut self, host: impl Into<String>, address: SocketAddr) -> Self {
        self.0.overrides.insert(host.into().to_ascii_lowercase(), address);
        self
    }

    /// Creates the client.
    pub fn build(self) -> Client {
        Client(Arc::new(Pool::new(self.0)))
    }
}

impl Client {
    /// Creates a client that opens its connections on `endpoint` with `config`, whose application protocols
    /// must include `h3`.
    pub fn new(endpoint: Endpoint, config: ClientConfig) -> Self {
        Self::builder(endpoint, config).build()
    }

    /// Returns a builder of a client, for settings beyond those of [`Client::new`].
    pub fn builder(endpoint: Endpoint, config: ClientConfig) -> ClientBuilder {
        ClientBuilder(Reach::new(endpoint, config))
    }

    /// Sends a GET request.
    ///
    /// # Errors
    /// Fails as [`Client::request`] does.
    pub async fn get(&self, url: &str) -> Result<Response<Body>, Error> {
        self.with_method(Method::GET, url, Bytes::new()).await
    }

    /// Sends a POST request with `body`, without a content type.
    ///
    /// # Errors
    /// Fails as [`Client::request`] does.
    pub async fn post(&self, url: &str, body: impl Into<Bytes>) -> Result<Response<Body>, Error> {
        self.with_method(Method::POST, url, body.into()).await
    }

    async fn with_method(&self, method: Method, url: &str, body: Bytes) -> Result<Response<Body>, Error> {
        let mut request = Request::new(Whole::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = parse(url)?;
        self.request(request).await
    }

    /// Sends a request, whose URI must be an https URL. A `host` header replaces the URL's authority in the
    /// request. Returns the response when its header section has arrived. The response's body is received
    /// later, while the rest of the request's body is sent. Dropping the response cancels the request.
    ///
    /// # Errors
    /// Fails if the request cannot be sent, or if no response is received.
    pub async fn request<B>(&self, request: Request<B>) -> Result<Response<Body>, Error>
    where
        B: http_body::Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<crate::Error>,
    {
        let (mut parts, body) = request.into_parts();
        let host = self.0.host(&parts.uri)?;
        let mut upload = Upload::new(body);
        add_length(&mut parts, &upload);
        let mut is_retry = false;
        loop {
            let early = parts.method.is_safe() && !is_retry;
            let (connection, reused) = host.connection(&self.0.reach, early).await?;
            let retries = !is_retry;
            is_retry = true;
            match attempt(&connection, &parts, &mut upload).await {
                Ok((response, _))
                    if retries && response.status() == StatusCode::TOO_EARLY && upload.rewind() =>
                {
                    // RFC 8470 §5.2: the request is sent once more, when the handshake is complete.
                    connection.established().await?;
                }
                Ok((response, rest)) => {
                    if let Some(rest) = rest {
                        tokio::spawn(finish(rest, upload));
                    }
                    return Ok(response);
                }
                Err(error) if retries && may_retry(&error, &parts.method, reused) && upload.rewind() => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the connection that requests to this URL use, and opens one if there is none. Use it for
    /// statistics, and for operations that [`Client::request`] does not offer.
    ///
    /// # Errors
    /// Fails if the connection cannot be opened.
    pub async fn connection(&self, url: &str) -> Result<Connection, Error> {
        let host = self.0.host(&parse(url)?)?;
        Ok(host.connection(&self.0.reach, false).await?.0)
    }
}

fn parse(url: &str) -> Result<Uri, Error> {
    url.parse().map_err(|_| Error::Url { url: url.to_owned(), reason: "not a URL" })
}

/// Unsent part of a request whose response has arrived.
type Rest = (SendHalf, Pump);

/// Sends the rest of a request's body.
async fn finish<B>((mut send, mut pump): Rest, mut upload: Upload<B>)
where
    B: http_body::Body,
    B::Error: Into<crate::Error>,
{
    // If this fails, the request is reset, and reading the response fails.
    let _ = poll_fn(|cx| pump.poll(cx, Pin::new(&mut upload), &mut send)).await;
}

/// Sends the request. Returns the response, and the unsent part of the request if its body has not been sent
/// completely.
async fn attempt<B>(
    connection: &Connection,
    parts: &Parts,
    upload: &mut Upload<B>,
) -> Result<(Response<Body>, Option<Rest>), Error>
where
    B: http_body::Body,
    B::Error: Into<crate::Error>,
{
    let end = upload.is_end_stream() && parts.method != Method::CONNECT;
    let exchange = connection.begin(parts, end).await?;
    let mut receive = RecvHalf::new(Half::client(Arc::clone(&exchange)));
    let mut rest = (!end).then(|| (SendHalf::new(Half::client(exchange)), Pump::default()));
    let head = poll_fn(|cx| {
        if let Some((send, pump)) = &mut rest
            && let Poll::Ready(result) = pump.poll(cx, Pin::new(&mut *upload), send)
        {
            rest = None;
            if let Err(error @ (Error::Body(_) | Error::Invalid(_))) = result {
                return Poll::Ready(Err(error));
            }
            // A server that has stopped reading the request is about to respond.
        }
        poll_final(cx, &mut receive)
    })
    .await?;
    let is_connect = parts.method == Method::CONNECT;
    let left = response_length(parts.method == Method::HEAD, is_connect, head.status(), head.headers());
    Ok((head.map(|()| Body::response(receive, left)), rest))
}

/// Returns the first header section of the response that is not an interim one.
fn poll_final(cx: &Context<'_>, receive: &mut RecvHalf) -> Poll<Result<Response<()>, Error>> {
    loop {
        let head = ready!(receive.poll_response(cx))?;
        if !head.status().is_informational() {
            return Poll::Ready(Ok(head));
        }
    }
}

/// Adds Content-Length if the client knows the length. With a method that usually has content, this includes
/// a length of 0 (RFC 9110 §8.6).
fn add_length<B: http_body::Body>(parts: &mut Parts, upload: &Upload<B>) {
    let expects_content = matches!(parts.method, Method::POST | Method::PUT | Method::PATCH);
    if parts.method == Method::CONNECT || parts.headers.contains_key(CONTENT_LENGTH) {
        return;
    }
    if let Some(length) = upload.size_hint().exact().filter(|length| *length > 0 || expects_content) {
        parts.headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
}

/// Returns true if the request may be sent again: if the server did not process it, or if its method is
/// idempotent and a reused connection was lost. A reused connection may have been dead before.
fn may_retry(error: &Error, method: &Method, reused: bool) -> bool {
    let stale = reused && method.is_idempotent() && matches!(error, Error::ConnectionLost(_));
    error.is_unprocessed() || stale
}
