//! The system's allocator, counting the bytes that are live and how often memory was asked for.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

static LIVE: AtomicUsize = AtomicUsize::new(0);
static ASKED: AtomicUsize = AtomicUsize::new(0);

/// Returns the number of allocations so far.
pub(crate) fn allocations() -> usize {
    ASKED.load(Ordering::Relaxed)
}

/// Counts what Rust code asks for: not the allocator's own overhead, not what C code takes from `malloc`
/// itself.
pub(crate) struct Counting;

// SAFETY: every call is passed on to `System` unchanged; counting has no influence on the memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ASKED.fetch_add(1, Ordering::Relaxed);
        LIVE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps `alloc`'s contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        ASKED.fetch_add(1, Ordering::Relaxed);
        LIVE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps `alloc_zeroed`'s contract.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        ASKED.fetch_add(1, Ordering::Relaxed);
        LIVE.fetch_add(new_size, Ordering::Relaxed);
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps `realloc`'s contract.
        unsafe { System.realloc(ptr, layout, new_size) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps `dealloc`'s contract.
        unsafe { System.dealloc(ptr, layout) }
    }
}

/// Heap that belongs to one of several owners in the process: what its own calls allocate and free.
#[derive(Default)]
pub(crate) struct Account(isize);

impl Account {
    /// Runs `work` on this account's behalf; nothing else may allocate meanwhile.
    pub(crate) fn charge<R>(&mut self, work: impl FnOnce() -> R) -> R {
        let before = LIVE.load(Ordering::Relaxed);
        let result = work();
        self.0 += LIVE.load(Ordering::Relaxed).wrapping_sub(before).cast_signed();
        result
    }

    /// Returns the number of bytes that are live now.
    pub(crate) fn bytes(&self) -> isize {
        self.0
    }
}
