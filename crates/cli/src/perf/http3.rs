//! `anabranch perf` over HTTP/3: `/bytes/N` from memory, other paths from the root directory; downloads of
//! files, and many small requests.

use anabranch::VarInt;
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

pub(super) use anabranch::http3::Connection;
use anabranch::http3::{self, Body, Code, Config, RecvHalf, ServeOptions, Shutdown};
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, SERVER};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body::{Frame, SizeHint};
use tokio::task::JoinSet;
use tower_service::Service;

use super::pattern::PATTERN;
use crate::exit::{Exit, Failure, Result};
use crate::files::{FileBody, Files};

/// Protocol name in ALPN (RFC 9114 §3.1).
pub(crate) const ALPN: &str = "h3";
/// Prefix of the paths of responses from memory.
const MEMORY: &str = "/bytes/";

/// Serves one connection until it ends.
pub(crate) async fn serve(connection: anabranch::Connection, files: Option<Files>) {
    let options = ServeOptions::default().with_date(false);
    // Errors are not reported: they concern the client.
    let _ = http3::serve_connection(connection, Answers { files }, options, Shutdown::new()).await;
}

#[derive(Clone, Debug)]
struct Answers {
    files: Option<Files>,
}

/// Content from memory or from a file.
enum Content {
    Memory { left: u64 },
    File(FileBody),
}

/// A response that is complete, or is being read from the disk.
enum Answer {
    Now(Ready<std::result::Result<Response<Content>, Infallible>>),
    File(<Files as Service<Request<Body>>>::Future),
}

impl Service<Request<Body>> for Answers {
    type Response = Response<Content>;
    type Error = Infallible;
    type Future = Answer;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<std::result::Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Answer {
        let count = request.uri().path().strip_prefix(MEMORY).and_then(|count| count.parse().ok());
        match (count, &mut self.files) {
            (Some(count), _) => Answer::Now(ready(Ok(memory(StatusCode::OK, count)))),
            (None, Some(files)) => Answer::File(files.call(request)),
            (None, None) => Answer::Now(ready(Ok(memory(StatusCode::NOT_FOUND, 0)))),
        }
    }
}

/// Creates a response from memory, with the header that the `perf` servers of all peers send.
fn memory(status: StatusCode, count: u64) -> Response<Content> {
    let mut response = Response::new(Content::Memory { left: count });
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.reserve(3);
    headers.insert(CONTENT_LENGTH, HeaderValue::from(count));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(SERVER, HeaderValue::from_static("anabranch"));
    response
}

impl Future for Answer {
    type Output = std::result::Result<Response<Content>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            Self::Now(answer) => Pin::new(answer).poll(cx),
            Self::File(answer) => Pin::new(answer).poll(cx).map_ok(|response| response.map(Content::File)),
        }
    }
}

impl http_body::Body for Content {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, Self::Error>>> {
        match &mut *self {
            Self::Memory { left: 0 } => Poll::Ready(None),
            Self::Memory { left } => {
                let piece = PATTERN.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= piece as u64;
                Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&PATTERN[..piece])))))
            }
            Self::File(body) => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Memory { left } => *left == 0,
            Self::File(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Memory { left } => SizeHint::with_exact(*left),
            Self::File(body) => body.size_hint(),
        }
    }
}

/// Requests `path`. The content of the response is not read yet.
pub(super) async fn ask(connection: &Connection, authority: &str, path: &str) -> Result<RecvHalf> {
    let uri = format!("https://{authority}{path}");
    let request = Request::get(uri).body(()).map_err(|error| Failure::new(Exit::Usage, error))?;
    let mut answer = connection.request_without_body(request).await.map_err(failed)?;
    let status = answer.response().await.map_err(failed)?.status();
    if status != StatusCode::OK {
        return Err(Failure::new(Exit::Protocol, format!("{path}: {status}")));
    }
    Ok(answer)
}

/// Reads the next contiguous bytes of a response's content; `None` at its end.
pub(super) async fn piece(answer: &mut RecvHalf) -> Result<Option<Bytes>> {
    answer.read_chunk(PATTERN.len()).await.map_err(failed)
}

fn failed(error: http3::Error) -> Failure {
    Failure::new(Exit::Protocol, error)
}

/// Requests `path` and passes each piece of the response to `take`. The connection is locked while `take` runs.
async fn get(
    connection: &Connection,
    authority: &str,
    path: &str,
    mut take: impl FnMut(&[u8]) -> Result,
) -> Result {
    let mut answer = ask(connection, authority, path).await?;
    let mut taken = Ok(());
    loop {
        let read = answer.read_with(|bytes| {
            taken = take(bytes);
            bytes.len()
        });
        let more = read.await.map_err(failed)?.is_some();
        std::mem::replace(&mut taken, Ok(()))?;
        if !more {
            return Ok(());
        }
    }
}

/// Starts HTTP/3 on a QUIC connection.
pub(super) fn begin(connection: &anabranch::Connection) -> Connection {
    Connection::new(connection.clone(), Config::default())
}

/// Returns the code H3_NO_ERROR, with which HTTP/3 closes a connection.
pub(super) fn no_error() -> VarInt {
    Code::NO_ERROR.into()
}

/// Makes `count` requests for `path`, with `concurrency` of them in parallel on each connection. Returns the
/// number of content bytes, and the time that each request took.
pub(super) async fn requests(
    connections: &[Connection],
    authority: &str,
    path: &str,
    count: u64,
    concurrency: u64,
) -> Result<(u64, Vec<Duration>)> {
    let left = Arc::new(AtomicU64::new(count));
    let bytes = Arc::new(AtomicU64::new(0));
    let mut lanes = JoinSet::new();
    for connection in connections {
        for _ in 0..concurrency {
            let (connection, left, bytes) = (connection.clone(), Arc::clone(&left), Arc::clone(&bytes));
            let (authority, path) = (authority.to_owned(), path.to_owned());
            lanes.spawn(async move {
                let next =
                    || left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
                let mut times = Vec::new();
                while next().is_ok() {
                    let begin = Instant::now();
                    let count = |piece: &[u8]| {
                        bytes.fetch_add(piece.len() as u64, Ordering::Relaxed);
                        Ok(())
                    };
                    get(&connection, &authority, &path, count).await?;
                    times.push(begin.elapsed());
                }
                Ok::<_, Failure>(times)
            });
        }
    }
    let mut times = Vec::new();
    while let Some(lane) = lanes.join_next().await {
        times.extend(lane.map_err(|error| Failure::new(Exit::Protocol, error))??);
    }
    Ok((bytes.load(Ordering::Relaxed), times))
}
