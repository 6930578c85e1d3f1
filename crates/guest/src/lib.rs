//! The guest protocol: a transport stack as a child process of the lab, driven in lock step by virtual time.
//!
//! A guest is a program that reads a [`Hello`] and then one [`Step`] after the other from its standard input,
//! and answers each on its standard output. `docs/guest-protocol.md` is the specification. This crate has no
//! dependencies. A guest depends on it and on its transport stack, implements [`Stack`] and calls [`serve`].
//!
//! ```no_run
//! use anabranch_guest::{Hello, Outgoing, Progress, Stack, Step, serve};
//!
//! /// Sends nothing, and has failed from the start.
//! struct Mute;
//!
//! impl Stack for Mute {
//!     fn step(&mut self, _step: &Step<'_>, _out: &mut Outgoing<'_>) -> Progress {
//!         Progress::failed("this stack can do nothing")
//!     }
//! }
//!
//! fn main() -> std::process::ExitCode {
//!     serve("mute 1.0", |_hello: &Hello| Ok(Mute))
//! }
//! ```
#![forbid(unsafe_code)]

mod codec;
mod hello;
mod message;
mod serve;
mod step;

pub use codec::Malformed;
pub use hello::{Hello, Path, Role, Welcome, Workload};
pub use message::{read, write};
pub use serve::{Outgoing, Stack, serve};
pub use step::{Answer, Datagram, Progress, Step};

/// Version of the protocol that this crate speaks.
pub const VERSION: u16 = 1;
/// Maximum number of bytes of a message, without its length.
pub const MAX_MESSAGE: usize = 8 << 20;
/// Maximum number of datagrams of a step or an answer.
pub const MAX_DATAGRAMS: usize = 4096;
/// Maximum number of bytes of a datagram's payload.
pub const MAX_PAYLOAD: usize = 65_507;
/// Maximum number of paths of a [`Hello`].
pub const MAX_PATHS: usize = 8;
/// Maximum number of bytes of a name or a reason.
pub const MAX_TEXT: usize = 1024;
/// Maximum number of bytes of a certificate or a key.
pub const MAX_CREDENTIAL: usize = 16_384;
