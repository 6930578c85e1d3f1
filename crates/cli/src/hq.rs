//! `hq-interop`: HTTP/0.9 over QUIC, as interoperability tests speak it. A request is `GET /path\r\n` on a
//! stream of its own; the answer is the file, or a reset.

use anabranch::{Connection, RecvStream, SendStream, VarInt};
use std::convert::Infallible;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use tower_service::Service;

use crate::exit::{Exit, Failure, Result};

/// Name of the application protocol.
pub(crate) const ALPN: &str = "hq-interop";

/// Longest request that a server reads, in bytes.
const MAX_REQUEST: usize = 4_096;
/// Most bytes of an answer that are passed on at a time.
const ANSWER_PIECE: usize = 64 * 1024;
/// Code of the reset that ends an answer which cannot be finished; before it has begun, the code is HTTP's
/// status.
const BROKEN: VarInt = VarInt::from_u32(500);

/// Answers one request with what `service` has; ends silently when the client has lost interest.
pub(crate) async fn answer<S, B>(mut service: S, mut send: SendStream, mut receive: RecvStream) -> Option<()>
where
    S: Service<Request<()>, Response = Response<B>, Error = Infallible>,
    B: Body<Data = Bytes> + Unpin,
{
    let Some(request) = receive.read_to_end(MAX_REQUEST).await.ok().and_then(|line| parse(&line)) else {
        return refuse(send, StatusCode::BAD_REQUEST);
    };
    let Ok(answer) = service.call(request).await;
    if answer.status() != StatusCode::OK {
        return refuse(send, answer.status());
    }
    let mut body = answer.into_body();
    while let Some(frame) = body.frame().await {
        match frame.map(Frame::into_data) {
            Ok(Ok(piece)) => send.write_chunk(piece).await.ok()?,
            // There are no trailers, so the file cannot be read on.
            _ => return send.reset(BROKEN).ok(),
        }
    }
    send.finish().ok()?;
    // When it has arrived, and not only been handed on, the request is over.
    send.stopped().await.ok().map(|_| ())
}

/// Answers a request with a status, of which only the number gets through.
pub(crate) fn refuse(mut send: SendStream, status: StatusCode) -> Option<()> {
    send.reset(u32::from(status.as_u16()).into()).ok()
}

/// Parses `GET /path`, with or without the end of the line.
fn parse(line: &[u8]) -> Option<Request<()>> {
    let line = std::str::from_utf8(line).ok()?.trim_end_matches(['\r', '\n']);
    let path = line.strip_prefix("GET ").filter(|path| path.starts_with('/'))?;
    Request::get(path).body(()).ok()
}

/// Asks for `path`.
pub(crate) async fn ask(connection: &Connection, path: &str) -> Result<Answer> {
    let (mut send, receive) = connection.open_bi().await?;
    send.write_all(format!("GET /{}\r\n", path.trim_start_matches('/')).as_bytes()).await?;
    send.finish().map_err(|error| Failure::new(Exit::Protocol, error))?;
    Ok(Answer { receive, path: path.to_owned() })
}

/// A file on its way.
pub(crate) struct Answer {
    receive: RecvStream,
    path: String,
}

impl Answer {
    /// Reads the next piece that has arrived; `None` at its end.
    pub(crate) async fn piece(&mut self) -> Result<Option<Bytes>> {
        self.receive.read_chunk(ANSWER_PIECE).await.map_err(|error| match error {
            anabranch::ReadError::Reset(code) => {
                let what = format!("the server does not have {} (it reset the stream: {code})", self.path);
                Failure::new(Exit::Protocol, what)
            }
            error => error.into(),
        })
    }
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
