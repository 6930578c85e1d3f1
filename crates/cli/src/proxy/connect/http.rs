//! HTTP/1.1 proxy (CONNECT, RFC 9110 §9.3.6) for programs.

use std::convert::Infallible;
use std::sync::Arc;

use anabranch::proxy::client::{RefusalKind, Target, TunnelError};
use bytes::Bytes;
use data_encoding::BASE64;
use http::header::{ALLOW, CONTENT_TYPE, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tracing::debug;

use super::Shared;
use super::local::{Guard, MAX_HELLO};
use super::stream::{self, Stream};

/// Maximum number of header fields of a request.
const MAX_FIELDS: usize = 100;
/// Maximum size of a request's header section, in bytes.
const MAX_HEADER: usize = 32 * 1024;

type Answer = Response<Full<Bytes>>;

/// A program's CONNECT request, and the tunnel that was opened for it.
type Upgraded = (Request<Incoming>, Stream);

/// Serves the connection of a program: handles its requests until one opens a tunnel, which then carries the
/// connection.
pub(super) async fn serve(program: TcpStream, shared: Arc<Shared>) {
    let (tell, told) = oneshot::channel();
    let tell = std::sync::Mutex::new(Some(tell));
    let service = service_fn(|request: Request<Incoming>| async {
        let answer = match open(&request, &shared).await {
            Ok(tunnel) => {
                let tell = tell.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
                // The receiver exists until this function ends. There is no further request after a
                // successful CONNECT.
                if let Some(tell) = tell {
                    let _ = tell.send((request, tunnel));
                }
                Response::new(Full::default())
            }
            Err(answer) => answer,
        };
        Ok::<_, Infallible>(answer)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(MAX_HELLO)
        .max_headers(MAX_FIELDS)
        .max_buf_size(MAX_HEADER)
        .serve_connection(TokioIo::new(program), service)
        .with_upgrades();
    if let Err(error) = connection.await {
        debug!(target: "anabranch::proxy", %error, "HTTP");
        return;
    }
    // If no request has opened a tunnel, the receiver fails at once.
    drop(tell);
    if let Ok(upgraded) = told.await {
        carry(upgraded).await;
    }
}

async fn carry((request, tunnel): Upgraded) {
    let Ok(upgraded) = hyper::upgrade::on(request).await else { return };
    if let Ok(parts) = upgraded.downcast::<TokioIo<TcpStream>>() {
        tunnel.carry(parts.io.into_inner(), parts.read_buf).await;
    }
}

async fn open(request: &Request<Incoming>, shared: &Shared) -> Result<Stream, Answer> {
    if let Some(guard) = &shared.guard
        && !is_admitted(guard, request.headers())
    {
        let mut answer =
            answer(StatusCode::PROXY_AUTHENTICATION_REQUIRED, "this proxy wants a name and a password");
        answer
            .headers_mut()
            .insert(PROXY_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"anabranch\""));
        return Err(answer);
    }
    if request.method() != Method::CONNECT {
        let what = "this proxy carries CONNECT only: use it for https, and the SOCKS port for http";
        let mut answer = answer(StatusCode::METHOD_NOT_ALLOWED, what);
        answer.headers_mut().insert(ALLOW, HeaderValue::from_static("CONNECT"));
        return Err(answer);
    }
    let target = request.uri().authority().and_then(|authority| authority.as_str().parse::<Target>().ok());
    let Some(target) = target else {
        return Err(answer(StatusCode::BAD_REQUEST, "CONNECT wants HOST:PORT"));
    };
    stream::open(&shared.client, &target).await.map_err(|error| answer(status(&error), &error.to_string()))
}

/// Returns whether a request has the name and the password that programs must send (RFC 7617).
fn is_admitted(guard: &Guard, headers: &HeaderMap) -> bool {
    let shown = || {
        let (scheme, encoded) = headers.get(PROXY_AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
        let decoded = BASE64.decode(encoded.trim().as_bytes()).ok()?;
        let (name, password) = std::str::from_utf8(&decoded).ok()?.split_once(':')?;
        Some(scheme.eq_ignore_ascii_case("basic") && guard.admits(name, password))
    };
    shown().unwrap_or(false)
}

fn status(error: &TunnelError) -> StatusCode {
    match error {
        TunnelError::Refused(refusal) => match refusal.kind() {
            RefusalKind::Denied => StatusCode::FORBIDDEN,
            RefusalKind::TimedOut => StatusCode::GATEWAY_TIMEOUT,
            RefusalKind::Limited => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::BAD_GATEWAY,
        },
        TunnelError::TimedOut(_) => StatusCode::GATEWAY_TIMEOUT,
        TunnelError::Unavailable(_) | TunnelError::Busy => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::BAD_GATEWAY,
    }
}

fn answer(status: StatusCode, what: &str) -> Answer {
    let mut answer = Response::new(Full::from(format!("{what}\n")));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    answer
}
