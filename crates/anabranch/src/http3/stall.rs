//! Detection of clients that read nothing of a response, and the limit on the memory that all such responses
//! hold.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use anabranch_transport::stream::SendProgress;
use tokio::time::{Instant, Sleep};

use super::Limits;

/// Maximum time between two checks of a response that waits.
const MAX_TICK: Duration = Duration::from_secs(5);

/// Minimum time between two checks of a response that waits.
const MIN_TICK: Duration = Duration::from_millis(10);

/// The memory that stalled responses hold, over all connections that share clones of this value; see
/// [`Limits::max_stalled_bytes`].
#[derive(Clone, Debug, Default)]
pub struct StalledResponses(Arc<Mutex<Ledger>>);

#[derive(Debug, Default)]
struct Ledger {
    /// Stalled responses, by the time at which they stalled, and by a number that makes the key unique.
    entries: BTreeMap<(Instant, u64), Entry>,
    next: u64,
    bytes: u64,
}

#[derive(Debug)]
struct Entry {
    bytes: u64,
    evicted: Arc<AtomicBool>,
    waker: Waker,
}

impl StalledResponses {
    /// Returns the number of bytes that stalled responses hold now.
    pub fn bytes(&self) -> u64 {
        self.lock().bytes
    }

    /// Adds a response. While more than `max` bytes are held, evicts the response that has been stalled for
    /// the longest time.
    fn add(&self, since: Instant, entry: Entry, max: u64) -> (Instant, u64) {
        let mut evicted = Vec::new();
        let mut ledger = self.lock();
        let key = (since, ledger.next);
        ledger.next += 1;
        ledger.bytes += entry.bytes;
        ledger.entries.insert(key, entry);
        while ledger.bytes > max
            && let Some((_, oldest)) = ledger.entries.pop_first()
        {
            ledger.bytes -= oldest.bytes;
            oldest.evicted.store(true, Ordering::Release);
            evicted.push(oldest.waker);
        }
        drop(ledger);
        evicted.into_iter().for_each(Waker::wake);
        key
    }

    fn remove(&self, key: (Instant, u64)) {
        let mut ledger = self.lock();
        if let Some(entry) = ledger.entries.remove(&key) {
            ledger.bytes -= entry.bytes;
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Ledger> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Progress of sending: that of the stream, and the number of bytes that the peer has acknowledged over all
/// streams.
pub(super) type Standing = (SendProgress, u64);

/// Check of a response that its client may have stopped reading.
///
/// Time counts only if the client is responsible for the lack of progress. This is so if nothing of the
/// response is in flight and flow control allows no more, or if the client acknowledges nothing on any
/// stream. Checks are made at intervals. An interval with any progress does not count.
#[derive(Debug)]
pub(super) struct Stall {
    timeout: Option<Duration>,
    max_bytes: u64,
    all: StalledResponses,
    timer: Option<Pin<Box<Sleep>>>,
    /// `true` while the response waits for room.
    waiting: bool,
    seen: Option<Standing>,
    /// Time of the last check that found progress, or else of the beginning of the wait.
    since: Instant,
    entry: Option<(Instant, u64)>,
    evicted: Arc<AtomicBool>,
}

impl Stall {
    pub(super) fn new(limits: &Limits, all: &StalledResponses) -> Self {
        Self {
            timeout: (!limits.stall_timeout.is_zero()).then_some(limits.stall_timeout),
            max_bytes: limits.max_stalled_bytes,
            all: all.clone(),
            timer: None,
            waiting: false,
            seen: None,
            since: Instant::now(),
            entry: None,
            evicted: Arc::default(),
        }
    }

    /// Records that more data could be sent.
    pub(super) fn on_progress(&mut self) {
        self.waiting = false;
        self.withdraw();
    }

    /// Returns ready when the response must be reset. The caller polls this while it waits for room.
    /// `standing` returns the progress of sending, or `None` if the stream is closed for writing. `piece` is
    /// the number of further bytes that wait to be sent.
    pub(super) fn poll_exhausted(
        &mut self,
        cx: &mut Context<'_>,
        piece: usize,
        standing: impl Fn() -> Option<Standing>,
    ) -> Poll<()> {
        if self.evicted.load(Ordering::Acquire) {
            return Poll::Ready(());
        }
        let now = Instant::now();
        if !std::mem::replace(&mut self.waiting, true) {
            (self.seen, self.since) = (None, now);
        }
        let tick = self.timeout.map_or(MAX_TICK, |timeout| (timeout / 4).clamp(MIN_TICK, MAX_TICK));
        let mut timer = self.timer.take().unwrap_or_else(|| Box::pin(tokio::time::sleep_until(now + tick)));
        let mut exhausted = false;
        while !exhausted && timer.as_mut().poll(cx).is_ready() {
            let Some(standing) = standing() else { break };
            exhausted = self.look(cx, piece as u64, standing);
            timer.as_mut().reset(Instant::now() + tick);
        }
        self.timer = Some(timer);
        if exhausted { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Checks the progress. Returns whether the client has read nothing for too long.
    fn look(&mut self, cx: &Context<'_>, piece: u64, now: Standing) -> bool {
        let is_stalled = self.seen.replace(now).is_some_and(|before| is_up_to_client(before, now));
        if !is_stalled {
            self.since = Instant::now();
            self.withdraw();
            return false;
        }
        if self.timeout.is_some_and(|timeout| self.since.elapsed() >= timeout) {
            return true;
        }
        if self.entry.is_none() {
            let bytes = piece + now.0.buffered;
            let entry = Entry { bytes, evicted: Arc::clone(&self.evicted), waker: cx.waker().clone() };
            self.entry = Some(self.all.add(self.since, entry, self.max_bytes));
        }
        self.evicted.load(Ordering::Acquire)
    }

    fn withdraw(&mut self) {
        if let Some(key) = self.entry.take() {
            self.all.remove(key);
        }
    }
}

impl Drop for Stall {
    fn drop(&mut self) {
        self.withdraw();
    }
}

/// Returns whether the client was responsible for the lack of progress between two checks.
fn is_up_to_client(before: Standing, now: Standing) -> bool {
    let (stream, delivered) = now;
    let has_all = stream.buffered == 0 && stream.credit == 0;
    before.0 == stream && (has_all || before.1 == delivered)
}

#[cfg(test)]
mod tests;
