//! Hosts that run another program: a transport stack as a child process, driven in lock step by the guest
//! protocol (`docs/guest-protocol.md`).
//!
//! The simulation calls a [`Guest`] at every event of its host. [`Process`] is a guest that runs as a child
//! process. [`own`] puts the library's own stack behind the protocol, with the same node that other hosts of
//! the simulation use.

mod locate;
mod node;
pub mod own;
mod pair;
mod process;

use anabranch_guest::{Answer, Step};

pub use locate::{Programs, locate};
pub use node::{GuestNode, MAX_PER_MS};
pub use pair::{GuestPair, hellos};
pub use process::{Limits, Process};

/// A stack that answers steps.
pub trait Guest {
    /// Takes a step and returns its answer.
    ///
    /// # Errors
    /// Fails if there is no answer, or one that the protocol does not allow. The error states the reason in
    /// one line.
    fn step(&mut self, step: &Step<'_>) -> Result<Answer<'_>, String>;
}
