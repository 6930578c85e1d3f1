//! Queue of capsules to a client, which bounds their size and age while the client reads slowly.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use anabranch_http3::capsule::CapsuleType;
use anabranch_wire::push_varint;
use bytes::Bytes;
use http_body::Frame;
use tokio::time::Instant;

use super::super::flow::Flow;
use crate::lock::lock;
use crate::sync::Mutex;

/// Maximum total size of the DATAGRAM capsules that wait, in bytes, with [`OVERHEAD`] for each. The oldest ones are dropped to
/// keep it.
pub(super) const MAX_QUEUED: usize = 256 * 1024;
/// Maximum number of other capsules that wait and, below, maximum size of them together, in bytes. They are never dropped.
pub(super) const MAX_CONTROL: usize = 64;
pub(super) const MAX_CONTROL_BYTES: usize = 64 * 1024;
/// Size that is added for each waiting DATAGRAM capsule, in bytes. It bounds the number of capsules with empty datagrams.
const OVERHEAD: usize = 64;
/// Maximum age of a waiting DATAGRAM capsule, unless the terms of the flow have a deadline. Older ones are dropped, because most
/// protocols over UDP have repeated such a datagram by then, or do not need it any more.
pub(super) const MAX_AGE: Duration = Duration::from_millis(500);

/// Queue of the capsules of one flow.
pub(in crate::proxy::server) struct Queue {
    state: Mutex<State>,
    /// Maximum age of a waiting DATAGRAM capsule.
    max_age: Duration,
    counter: Box<dyn Counter>,
}

/// Counter of the datagrams that leave a queue.
pub(super) trait Counter: Send + Sync {
    /// Counts a datagram with a payload of `len` bytes that the reader has taken.
    fn taken(&self, len: usize);
    /// Counts a datagram that is dropped because it is too old, or to make room.
    fn dropped(&self);
}

impl Counter for Arc<Flow> {
    fn taken(&self, len: usize) {
        let _ = self.received(len);
    }

    fn dropped(&self) {
        self.drop_datagram();
    }
}

/// A waiting DATAGRAM capsule.
struct Waiting {
    since: Instant,
    /// Length of the payload, in bytes.
    len: usize,
    capsule: Bytes,
}

/// Capsules of the control of a tunnel for IP packets. UDP flows have none.
#[derive(Default)]
struct Control {
    capsules: VecDeque<Bytes>,
    bytes: usize,
}

#[derive(Default)]
struct State {
    /// Capsules other than DATAGRAM, which are never dropped and are sent first.
    control: Option<Box<Control>>,
    capsules: VecDeque<Waiting>,
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
    fn pop(&mut self) -> Option<Waiting> {
        let oldest = self.capsules.pop_front();
        match &oldest {
            Some(waiting) => self.bytes -= waiting.capsule.len() + OVERHEAD,
            // An idle flow keeps no memory allocated.
            None => self.capsules = VecDeque::new(),
        }
        oldest
    }
}

impl Queue {
    pub(super) fn new(max_age: Duration, counter: impl Counter + 'static) -> Self {
        Self { state: Mutex::default(), max_age, counter: Box::new(counter) }
    }

    /// Creates the queue of a flow, whose counters it increments. `deadline` is that of the flow's terms, if they have one.
    pub(in crate::proxy::server) fn of(flow: &Arc<Flow>, deadline: Option<Duration>) -> Self {
        Self::new(deadline.unwrap_or(MAX_AGE), Arc::clone(flow))
    }

    /// Queues a datagram with a payload of `len` bytes as a capsule.
    pub(in crate::proxy::server) fn push(&self, datagram: &[u8], len: usize) {
        let mut capsule = Vec::with_capacity(datagram.len() + 6);
        push_varint(&mut capsule, CapsuleType::DATAGRAM.0);
        push_varint(&mut capsule, datagram.len() as u64);
        capsule.extend_from_slice(datagram);
        let now = Instant::now();
        let mut state = lock(&self.state);
        state.bytes += capsule.len() + OVERHEAD;
        state.capsules.push_back(Waiting { since: now, len, capsule: capsule.into() });
        while let Some(oldest) = state.capsules.front() {
            if state.bytes <= MAX_QUEUED && now.duration_since(oldest.since) <= self.max_age {
                break;
            }
            state.pop();
            self.counter.dropped();
        }
        let waker = state.waker.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }

    /// Queues an encoded capsule that must not be dropped. Returns `false`, and does not queue it, if [`MAX_CONTROL`] ones wait,
    /// or if they would have more than [`MAX_CONTROL_BYTES`] together.
    pub(in crate::proxy::server) fn push_control(&self, capsule: Vec<u8>) -> bool {
        let mut state = lock(&self.state);
        let control = state.control.get_or_insert_default();
        if control.capsules.len() >= MAX_CONTROL || control.bytes + capsule.len() > MAX_CONTROL_BYTES {
            return false;
        }
        control.bytes += capsule.len();
        control.capsules.push_back(capsule.into());
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

    /// Returns the next capsule that is not too old; `None` at the end.
    pub(in crate::proxy::server) fn poll_pop(&self, cx: &Context<'_>) -> Poll<Option<Bytes>> {
        let mut state = lock(&self.state);
        if let Some(control) = &mut state.control
            && let Some(capsule) = control.capsules.pop_front()
        {
            control.bytes -= capsule.len();
            return Poll::Ready(Some(capsule));
        }
        while let Some(oldest) = state.pop() {
            if oldest.since.elapsed() <= self.max_age {
                self.counter.taken(oldest.len);
                return Poll::Ready(Some(oldest.capsule));
            }
            self.counter.dropped();
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
