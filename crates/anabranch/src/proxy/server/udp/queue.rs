//! Queue of capsules to a client, which bounds their size and age while the client reads slowly.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use anabranch_http3::capsule::CapsuleType;
use anabranch_wire::push_varint;
use bytes::Bytes;
use http_body::Frame;
use tokio::time::Instant;

use super::super::flow::Flow;
use crate::lock::lock;

/// Maximum total size of the DATAGRAM capsules that wait, in bytes, with [`OVERHEAD`] for each. The oldest ones are dropped to
/// keep it.
pub(super) const MAX_QUEUED: usize = 256 * 1024;
/// Maximum number of other capsules that wait. They are never dropped.
pub(super) const MAX_CONTROL: usize = 64;
/// Size that is added for each waiting DATAGRAM capsule, in bytes. It bounds the number of capsules with empty datagrams.
const OVERHEAD: usize = 64;
/// Maximum age of a waiting DATAGRAM capsule. Older ones are dropped, because most protocols over UDP have repeated such a
/// datagram by then, or do not need it any more.
pub(super) const MAX_AGE: Duration = Duration::from_millis(500);

/// Queue of the capsules of one flow.
pub(in crate::proxy::server) struct Queue {
    state: Mutex<State>,
    /// Called for each datagram that is dropped because it is too old, or to make room.
    on_drop: Box<dyn Fn() + Send + Sync>,
}

#[derive(Default)]
struct State {
    /// Capsules other than DATAGRAM, which are never dropped and are sent first.
    control: VecDeque<Bytes>,
    capsules: VecDeque<(Instant, Bytes)>,
    bytes: usize,
    ended: bool,
    /// Waker of the reader.
    waker: Option<Waker>,
    /// `true` once the reader is gone.
    is_abandoned: bool,
    /// Waker of the task that waits for that.
    owner: Option<Waker>,
}

impl State {
    fn pop(&mut self) -> Option<(Instant, Bytes)> {
        let oldest = self.capsules.pop_front();
        match &oldest {
            Some((_, capsule)) => self.bytes -= capsule.len() + OVERHEAD,
            // An idle flow keeps no memory allocated.
            None => self.capsules = VecDeque::new(),
        }
        oldest
    }
}

impl Queue {
    pub(super) fn new(on_drop: impl Fn() + Send + Sync + 'static) -> Self {
        Self { state: Mutex::default(), on_drop: Box::new(on_drop) }
    }

    /// Creates the queue of a flow. Dropped datagrams are added to the flow's counter.
    pub(in crate::proxy::server) fn of(flow: &Arc<Flow>) -> Self {
        let flow = Arc::clone(flow);
        Self::new(move || flow.drop_datagram())
    }

    /// Queues a datagram as a capsule.
    pub(in crate::proxy::server) fn push(&self, datagram: &[u8]) {
        let mut capsule = Vec::with_capacity(datagram.len() + 6);
        push_varint(&mut capsule, CapsuleType::DATAGRAM.0);
        push_varint(&mut capsule, datagram.len() as u64);
        capsule.extend_from_slice(datagram);
        let now = Instant::now();
        let mut state = lock(&self.state);
        state.bytes += capsule.len() + OVERHEAD;
        state.capsules.push_back((now, capsule.into()));
        while let Some((since, _)) = state.capsules.front() {
            if state.bytes <= MAX_QUEUED && now.duration_since(*since) <= MAX_AGE {
                break;
            }
            state.pop();
            (self.on_drop)();
        }
        let waker = state.waker.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }

    /// Queues an encoded capsule that must not be dropped. Returns `false`, and does not queue it, if [`MAX_CONTROL`] ones wait.
    pub(in crate::proxy::server) fn push_control(&self, capsule: Vec<u8>) -> bool {
        let mut state = lock(&self.state);
        if state.control.len() >= MAX_CONTROL {
            return false;
        }
        state.control.push_back(capsule.into());
        let waker = state.waker.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
        true
    }

    /// Ends the queue. Its reader receives the waiting capsules, and then the end.
    pub(in crate::proxy::server) fn end(&self) {
        let mut state = lock(&self.state);
        state.ended = true;
        let waker = state.waker.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }

    /// Returns ready when the reader is gone. One task may wait for that.
    pub(in crate::proxy::server) fn poll_abandoned(&self, cx: &Context<'_>) -> Poll<()> {
        let mut state = lock(&self.state);
        if state.is_abandoned {
            return Poll::Ready(());
        }
        if !state.owner.as_ref().is_some_and(|owner| owner.will_wake(cx.waker())) {
            state.owner = Some(cx.waker().clone());
        }
        Poll::Pending
    }

    fn abandon(&self) {
        let mut state = lock(&self.state);
        state.is_abandoned = true;
        let owner = state.owner.take();
        drop(state);
        owner.into_iter().for_each(Waker::wake);
    }

    /// Returns the next capsule that is not older than [`MAX_AGE`]; `None` at the end.
    pub(in crate::proxy::server) fn poll_pop(&self, cx: &Context<'_>) -> Poll<Option<Bytes>> {
        let mut state = lock(&self.state);
        if let Some(capsule) = state.control.pop_front() {
            return Poll::Ready(Some(capsule));
        }
        while let Some((since, capsule)) = state.pop() {
            if since.elapsed() <= MAX_AGE {
                return Poll::Ready(Some(capsule));
            }
            (self.on_drop)();
        }
        if state.ended {
            return Poll::Ready(None);
        }
        state.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        lock(&self.state).bytes
    }
}

/// Body of a response that consists of a flow's capsules. Dropping it before its end means that the client has aborted the
/// tunnel.
pub(in crate::proxy::server) struct Capsules {
    queue: Arc<Queue>,
}

impl Capsules {
    pub(in crate::proxy::server) fn new(queue: Arc<Queue>) -> Self {
        Self { queue }
    }
}

impl http_body::Body for Capsules {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.queue.poll_pop(cx).map(|capsule| capsule.map(|capsule| Ok(Frame::data(capsule))))
    }
}

impl Drop for Capsules {
    fn drop(&mut self) {
        self.queue.abandon();
    }
}
