//! The clock that quiche reads: virtual time in place of the system's.
//!
//! quiche takes no time from its caller but asks `Instant::now`. On Unix, that is a call of `clock_gettime`,
//! and one that this program defines itself comes before the C library's.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Nanoseconds that the monotonic clock shows at the beginning of virtual time: quiche subtracts from instants.
const ORIGIN: u64 = 1_000_000_000_000;

static NOW: AtomicU64 = AtomicU64::new(ORIGIN);

/// Sets the monotonic clock to `now` nanoseconds of virtual time, and returns what `Instant::now` gives then.
pub fn set(now: u64) -> Instant {
    NOW.store(ORIGIN + now, Ordering::Relaxed);
    Instant::now()
}

/// Returns the virtual time of `at`, given that of `now`.
pub fn nanos(at: Instant, now: (Instant, u64)) -> u64 {
    now.1 + at.saturating_duration_since(now.0).as_nanos() as u64
}

/// Returns whether `Instant::now` follows [`set`].
pub fn works() -> bool {
    set(1_000_000) - set(0) == Duration::from_millis(1)
}

/// Shows virtual time on the monotonic clocks and the system's on all others.
///
/// # Safety
/// As the C library's function: `to` must be valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(clock: libc::clockid_t, to: *mut libc::timespec) -> libc::c_int {
    let monotonic = [libc::CLOCK_MONOTONIC, libc::CLOCK_MONOTONIC_RAW, libc::CLOCK_MONOTONIC_COARSE];
    if !monotonic.contains(&clock) {
        // SAFETY: the arguments are the caller's.
        return unsafe { libc::syscall(libc::SYS_clock_gettime, clock, to) as libc::c_int };
    }
    let now = NOW.load(Ordering::Relaxed);
    let time = libc::timespec { tv_sec: (now / 1_000_000_000) as _, tv_nsec: (now % 1_000_000_000) as _ };
    // SAFETY: the caller gives a place for the result.
    unsafe { to.write(time) };
    0
}
