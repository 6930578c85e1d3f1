//! `--retry`: when clients have to prove their address before the handshake.

use anabranch::RetryPolicy;
use clap::ValueEnum;

/// Clients that get a Retry (RFC 9000 §8.1.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Retry {
    /// Every client without a valid token
    Always,
    /// Clients without a valid token, while more than 512 handshakes are not complete
    #[default]
    Auto,
}

impl Retry {
    pub(super) fn policy(self) -> RetryPolicy {
        match self {
            Self::Always => RetryPolicy::Always,
            Self::Auto => RetryPolicy::UnderLoad,
        }
    }
}
