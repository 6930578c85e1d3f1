//! State that both halves of a request share.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use anabranch_http3::Code;
use anabranch_wire::StreamId;

use super::Error;
use super::error::write_error;
use super::state::Access;
use crate::connection_inner::ConnectionRef;

/// A request and its response. When both halves are dropped, the session removes its state of the request.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) connection: ConnectionRef,
    pub(super) id: StreamId,
    /// `true` once this endpoint has begun its response. From then on both sides may wait for each other, so
    /// no minimum rate applies.
    conversing: AtomicBool,
}

impl Exchange {
    pub(super) fn new(connection: ConnectionRef, id: StreamId) -> Self {
        Self { connection, id, conversing: AtomicBool::new(false) }
    }

    /// Calls `read` with the session. `read` must not cause anything to be sent.
    pub(super) fn with_session<R>(&self, read: impl FnOnce(&mut Access<'_>, StreamId) -> R) -> R {
        self.connection.http3(|access| (read(access, self.id), false))
    }

    /// Changes the session, and notifies the driver, which sends the resulting packets.
    pub(super) fn update<R>(&self, change: impl FnOnce(&mut Access<'_>, StreamId) -> R) -> R {
        self.connection.change_http3(|access| change(access, self.id))
    }

    /// Attempts an operation that may have to wait. `attempt` returns `Ok` when the operation is complete,
    /// `Err(Some)` on an error, and `Err(None)` if it must wait. `wait` then registers the task, and returns
    /// whether a frame may have to be sent, for instance to report that a stream is blocked.
    pub(super) fn poll<R>(
        &self,
        attempt: impl FnOnce(&mut Access<'_>, StreamId) -> Result<R, Option<Error>>,
        wait: impl FnOnce(&mut Access<'_>, StreamId) -> bool,
    ) -> Poll<Result<R, Error>> {
        self.connection.http3(|access| match attempt(access, self.id) {
            Ok(result) => (Poll::Ready(Ok(result)), true),
            Err(Some(Error::Closed)) => (Poll::Ready(Err(access.ended().unwrap_or(Error::Closed))), true),
            Err(Some(error)) => (Poll::Ready(Err(error)), true),
            Err(None) => match access.ended() {
                Some(error) => (Poll::Ready(Err(error)), false),
                None => (Poll::Pending, wait(access, self.id)),
            },
        })
    }

    /// Stops and resets the stream with `code`.
    pub(super) fn abort(&self, code: Code) {
        let waiting = self.update(|access, id| {
            access.session.stop(access.core.streams(), id, code);
            access.session.reset(access.core.streams(), id, code);
            access.tasks.forget(id)
        });
        waiting.for_each(Waker::wake);
    }

    /// Returns ready with the reason once nothing more can be sent, for instance because the peer has stopped
    /// the stream or the connection has ended.
    pub(super) fn poll_refused(&self, cx: &Context<'_>) -> Poll<Error> {
        let poll = self.poll(
            |access, id| Err::<Infallible, _>(access.session.write_end(id).and_then(write_error)),
            |access, id| {
                access.tasks.wait_to_write(id, cx);
                false
            },
        );
        poll.map(|result| match result {
            Ok(never) => match never {},
            Err(error) => error,
        })
    }

    pub(super) fn set_conversing(&self) {
        self.conversing.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_conversing(&self) -> bool {
        self.conversing.load(Ordering::Relaxed)
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        // No task waits any longer. The remaining wakers are dropped after the lock is released.
        let _waiting = self.update(|access, id| {
            access.session.release(access.core.streams(), id);
            access.tasks.forget(id)
        });
    }
}
