//! `GET /metrics`, over plain HTTP on a port of its own.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::super::sockets;
use crate::exit::{Failure, Result};

/// Maximum number of connections; others wait in the kernel's queue.
const MAX_CONNECTIONS: usize = 16;
/// Maximum duration of a connection, so that no client can block others.
const MAX_LIFE: Duration = Duration::from_secs(60);
/// Maximum time to read the header of a request.
const MAX_HELLO: Duration = Duration::from_secs(5);
/// Pause before accepting again when the process has no free descriptors.
const REST: Duration = Duration::from_millis(100);

/// Function that returns all metrics in the text format.
type Text = Arc<dyn Fn() -> String + Send + Sync>;

/// Content type of OpenMetrics, as Prometheus expects it.
const OPEN_METRICS: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");

/// Serves scrapes of `text` until the process ends, so that a drain can be observed. Returns the bound address.
pub(crate) fn serve(
    listener: std::net::TcpListener,
    text: impl Fn() -> String + Send + Sync + 'static,
    tasks: &mut JoinSet<()>,
) -> Result<SocketAddr> {
    let listener = sockets::listener(listener)?;
    let address = listener.local_addr().map_err(|error| Failure::io("no local address", &error))?;
    tasks.spawn(accept(listener, Arc::new(text)));
    Ok(address)
}

async fn accept(listener: tokio::net::TcpListener, text: Text) {
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        // The semaphore is never closed.
        let permit = Arc::clone(&room).acquire_owned().await.ok();
        match listener.accept().await {
            Ok((stream, _)) => {
                let text = Arc::clone(&text);
                tokio::spawn(async move {
                    let _ = tokio::time::timeout(MAX_LIFE, converse(stream, text)).await;
                    drop(permit);
                });
            }
            Err(_) => tokio::time::sleep(REST).await,
        }
    }
}

/// Serves one connection. Errors are not reported.
async fn converse(stream: TcpStream, text: Text) {
    let service = service_fn(move |request: Request<Incoming>| {
        let answer = answer(&request, &*text);
        async { Ok::<_, Infallible>(answer) }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(MAX_HELLO);
    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
}

fn answer<B>(request: &Request<B>, text: &dyn Fn() -> String) -> Response<Full<Bytes>> {
    let status = match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/metrics") => {
            let mut answer = Response::new(text().into());
            answer.headers_mut().insert(CONTENT_TYPE, OPEN_METRICS);
            return answer;
        }
        (_, "/metrics") => StatusCode::METHOD_NOT_ALLOWED,
        _ => StatusCode::NOT_FOUND,
    };
    let mut answer = Response::new(format!("{status}; figures are at /metrics\n").into());
    *answer.status_mut() = status;
    answer
}
