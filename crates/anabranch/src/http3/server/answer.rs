//! The answer to one request, from the service's future to the last byte of the body.

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

/// Bytes of a body that is sent together with its head if it is already there.
const SMALL_BODY: u64 = 4 * 1024;

/// Property of a request's method that matters to its answer.
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

    /// Returns whether a response with this status has no content, whatever its body says (RFC 9110 §6.4.1).
    fn is_bodiless(self, status: StatusCode) -> bool {
        self == Self::Head || [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED].contains(&status)
    }

    fn is_tunnel(self, status: StatusCode) -> bool {
        self == Self::Connect && status.is_success()
    }
}

pin_project! {
    /// A service's future, then its response's body. It is made to be used for one request after the other.
    #[project = AnswerProjection]
    pub(super) enum Answer<F, B> {
        Idle,
        Called { #[pin] future: F, kind: Kind },
        Answered { #[pin] body: B },
    }
}

/// Part of an answer that is available at once.
pub(super) enum AtOnce {
    /// All of it is there.
    Whole(Parts, Bytes),
    /// The service failed.
    Failed,
    /// It takes longer; head and first piece of the body may be there.
    Later(Option<Head>, Bytes),
}

/// A response's head, as it will be sent.
pub(super) struct Head {
    pub(super) parts: Parts,
    /// Neither body nor trailers follow.
    end: bool,
}

impl<F, B, E> Answer<F, B>
where
    F: Future<Output = Result<Response<B>, E>>,
    B: Body,
    B::Error: Into<crate::Error>,
{
    /// Takes the service's response as far as it is there, waiting for nothing.
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
                // Trailers before the content that was promised.
                Err(_) => AtOnce::Failed,
            },
            Poll::Ready(Some(Err(_)) | None) => AtOnce::Failed,
            Poll::Pending => AtOnce::Later(Some(head), Bytes::new()),
        }
    }

    /// Sends what is left of the answer. Gives up, and drops the service's future, when the client does.
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

    /// Returns the service's response once it is ready, and keeps its body.
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
            // What a HEAD has no body for, it may not know the length of.
            _ if bodiless => kind == Kind::Head && length.is_some_and(|length| length > 0),
            _ => length.is_some(),
        };
        if says_length && !parts.headers.contains_key(CONTENT_LENGTH) {
            parts.headers.extend(length.map(|length| (CONTENT_LENGTH, HeaderValue::from(length))));
        }
        Self { parts, end: bodiless || body.is_end_stream() }
    }
}
