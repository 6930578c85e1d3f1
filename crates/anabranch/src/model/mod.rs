//! Model checking of the code that runs in several tasks: unit tests in which `shuttle` chooses the order of tasks at each lock, atomic
//! operation and system call. The code is that of the library. Only its locks and atomics (`sync`), its clock and tasks (`runtime`) and
//! its sockets (`socket`) are replaced.
//!
//! The clock advances only while every task waits. A test therefore also fails if a task waits for a timer where an event should have
//! woken it: it states how much time may pass. Atomics are sequentially consistent here, so a memory ordering that is too weak is not
//! found.

mod check;
mod locks;
mod time;

#[cfg(feature = "self-signed")]
mod tests;

#[cfg(feature = "self-signed")]
pub(crate) use self::check::Task;
pub(crate) use self::check::{check, interleave, spawn, task};
#[cfg(feature = "proxy")]
pub(crate) use self::locks::RwLock;
pub(crate) use self::locks::{Mutex, MutexGuard};
pub(crate) use self::time::{Instant, Sleep, since_epoch, sleep, sleep_until, timeout};
