//! Response to one request, from the service's future to the last byte of the body.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http::header::CONTENT_LENGTH;
use http::response::Parts;
use http::{HeaderValue, Method, Response, StatusCode};
use http_body::Body;
use pin_project_lite::pin_project;

use super::super::pump::Pump;
use super::super::stall::Stall;
use super::super::{Error, SendHalf};

/// Maximum length in bytes of a body that is sent together with its header section if it is available at
/// once.
const SMALL_BODY: u64 = 4 * 1024;

/// Property of a request's method that affects the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The response has no content (RFC 9110 §9.3.2).
    Head,
    /// A successful response begins a tunnel.
    Connect,
    Other,
}

impl Kind {
    pub(super) fn of(method: &Method) -> Self {
        match *method {
            Method::HEAD => Self::Head,
            Method::CONNECT => Self::Connect,
            _ => Self::Other,
        }
    }

    /// Returns whether a response with this status has no content, even if it has a body (RFC 9110 §6.4.1).
    fn is_bodiless(self, status: StatusCode) -> bool {
        self == Self::Head || [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED].contains(&status)
    }

    fn is_tunnel(self, status: StatusCode) -> bool {
        self == Self::Connect && status.is_success()
    }
}

pin_project! {
    /// State of one response: the service's future, then the response body. The value is reused for
    /// successive requests.
    #[project = AnswerProjection]
    pub(super) enum Answer<F, B> {
        Idle,
        Called { #[pin] future: F, kind: Kind },
        Answered { #[pin] body: B },
    }
}

/// Part of a response that is available at once.
pub(super) enum AtOnce {
    /// The whole response.
    Whole(Parts, Bytes),
    /// The service failed.
    Failed,
    /// The response takes longer. Its header section and the first piece of its body may be available.
    Later(Option<Head>, Bytes),
}

/// Header section of a response, as it will be sent.
pub(super) struct Head {
    pub(super) parts: Parts,
    /// `true` if neither body nor trailers follow.
    end: bool,
}

impl<F, B, E> Answer<F, B>
where
    F: Future<Output = Result<Response<B>, E>>,
    B: Body,
    B::Error: Into<crate::Error>,
{
    /// Returns the part of the service's response that is available at once, without waiting.
    pub(super) fn poll_at_once(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> AtOnce {
        let head = match self.as_mut().poll_head(cx) {
            Poll::Ready(Ok(head)) => head,
            Poll::Ready(Err(_)) => return AtOnce::Failed,
            Poll::Pending => return AtOnce::Later(None, Bytes::new()),
        };
        if head.end {
            return AtOnce::Whole(head.parts, Bytes::new());
        }
        let AnswerProjection::Answered { mut body } = self.project() else { return AtOnce::Failed };
        let length = body.size_hint().exact().filter(|length| (1..=SMALL_BODY).contains(length));
        let Some(length) = length else { return AtOnce::Later(Some(head), Bytes::new()) };
        match body.as_mut().poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                Ok(mut data) => {
                    let data = data.copy_to_bytes(data.remaining());
                    if data.len() as u64 == length && body.is_end_stream() {
                        AtOnce::Whole(head.parts, data)
                    } else {
                        AtOnce::Later(Some(head), data)
                    }
                }
                // The body returned trailers instead of the content whose length it announced.
                Err(_) => AtOnce::Failed,
            },
            Poll::Ready(Some(Err(_)) | None) => AtOnce::Failed,
            Poll::Pending => AtOnce::Later(Some(head), Bytes::new()),
        }
    }

    /// Sends the rest of the response. If the client stops the stream, drops the service's future and fails.
    pub(super) async fn send(
        mut self: Pin<Box<Self>>,
        head: Option<Head>,
        first: Bytes,
        mut send: SendHalf,
        stall: Option<Stall>,
        date: bool,
    ) -> Result<(), Error> {
        let head = match head {
            Some(head) => head,
            None => {
                let mut head = poll_fn(|cx| match self.as_mut().poll_head(cx) {
                    Poll::Ready(result) => Poll::Ready(result.map_err(|_| Error::Closed)),
                    Poll::Pending => send.poll_stopped(cx).map(Err),
                })
                .await?;
                if date {
                    super::date::add(&mut head.parts, super::date::now);
                }
                head
            }
        };
        send.send_head(&head.parts, head.end)?;
        if head.end {
            return Ok(());
        }
        let mut pump = Pump::new(first, stall);
        poll_fn(|cx| match self.as_mut().project() {
            AnswerProjection::Answered { body } => pump.poll(cx, body, &mut send),
            _ => Poll::Ready(Err(Error::Closed)),
        })
        .await
    }

    /// Returns the header section of the service's response once it is ready, and keeps its body.
    fn poll_head(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<Head, E>> {
        let AnswerProjection::Called { future, kind } = self.as_mut().project() else { return Poll::Pending };
        let kind = *kind;
        let response = ready!(future.poll(cx))?;
        let (parts, body) = response.into_parts();
        let head = Head::new(parts, kind, &body);
        self.set(Self::Answered { body });
        Poll::Ready(Ok(head))
    }
}

impl Head {
    fn new(mut parts: Parts, kind: Kind, body: &impl Body) -> Self {
        let status = parts.status;
        if kind.is_tunnel(status) {
            return Self { parts, end: false };
        }
        let bodiless = kind.is_bodiless(status);
        let length = body.size_hint().exact();
        let says_length = match kind {
            // For HEAD, Content-Length is added only if the length is above 0. The service may have omitted
            // the content, so a length of 0 says nothing about the content that GET would return.
            _ if bodiless => kind == Kind::Head && length.is_some_and(|length| length > 0),
            _ => length.is_some(),
        };
        if says_length && !parts.headers.contains_key(CONTENT_LENGTH) {
            parts.headers.extend(length.map(|length| (CONTENT_LENGTH, HeaderValue::from(length))));
        }
        Self { parts, end: bodiless || body.is_end_stream() }
    }
}
