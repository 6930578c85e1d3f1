//! Locks that outlive the panics of tasks.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks even if a task that held the lock has panicked: the state is only ever left between two whole steps.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
