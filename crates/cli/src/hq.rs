//! `hq-interop`: HTTP/0.9 over QUIC, the protocol of interoperability tests. A request is `GET /path\r\n` on
//! a stream of its own; the response is the file, or a stream reset.

use anabranch::{Connection, RecvStream, SendStream, VarInt};
use std::convert::Infallible;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use tower_service::Service;

use crate::exit::{Exit, Failure, Result};

/// Protocol name in ALPN (RFC 7301).
pub(crate) const ALPN: &str = "hq-interop";

/// Maximum length of a request that a server reads, in bytes.
const MAX_REQUEST: usize = 4_096;
/// Maximum number of bytes of a response that are passed on at a time.
const ANSWER_PIECE: usize = 64 * 1024;
/// Code that resets the stream if a response fails after its first byte. Before that, the code is the HTTP
/// status.
const BROKEN: VarInt = VarInt::from_u32(500);

/// Sends the response of `service` to one request. Returns `None` if the client has stopped reading or closed
/// the connection.
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
            // Files have no trailers, so this is a read error.
            _ => return send.reset(BROKEN).ok(),
        }
    }
    send.finish().ok()?;
    // The request is over when the client has acknowledged the response, not when the response was queued.
    send.stopped().await.ok().map(|_| ())
}

/// Refuses a request: resets the stream with the number of `status`.
pub(crate) fn refuse(mut send: SendStream, status: StatusCode) -> Option<()> {
    send.reset(u32::from(status.as_u16()).into()).ok()
}

/// Parses `GET /path`, with or without the end of the line.
fn parse(line: &[u8]) -> Option<Request<()>> {
    let line = std::str::from_utf8(line).ok()?.trim_end_matches(['\r', '\n']);
    let path = line.strip_prefix("GET ").filter(|path| path.starts_with('/'))?;
    Request::get(path).body(()).ok()
}

/// Requests `path`.
pub(crate) async fn ask(connection: &Connection, path: &str) -> Result<Answer> {
    let (mut send, receive) = connection.open_bi().await?;
    send.write_all(format!("GET /{}\r\n", path.trim_start_matches('/')).as_bytes()).await?;
    send.finish().map_err(|error| Failure::new(Exit::Protocol, error))?;
    Ok(Answer { receive, path: path.to_owned() })
}

/// Response that is being received.
pub(crate) struct Answer {
    receive: RecvStream,
    path: String,
}

impl Answer {
    /// Reads the next contiguous bytes; `None` at the end of the file.
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
