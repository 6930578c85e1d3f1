//! Hosts that run another program: a transport stack as a child process, driven in lock step by the guest
//! protocol (`docs/guest-protocol.md`).
//!
//! The simulation knows a guest as a [`Guest`], which is asked at every event of its host. [`Process`] asks a
//! child process. [`own`] is the library's own stack behind the protocol, the same node that runs in process.

mod locate;
mod node;
pub mod own;
mod pair;
mod process;

use anabranch_guest::{Answer, Step};

pub use locate::{Programs, locate};
pub use node::GuestNode;
pub use pair::{GuestPair, hellos};
pub use process::{Limits, Process};

/// A stack that answers steps.
pub trait Guest {
    /// Takes a step and returns its answer.
    ///
    /// # Errors
    /// If there is no answer, or none that the protocol allows; the error says why, in one line.
    fn step(&mut self, step: &Step<'_>) -> Result<Answer<'_>, String>;
}
