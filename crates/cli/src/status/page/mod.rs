//! A page for a browser on this host, which shows the state of a client and charts of the last ten minutes.
//!
//! The page's URL contains a secret, so that other users of the host cannot open the page. Requests for another host name
//! are refused, so that a web page cannot read the state through a name that resolves to this host (DNS rebinding).

mod history;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::rand;
use bytes::Bytes;
use data_encoding::HEXLOWER;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use self::history::History;
use super::publish::Newest;
use crate::exit::{Exit, Failure, Result};
use crate::serve::sockets;

/// Maximum number of connections of browsers; further ones wait in the kernel's queue.
const MAX_BROWSERS: usize = 16;
/// Maximum time for the reception of a request's header section. A connection lasts at most twice as long.
const HELLO: Duration = Duration::from_secs(10);
/// Pause after a connection could not be accepted, for instance because the process has no free descriptors.
const REST: Duration = Duration::from_millis(100);
/// Length of the secret in the URL, in bytes before its hexadecimal encoding.
const SECRET: usize = 16;
/// Port of HTTP, as in a `Host` field.
const DEFAULT_PORT: &str = ":80";

/// A page whose port is bound, but which is not served yet.
#[derive(Debug)]
pub(crate) struct Page {
    listener: TcpListener,
    address: SocketAddr,
    /// First segment of the URL's path.
    secret: String,
}

/// State that all connections share.
#[derive(Debug)]
struct Shared {
    address: SocketAddr,
    secret: String,
    history: Mutex<History>,
    newest: Newest,
}

impl Page {
    /// Binds the port.
    ///
    /// # Errors
    /// Fails if the address is no loopback address, or if the port is in use.
    pub(crate) fn bind(address: SocketAddr) -> Result<Self> {
        if !address.ip().is_loopback() {
            let what = format!("{address} is no loopback address, so others could see the page");
            return Err(Failure::new(Exit::Usage, what).or("write 127.0.0.1:PORT or [::1]:PORT"));
        }
        let listener = sockets::listener(sockets::bind_tcp(address)?)?;
        let address = listener.local_addr().map_err(|error| Failure::io("no local address", &error))?;
        let mut secret = [0; SECRET];
        rand::fill(&mut secret).map_err(|_| Failure::new(Exit::Io, "the system has no randomness"))?;
        Ok(Self { listener, address, secret: HEXLOWER.encode(&secret) })
    }

    /// Returns the page's URL.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/{}/", self.address, self.secret)
    }

    /// Serves the page until the task is dropped.
    pub(crate) async fn serve(self, newest: Newest) {
        let Self { listener, address, secret } = self;
        let history = Mutex::new(History::default());
        let shared = Arc::new(Shared { address, secret, history, newest: newest.clone() });
        tokio::select! {
            () = remember(Arc::clone(&shared), newest) => {}
            () = accept(listener, shared) => {}
        }
    }
}

/// Adds each report to the history.
async fn remember(shared: Arc<Shared>, mut newest: Newest) {
    loop {
        let line = Arc::clone(&newest.borrow_and_update());
        if let Ok(report) = serde_json::from_str(&line) {
            shared.history.lock().unwrap_or_else(PoisonError::into_inner).add(&report);
        }
        if newest.changed().await.is_err() {
            return;
        }
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let room = Arc::new(Semaphore::new(MAX_BROWSERS));
    let mut serving = JoinSet::new();
    loop {
        // The semaphore is never closed.
        let permit = Arc::clone(&room).acquire_owned().await.ok();
        while serving.try_join_next().is_some() {}
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(REST).await;
            continue;
        };
        let shared = Arc::clone(&shared);
        serving.spawn(async move {
            let service = service_fn(move |request: Request<Incoming>| {
                let answer = shared.answer(&request);
                async { Ok::<_, Infallible>(answer) }
            });
            let mut builder = http1::Builder::new();
            // Each connection has only one request, so that an idle one does not occupy a place.
            builder.timer(TokioTimer::new()).header_read_timeout(HELLO).keep_alive(false);
            let _ = tokio::time::timeout(2 * HELLO, builder.serve_connection(TokioIo::new(stream), service))
                .await;
            drop(permit);
        });
    }
}

impl Shared {
    fn answer<B>(&self, request: &Request<B>) -> Response<Full<Bytes>> {
        if !self.is_for_us(request) {
            return plain(StatusCode::MISDIRECTED_REQUEST, "this page has another host name");
        }
        let path = request.uri().path().trim_start_matches('/');
        let (secret, name) = path.split_once('/').unwrap_or((path, ""));
        if verify_slices_are_equal(secret.as_bytes(), self.secret.as_bytes()).is_err() {
            return plain(StatusCode::NOT_FOUND, "the address that the command prints has a secret in it");
        }
        if request.method() != Method::GET {
            return plain(StatusCode::METHOD_NOT_ALLOWED, "only GET");
        }
        match name {
            "" => file("text/html; charset=utf-8", include_str!("page.html").into()),
            "page.js" => file("text/javascript; charset=utf-8", include_str!("page.js").into()),
            "page.css" => file("text/css; charset=utf-8", include_str!("page.css").into()),
            "state" => file("application/json", self.state()),
            _ => plain(StatusCode::NOT_FOUND, "there is no such page"),
        }
    }

    /// Returns whether the request's `Host` is the page's address or `localhost`, with its port. Browsers omit the default port
    /// (RFC 9110 §4.2.3).
    fn is_for_us<B>(&self, request: &Request<B>) -> bool {
        let host = request.headers().get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let port = format!(":{}", self.address.port());
        let own = [self.address.to_string(), format!("localhost{port}")];
        let is_default = port == DEFAULT_PORT;
        own.iter().any(|own| host == *own || (is_default && own.strip_suffix(&port) == Some(host)))
    }

    /// Returns the newest report and the history, as JSON.
    fn state(&self) -> Bytes {
        let newest = Arc::clone(&self.newest.borrow());
        let history = self.history.lock().unwrap_or_else(PoisonError::into_inner).json();
        format!("{{\"state\":{},\"history\":{history}}}", newest.trim_end()).into()
    }
}

fn plain(status: StatusCode, what: &str) -> Response<Full<Bytes>> {
    let mut response = file("text/plain; charset=utf-8", format!("{what}\n").into());
    *response.status_mut() = status;
    response
}

fn file(kind: &'static str, content: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(content));
    let policy =
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; frame-ancestors 'none'";
    let fields = response.headers_mut();
    fields.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    fields.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    fields.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    fields.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    fields.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests;
