//! Locks that remain usable after a task has panicked.

use std::sync::PoisonError;

use crate::sync::{Mutex, MutexGuard};

/// Locks `mutex`, even if a task has panicked while it held the lock: a panic never leaves the state
/// inconsistent.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
