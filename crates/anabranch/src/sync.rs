//! Locks and atomics of state that several tasks share: the standard library's. The unit tests under the model checker replace them
//! with those that it controls.

#[cfg(not(all(test, feature = "model")))]
pub(crate) use std::sync::{Mutex, MutexGuard};

#[cfg(all(test, feature = "model"))]
pub(crate) use crate::model::{Mutex, MutexGuard};

#[cfg(all(feature = "proxy", not(all(test, feature = "model"))))]
pub(crate) use std::sync::RwLock;

#[cfg(all(feature = "proxy", test, feature = "model"))]
pub(crate) use crate::model::RwLock;

/// Atomics.
pub(crate) mod atomic {
    #[cfg(not(all(test, feature = "model")))]
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    #[cfg(all(test, feature = "model"))]
    pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
}
