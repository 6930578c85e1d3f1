//! The system's allocator with a counter for each thread, of the bytes allocated and not freed.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
}

/// Returns the number of live bytes that this thread has allocated.
pub(crate) fn live() -> isize {
    LIVE.get()
}

fn count(bytes: isize) {
    // A thread that is ending no longer has a counter.
    let _ = LIVE.try_with(|live| live.set(live.get() + bytes));
}

pub(crate) struct Counting;

// SAFETY: every call is passed on to `System` unchanged; counting has no influence on the memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        // SAFETY: the caller keeps `alloc`'s contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        // SAFETY: the caller keeps `alloc_zeroed`'s contract.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(new_size.cast_signed() - layout.size().cast_signed());
        // SAFETY: the caller keeps `realloc`'s contract.
        unsafe { System.realloc(ptr, layout, new_size) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        count(-layout.size().cast_signed());
        // SAFETY: the caller keeps `dealloc`'s contract.
        unsafe { System.dealloc(ptr, layout) }
    }
}
