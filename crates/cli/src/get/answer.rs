//! Reception of a server's response, over HTTP/3 or hq-interop.

use anabranch::http3::RecvHalf;
use bytes::Bytes;
use http::{Response, header};
use tokio::task::JoinHandle;

use crate::exit::{Exit, Failure, Result};
use crate::hq;

/// Maximum number of bytes of a response that are passed on at a time.
const PIECE: usize = 64 * 1024;
/// Maximum number of interim responses (1xx) before the final one.
const MAX_INTERIM: usize = 32;

/// A response that is being received.
pub(super) struct Answer {
    source: Source,
    /// Task that sends the request's content, until it has ended.
    sending: Option<Sending>,
    /// Status and header; `None` for hq-interop, which has neither.
    head: Option<Response<()>>,
}

enum Source {
    Hq(hq::Answer),
    Http3(RecvHalf),
}

impl Answer {
    pub(super) fn hq(answer: hq::Answer) -> Self {
        Self { source: Source::Hq(answer), sending: None, head: None }
    }

    pub(super) fn http3(receive: RecvHalf) -> Self {
        Self { source: Source::Http3(receive), sending: None, head: None }
    }

    /// Spawns `sending`, which sends the request's content while the response is received.
    pub(super) fn during(self, sending: impl Future<Output = Result> + Send + 'static) -> Self {
        Self { sending: Some(Sending(tokio::spawn(sending))), ..self }
    }

    /// Waits for the final response's header.
    pub(super) async fn begin(&mut self) -> Result {
        let Source::Http3(receive) = &mut self.source else { return Ok(()) };
        for _ in 0..MAX_INTERIM {
            let head = tokio::select! {
                head = receive.response() => head?,
                failure = Sending::failed(&mut self.sending) => return Err(failure),
            };
            if !head.status().is_informational() {
                self.head = Some(head);
                return Ok(());
            }
        }
        Err(Failure::new(Exit::Protocol, "the server sends one interim response after the other"))
    }

    pub(super) fn head(&self) -> Option<&Response<()>> {
        self.head.as_ref()
    }

    /// Returns the value of a header field as text.
    pub(super) fn field(&self, name: header::HeaderName) -> Option<&str> {
        self.head.as_ref()?.headers().get(name)?.to_str().ok()
    }

    /// Reads the next contiguous bytes of the content; `None` at its end.
    pub(super) async fn piece(&mut self) -> Result<Option<Bytes>> {
        match &mut self.source {
            Source::Hq(answer) => answer.piece().await,
            Source::Http3(receive) => Ok(receive.read_chunk(PIECE).await?),
        }
    }
}

/// Task that is aborted when it is dropped.
struct Sending(JoinHandle<Result>);

impl Sending {
    /// Waits until sending fails. If it succeeds, this never returns.
    async fn failed(sending: &mut Option<Self>) -> Failure {
        if let Some(Self(task)) = sending {
            let result = task.await;
            *sending = None;
            match result {
                Ok(Ok(())) => {}
                Ok(Err(failure)) => return failure,
                Err(error) => return Failure::new(Exit::Io, error),
            }
        }
        std::future::pending().await
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Formats a response's status and header fields in the style of HTTP/1.1.
pub(super) fn text(head: &Response<()>) -> Bytes {
    let status = head.status();
    let mut text = format!("HTTP/3 {}", status.as_str()).into_bytes();
    if let Some(reason) = status.canonical_reason() {
        text.extend_from_slice(format!(" {reason}").as_bytes());
    }
    text.extend_from_slice(b"\r\n");
    for (name, value) in head.headers() {
        text.extend_from_slice(name.as_str().as_bytes());
        text.extend_from_slice(b": ");
        text.extend_from_slice(value.as_bytes());
        text.extend_from_slice(b"\r\n");
    }
    text.extend_from_slice(b"\r\n");
    text.into()
}
