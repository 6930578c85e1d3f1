//! Code that all Rust peer programs share: flags, lifetime, sockets, output, and the relay that acts as a
//! NAT.
//!
//! A peer is a child process of a test or a benchmark. It wraps one QUIC stack behind a common contract (see
//! `peers/README.md`), so that a single runner can drive all of them.
#![deny(unsafe_code)]
#![warn(missing_docs)]

pub mod allocator;
pub mod args;
mod case;
pub mod files;
pub mod http3;
pub mod latency;
pub mod life;
pub mod progress;
pub mod relay;
pub mod report;
pub mod socket;

/// Content of performance streams. It stays in the second-level cache, so sending it costs no memory
/// bandwidth with any stack.
pub static PATTERN: [u8; 64 * 1024] = [0x5a; 64 * 1024];

/// Exit status for a case that the stack does not support, as in the interop runner's contract.
pub const UNSUPPORTED: u8 = 127;

/// Reason why a peer fails.
#[derive(Debug)]
pub enum Failure {
    /// The case was run and failed; the reason.
    Failed(String),
    /// The stack does not support the feature.
    Unsupported(String),
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(inner) = source {
            text.push_str(": ");
            text.push_str(&inner.to_string());
            source = inner.source();
        }
        Self::Failed(text)
    }
}

/// Returns a failure with the given reason.
pub fn failed<T>(why: impl Into<String>) -> Result<T, Failure> {
    Err(Failure::Failed(why.into()))
}

/// Converts the result of a peer's main function into its exit status. Prints one line to stderr for a
/// failure.
pub fn exit_code(outcome: Result<(), Failure>) -> std::process::ExitCode {
    match outcome {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(Failure::Failed(why)) => {
            eprintln!("{}", why.replace('\n', " "));
            std::process::ExitCode::FAILURE
        }
        Err(Failure::Unsupported(why)) => {
            eprintln!("unsupported: {why}");
            UNSUPPORTED.into()
        }
    }
}
