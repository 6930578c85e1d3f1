//! System allocator with counters of live bytes, by the blocks' sizes, and of allocations.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of classes of blocks. Class `n` has blocks of less than 2^n bytes and at least half as many; the last one has all larger ones.
pub const CLASSES: usize = 28;

static LIVE: [AtomicUsize; CLASSES] = [const { AtomicUsize::new(0) }; CLASSES];
static ASKED: AtomicUsize = AtomicUsize::new(0);

/// Returns the number of bytes that are allocated now.
pub fn live() -> usize {
    live_by_size().iter().fold(0, |sum, bytes| sum.wrapping_add(*bytes))
}

/// Returns the number of bytes that are allocated now in the blocks of each class.
pub fn live_by_size() -> [usize; CLASSES] {
    std::array::from_fn(|class| LIVE[class].load(Ordering::Relaxed))
}

/// Returns the counter for blocks of this size.
fn class(size: usize) -> &'static AtomicUsize {
    &LIVE[((usize::BITS - size.leading_zeros()) as usize).min(CLASSES - 1)]
}

/// Returns the number of allocations so far.
pub fn allocations() -> usize {
    ASKED.load(Ordering::Relaxed)
}

/// Allocator that counts the memory requested by Rust code. The allocator's own overhead and direct `malloc`
/// calls of C code are not counted.
#[derive(Clone, Copy, Debug)]
pub struct Counting;

// SAFETY: every call is forwarded to `System` unchanged, and the counters do not affect the memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ASKED.fetch_add(1, Ordering::Relaxed);
        class(layout.size()).fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps `alloc`'s contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        ASKED.fetch_add(1, Ordering::Relaxed);
        class(layout.size()).fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps `alloc_zeroed`'s contract.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        ASKED.fetch_add(1, Ordering::Relaxed);
        class(new_size).fetch_add(new_size, Ordering::Relaxed);
        class(layout.size()).fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps `realloc`'s contract.
        unsafe { System.realloc(ptr, layout, new_size) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        class(layout.size()).fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps `dealloc`'s contract.
        unsafe { System.dealloc(ptr, layout) }
    }
}

/// Returns the number of bytes that `malloc` has handed out, to C code as well, with what it needs itself; 0 where that is unknown.
pub fn in_all() -> usize {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // SAFETY: the function has no preconditions.
        let info = unsafe { libc::mallinfo2() };
        // Large blocks have mappings of their own.
        info.uordblks + info.hblkhd
    }
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    0
}

/// Heap of one of several owners in the process: the bytes that its own calls allocate, less those they free.
#[derive(Debug, Default)]
pub struct Account {
    rust: isize,
    in_all: isize,
}

impl Account {
    /// Runs `work` and charges its allocations to this account. No other code may allocate meanwhile.
    pub fn charge<R>(&mut self, work: impl FnOnce() -> R) -> R {
        let before = (live(), in_all());
        let result = work();
        self.rust += live().wrapping_sub(before.0).cast_signed();
        self.in_all += in_all().wrapping_sub(before.1).cast_signed();
        result
    }

    /// Returns the number of bytes that are live now, of those that Rust code requested.
    pub fn bytes(&self) -> isize {
        self.rust
    }

    /// Returns the number of bytes that are live now, with those of C code and of the allocator; 0 where that is unknown.
    pub fn bytes_in_all(&self) -> isize {
        self.in_all
    }
}
