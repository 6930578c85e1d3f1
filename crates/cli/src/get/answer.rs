//! A server's answer.

use anabranch::http3::RecvHalf;
use bytes::Bytes;
use http::{Response, header};
use tokio::task::JoinHandle;

use crate::exit::{Exit, Failure, Result};
use crate::hq;

/// Most bytes of an answer that are passed on at a time.
const PIECE: usize = 64 * 1024;
/// Interim answers (1xx) that a server may send before the real one.
const MAX_INTERIM: usize = 32;

/// An answer on its way.
pub(super) struct Answer {
    source: Source,
    /// The request's content while it is being sent.
    sending: Option<Sending>,
    /// hq-interop has none.
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

    /// Returns the same, while something is still sent.
    pub(super) fn during(self, sending: impl Future<Output = Result> + Send + 'static) -> Self {
        Self { sending: Some(Sending(tokio::spawn(sending))), ..self }
    }

    /// Waits until the answer begins.
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

    /// Returns the text of a header field.
    pub(super) fn field(&self, name: header::HeaderName) -> Option<&str> {
        self.head.as_ref()?.headers().get(name)?.to_str().ok()
    }

    /// Reads the next piece of content that has arrived; `None` at its end.
    pub(super) async fn piece(&mut self) -> Result<Option<Bytes>> {
        match &mut self.source {
            Source::Hq(answer) => answer.piece().await,
            Source::Http3(receive) => Ok(receive.read_chunk(PIECE).await?),
        }
    }
}

/// A task that ends when nobody wants its result.
struct Sending(JoinHandle<Result>);

impl Sending {
    /// Waits for it to fail, which may never happen.
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

/// Formats a response's status and header fields as people know them from HTTP/1.1.
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
