//! Body of a response to a request for a tunnel, or of another service's response.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use pin_project_lite::pin_project;

use super::tcp::Download;
use super::udp::Capsules;

pin_project! {
    /// Body of a response: the bytes of a TCP target, the capsules of a UDP flow, or the body of another
    /// service's response.
    #[project = TunnelBodyProjection]
    pub struct TunnelBody<B> {
        #[pin]
        kind: Kind<B>,
    }
}

pin_project! {
    #[project = KindProjection]
    enum Kind<B> {
        Inner { #[pin] body: B },
        Tcp { #[pin] body: Download },
        Udp { #[pin] body: Capsules },
        Empty,
    }
}

impl<B> TunnelBody<B> {
    pub(super) fn inner(body: B) -> Self {
        Self { kind: Kind::Inner { body } }
    }

    pub(super) fn empty() -> Self {
        Self { kind: Kind::Empty }
    }

    pub(super) fn tcp(body: Download) -> Self {
        Self { kind: Kind::Tcp { body } }
    }

    pub(super) fn udp(body: Capsules) -> Self {
        Self { kind: Kind::Udp { body } }
    }
}

impl<B: http_body::Body<Data = Bytes>> http_body::Body for TunnelBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let frame = match self.project().kind.project() {
            KindProjection::Inner { body } => return body.poll_frame(cx),
            KindProjection::Tcp { body } => ready!(body.poll_frame(cx)),
            KindProjection::Udp { body } => ready!(body.poll_frame(cx)),
            KindProjection::Empty => None,
        };
        Poll::Ready(frame.map(|frame| frame.map_err(|never| match never {})))
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Inner { body } => body.is_end_stream(),
            Kind::Empty => true,
            Kind::Tcp { .. } | Kind::Udp { .. } => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Inner { body } => body.size_hint(),
            Kind::Empty => SizeHint::with_exact(0),
            Kind::Tcp { .. } | Kind::Udp { .. } => SizeHint::default(),
        }
    }
}
