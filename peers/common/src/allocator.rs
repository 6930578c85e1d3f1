//! Allocator of all Rust peers: the system's or mimalloc, as the environment variable `PEER_ALLOCATOR` says.
//!
//! The choice is made when the process starts, so that one build of each peer serves the tables of both
//! allocators: the code of a stack is the same in both. It costs one relaxed load and a branch for each call.
//! Memory of C code inside a stack comes from `malloc` in both.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::CStr;
use std::sync::atomic::{AtomicU8, Ordering};

use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: Chosen = Chosen;

/// Name of the variable, and the value that selects mimalloc. Any other value selects the system's allocator.
const VARIABLE: &CStr = c"PEER_ALLOCATOR";
const MIMALLOC_NAME: &str = "mimalloc";
const SYSTEM_NAME: &str = "system";

const UNDECIDED: u8 = 0;
const SYSTEM: u8 = 1;
const MIMALLOC: u8 = 2;

static CHOICE: AtomicU8 = AtomicU8::new(UNDECIDED);

/// Returns the name of the allocator of this process.
pub fn name() -> &'static str {
    if is_mimalloc() { MIMALLOC_NAME } else { SYSTEM_NAME }
}

/// Allocator that forwards every call to the chosen one.
struct Chosen;

#[inline]
fn is_mimalloc() -> bool {
    match CHOICE.load(Ordering::Relaxed) {
        UNDECIDED => choose(),
        choice => choice == MIMALLOC,
    }
}

/// Chooses at the first allocation, which the runtime makes before `main` and before any thread.
#[cold]
fn choose() -> bool {
    // SAFETY: the name ends with a zero byte. No other thread runs yet that could change the environment.
    let value = unsafe { libc::getenv(VARIABLE.as_ptr()) };
    // SAFETY: a value that is present ends with a zero byte, and lives until the environment is changed.
    let mimalloc =
        !value.is_null() && unsafe { CStr::from_ptr(value) }.to_bytes() == MIMALLOC_NAME.as_bytes();
    CHOICE.store(if mimalloc { MIMALLOC } else { SYSTEM }, Ordering::Relaxed);
    mimalloc
}

// SAFETY: every call is forwarded unchanged, and the choice never changes once memory has been allocated, so
// that memory is returned to the allocator from which it came.
unsafe impl GlobalAlloc for Chosen {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps `alloc`'s contract.
        unsafe { if is_mimalloc() { MiMalloc.alloc(layout) } else { System.alloc(layout) } }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps `alloc_zeroed`'s contract.
        unsafe { if is_mimalloc() { MiMalloc.alloc_zeroed(layout) } else { System.alloc_zeroed(layout) } }
    }

    #[inline]
    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller keeps `realloc`'s contract.
        unsafe {
            if is_mimalloc() {
                MiMalloc.realloc(ptr, layout, new_size)
            } else {
                System.realloc(ptr, layout, new_size)
            }
        }
    }

    #[inline]
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps `dealloc`'s contract.
        unsafe { if is_mimalloc() { MiMalloc.dealloc(ptr, layout) } else { System.dealloc(ptr, layout) } }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Runs this test again in a process with each value of the variable, where it says the allocator and
    /// whether mimalloc knows a block of the heap.
    #[test]
    fn the_environment_chooses() {
        if std::env::var_os("PEER_ALLOCATOR_CHILD").is_some() {
            let block = Box::new([0_u8; 100]);
            // SAFETY: the call reads tables of mimalloc alone, whatever the address is.
            let own = unsafe { libmimalloc_sys::mi_is_in_heap_region((&raw const *block).cast()) };
            println!("\n{} {own}", name());
            return;
        }
        for (value, wanted) in
            [(None, "system false"), (Some("system"), "system false"), (Some("mimalloc"), "mimalloc true")]
        {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.args(["--exact", "allocator::tests::the_environment_chooses", "--nocapture"]);
            command.env("PEER_ALLOCATOR_CHILD", "1").env_remove("PEER_ALLOCATOR");
            command.envs(value.map(|value| ("PEER_ALLOCATOR", value)));
            let output = String::from_utf8(command.output().unwrap().stdout).unwrap();
            assert!(output.lines().any(|line| line == wanted), "{value:?}: {output}");
        }
    }
}
