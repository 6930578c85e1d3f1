//! Response to one request, from the service's future to the last byte of the body.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http::header::CONTENT_LENGTH;
use http::response::Parts;
use http::{HeaderValue, Method, Response, StatusCode};
use http_body::Body;
use pin_project_lite::pin_project;

use super::super::pump::Pump;
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
    /// The response takes longer. Its beginning may be available.
    Later(Option<Box<Begun>>),
}

/// Header section of a response, and the first piece of its body. It is boxed, because a response may take hours after it was sent.
pub(super) struct Begun {
    pub(super) head: Head,
    pub(super) first: Bytes,
}

/// Header section of a response, as it will be sent.
pub(super) struct Head {
    pub(super) parts: Parts,
    /// `true` if neither body nor trailers follow.
    pub(super) end: bool,
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
            Poll::Pending => return AtOnce::Later(None),
        };
        if head.end {
            return AtOnce::Whole(head.parts, Bytes::new());
        }
        let AnswerProjection::Answered { mut body } = self.project() else { return AtOnce::Failed };
        let length = body.size_hint().exact().filter(|length| (1..=SMALL_BODY).contains(length));
        let later = |head, first| AtOnce::Later(Some(Box::new(Begun { head, first })));
        let Some(length) = length else { return later(head, Bytes::new()) };
        match body.as_mut().poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                Ok(mut data) => {
                    let data = data.copy_to_bytes(data.remaining());
                    if data.len() as u64 == length && body.is_end_stream() {
                        AtOnce::Whole(head.parts, data)
                    } else {
                        later(head, data)
                    }
                }
                // The body returned trailers instead of the content whose length it announced.
                Err(_) => AtOnce::Failed,
            },
            Poll::Ready(Some(Err(_)) | None) => AtOnce::Failed,
            Poll::Pending => later(head, Bytes::new()),
        }
    }

    /// Returns the header section of the service's response once it is ready, and keeps its body.
    pub(super) fn poll_head(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<Head, E>> {
        let AnswerProjection::Called { future, kind } = self.as_mut().project() else { return Poll::Pending };
        let kind = *kind;
        let response = ready!(future.poll(cx))?;
        let (parts, body) = response.into_parts();
        let head = Head::new(parts, kind, &body);
        self.set(Self::Answered { body });
        Poll::Ready(Ok(head))
    }

    /// Sends the body, whose header section has been sent, with `pump`.
    pub(super) fn poll_body(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pump: &mut Pump,
        send: &mut SendHalf,
    ) -> Poll<Result<(), Error>> {
        match self.project() {
            AnswerProjection::Answered { body } => pump.poll(cx, body, send),
            _ => Poll::Ready(Err(Error::Closed)),
        }
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
