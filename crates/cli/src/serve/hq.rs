//! `hq-interop` over the file service: HTTP/0.9, as interoperability tests speak it.

use std::net::SocketAddr;
use std::sync::Arc;

use anabranch::{Connection, RecvStream, SendStream};
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use tokio::task::JoinSet;
use tower_service::Service;

use super::observe::Protocol;
use super::shared::Shared;

/// Longest request that is read, in bytes.
const MAX_REQUEST: usize = 4_096;
/// Code of the reset that ends an answer which cannot be finished; before it has begun, the code is HTTP's status.
const BROKEN: u64 = 500;

/// Answers requests until the connection ends, or until the server stops and running answers have arrived. The transport
/// bounds how many there are at a time.
pub(super) async fn serve(connection: Connection, shared: Arc<Shared>) {
    let client = connection.remote_address();
    let mut answers = JoinSet::new();
    loop {
        tokio::select! {
            () = shared.stopping.cancelled() => break,
            Some(_) = answers.join_next() => {}
            stream = connection.accept_bi() => match stream {
                Ok((send, receive)) => _ = answers.spawn(answer(send, receive, client, Arc::clone(&shared))),
                Err(_) => return,
            },
        }
    }
    while answers.join_next().await.is_some() {}
    connection.close(0, b"");
}

/// One request; ends silently when the client has lost interest.
async fn answer(
    mut send: SendStream,
    mut receive: RecvStream,
    client: SocketAddr,
    shared: Arc<Shared>,
) -> Option<()> {
    let Some(request) = receive.read_to_end(MAX_REQUEST).await.ok().and_then(|line| parse(&line)) else {
        return send.reset(StatusCode::BAD_REQUEST.as_u16().into()).ok();
    };
    let Ok(answer) = shared.service(Protocol::Hq, client, Arc::default()).call(request).await;
    if answer.status() != StatusCode::OK {
        return send.reset(answer.status().as_u16().into()).ok();
    }
    let mut body = answer.into_body();
    while let Some(frame) = body.frame().await {
        match frame.map(http_body::Frame::into_data) {
            Ok(Ok(piece)) => send.write_chunk(piece).await.ok()?,
            // There are no trailers, so the file cannot be read on.
            _ => return send.reset(BROKEN).ok(),
        }
    }
    send.finish().ok()?;
    // When it has arrived, and not only been handed on, the request is over.
    send.stopped().await.ok().map(|_| ())
}

/// `GET /path`, with or without the end of the line.
fn parse(line: &[u8]) -> Option<Request<()>> {
    let line = std::str::from_utf8(line).ok()?.trim_end_matches(['\r', '\n']);
    let path = line.strip_prefix("GET ").filter(|path| path.starts_with('/'))?;
    Request::get(path).body(()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_one_line() {
        for line in ["GET /a/b\r\n", "GET /a/b\n", "GET /a/b"] {
            assert_eq!(parse(line.as_bytes()).unwrap().uri(), "/a/b");
        }
        for bad in
            [b"POST /a".as_slice(), b"GET a", b"GET  /a", b"GET /a b", b"GET /\xff", b"GET /a\r\nX", b""]
        {
            assert!(parse(bad).is_none(), "{}", String::from_utf8_lossy(bad));
        }
    }
}
