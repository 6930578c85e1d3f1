//! A request's body that can be sent again if it is short.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http_body::{Body, Frame, SizeHint};

/// Maximum number of bytes of a body that are kept, without a copy, in case the request must be sent again.
const MAX_KEPT: usize = 64 * 1024;

/// A body that keeps its beginning.
pub(super) struct Upload<B> {
    body: Pin<Box<B>>,
    /// Pieces of the body so far; `None` once they are too long to keep.
    kept: Option<Vec<Bytes>>,
    kept_bytes: usize,
    /// Number of the kept pieces that have been passed on: all of them, unless the body was rewound.
    given: usize,
    /// `true` once the body has ended; it must not be polled again.
    has_ended: bool,
}

impl<B: Body> Upload<B> {
    pub(super) fn new(body: B) -> Self {
        Self { body: Box::pin(body), kept: Some(Vec::new()), kept_bytes: 0, given: 0, has_ended: false }
    }

    /// Continues from the start of the body. Returns `false` if the start is no longer available.
    pub(super) fn rewind(&mut self) -> bool {
        self.given = 0;
        self.kept.is_some()
    }

    fn keep(&mut self, piece: &Bytes) {
        self.kept_bytes = self.kept_bytes.saturating_add(piece.len());
        if self.kept_bytes > MAX_KEPT {
            self.kept = None;
        }
        if let Some(kept) = &mut self.kept {
            kept.push(piece.clone());
            self.given = kept.len();
        }
    }

    fn next_kept(&mut self) -> Option<Bytes> {
        let piece = self.kept.as_ref()?.get(self.given)?.clone();
        self.given += 1;
        Some(piece)
    }
}

impl<B: Body> Body for Upload<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        if let Some(piece) = self.next_kept() {
            return Poll::Ready(Some(Ok(Frame::data(piece))));
        }
        if self.has_ended {
            return Poll::Ready(None);
        }
        let frame = match ready!(self.body.as_mut().poll_frame(cx)) {
            Some(Ok(frame)) => frame.map_data(|mut data| data.copy_to_bytes(data.remaining())),
            None => {
                self.has_ended = true;
                return Poll::Ready(None);
            }
            Some(Err(error)) => {
                self.kept = None;
                return Poll::Ready(Some(Err(error)));
            }
        };
        match frame.data_ref() {
            Some(piece) => self.keep(&piece.clone()),
            // Trailers are not kept.
            None => self.kept = None,
        }
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.kept.as_ref().is_none_or(|kept| self.given == kept.len())
            && (self.has_ended || self.body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        let kept = self.kept.iter().flatten().skip(self.given).map(|piece| piece.len() as u64).sum::<u64>();
        let rest = self.body.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower() + kept);
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper + kept);
        }
        hint
    }
}

/// A body that is available as a whole.
#[derive(Debug)]
pub(super) struct Whole(Option<Bytes>);

impl Whole {
    pub(super) fn new(bytes: Bytes) -> Self {
        Self(Some(bytes).filter(|bytes| !bytes.is_empty()))
    }
}

impl Body for Whole {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.as_ref().map_or(0, Bytes::len) as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    /// Body that panics if it is polled after its end.
    struct Pieces(Option<Vec<Bytes>>);

    impl Body for Pieces {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            let piece = self.0.as_mut().expect("asked again after the end").pop();
            if piece.is_none() {
                self.0 = None;
            }
            Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
        }
    }

    async fn next<B: Body>(upload: &mut Upload<B>) -> Option<Bytes> {
        let frame = poll_fn(|cx| Pin::new(&mut *upload).poll_frame(cx)).await?;
        frame.ok()?.into_data().ok()
    }

    #[tokio::test]
    async fn a_short_body_can_be_sent_again_from_anywhere() {
        let mut upload = Upload::new(Pieces(Some(vec!["c".into(), "b".into(), "a".into()])));
        assert_eq!(next(&mut upload).await.unwrap(), "a");
        assert!(upload.rewind());
        for piece in ["a", "b", "c"] {
            assert_eq!(next(&mut upload).await.unwrap(), piece);
        }
        assert_eq!(next(&mut upload).await, None);
        assert!(upload.rewind());
        assert_eq!(upload.size_hint().lower(), 3);
        for piece in ["a", "b", "c"] {
            assert_eq!(next(&mut upload).await.unwrap(), piece);
        }
        assert_eq!(next(&mut upload).await, None);
    }

    #[tokio::test]
    async fn more_than_max_kept_is_not_kept() {
        let half = Bytes::from(vec![0; MAX_KEPT / 2]);
        let mut upload = Upload::new(Pieces(Some(vec!["a".into(), half.clone(), half])));
        next(&mut upload).await.unwrap();
        next(&mut upload).await.unwrap();
        assert!(upload.rewind());
        next(&mut upload).await.unwrap();
        next(&mut upload).await.unwrap();
        next(&mut upload).await.unwrap();
        assert!(!upload.rewind());
    }
}
