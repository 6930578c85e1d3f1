//! Progress of a transfer, and an action in its middle.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::args::Work;

/// Counter of transferred bytes. It performs an action once, when half of the bytes have been transferred (or
/// the first ones, if the total is unknown).
pub struct Progress {
    moved: AtomicU64,
    threshold: u64,
    act: Box<dyn Fn() + Send + Sync>,
}

impl Progress {
    /// Creates a counter for `work` that calls `act` in its middle. The length of a file is unknown, so its
    /// middle is its first byte.
    pub fn new(work: &Work, act: impl Fn() + Send + Sync + 'static) -> Arc<Self> {
        let threshold = match work {
            Work::Perf { download, upload, .. } => ((download + upload) / 2).max(1),
            _ => 1,
        };
        Arc::new(Self { moved: AtomicU64::new(0), threshold, act: Box::new(act) })
    }

    /// Adds `bytes` to the counter.
    pub fn add(&self, bytes: u64) {
        let before = self.moved.fetch_add(bytes, Relaxed);
        if before < self.threshold && before + bytes >= self.threshold {
            (self.act)();
        }
    }

    /// Returns the number of bytes transferred so far.
    pub fn moved(&self) -> u64 {
        self.moved.load(Relaxed)
    }
}

/// Returns the share of `total` for stream `index` of `streams`.
pub fn share(total: u64, index: u64, streams: u64) -> u64 {
    total / streams + u64::from(index < total % streams)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_comes_once() {
        let times = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&times);
        let work = Work::Perf { download: 6, upload: 4, streams: 1 };
        let progress = Progress::new(&work, move || _ = count.fetch_add(1, Relaxed));
        let seen: Vec<u64> = [4, 1, 3, 2]
            .into_iter()
            .map(|bytes| {
                progress.add(bytes);
                times.load(Relaxed)
            })
            .collect();
        assert_eq!((seen, progress.moved()), (vec![0, 1, 1, 1], 10));
    }

    #[test]
    fn shares_add_up() {
        assert_eq!((0..3).map(|index| share(11, index, 3)).collect::<Vec<_>>(), [4, 4, 3]);
    }
}
