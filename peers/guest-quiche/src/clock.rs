//! Clock that quiche reads. It shows virtual time instead of the system's time.
//!
//! quiche does not accept the time from its caller; it calls `Instant::now`. On Unix, `Instant::now` calls
//! `clock_gettime`. This program defines a function of that name, which takes precedence over the C
//! library's.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Value of the monotonic clock at the beginning of virtual time, in nanoseconds. It is not zero, because
/// quiche subtracts durations from instants.
const ORIGIN: u64 = 1_000_000_000_000;

static NOW: AtomicU64 = AtomicU64::new(ORIGIN);

/// Sets the monotonic clock to `now` nanoseconds of virtual time, and returns the corresponding `Instant`.
pub fn set(now: u64) -> Instant {
    NOW.store(ORIGIN + now, Ordering::Relaxed);
    Instant::now()
}

/// Returns the virtual time of `at` in nanoseconds. `now` is an instant with its virtual time in nanoseconds.
pub fn nanos(at: Instant, now: (Instant, u64)) -> u64 {
    now.1 + at.saturating_duration_since(now.0).as_nanos() as u64
}

/// Returns whether `Instant::now` returns the time that [`set`] has set.
pub fn works() -> bool {
    set(1_000_000) - set(0) == Duration::from_millis(1)
}

/// Returns virtual time for the monotonic clocks, and the system's time for all others.
///
/// # Safety
/// As for the C library's function, `to` must be valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(clock: libc::clockid_t, to: *mut libc::timespec) -> libc::c_int {
    let monotonic = [libc::CLOCK_MONOTONIC, libc::CLOCK_MONOTONIC_RAW, libc::CLOCK_MONOTONIC_COARSE];
    if !monotonic.contains(&clock) {
        // SAFETY: the arguments are passed on unchanged, so the caller's guarantee for `to` applies.
        return unsafe { libc::syscall(libc::SYS_clock_gettime, clock, to) as libc::c_int };
    }
    let now = NOW.load(Ordering::Relaxed);
    let time = libc::timespec { tv_sec: (now / 1_000_000_000) as _, tv_nsec: (now % 1_000_000_000) as _ };
    // SAFETY: the caller guarantees that `to` is valid for a write.
    unsafe { to.write(time) };
    0
}
