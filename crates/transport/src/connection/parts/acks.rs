//! Acknowledgments of 1-RTT packets: when they are due, and how many there were.

use crate::config::AckConfig;
use crate::path::AckStats;
use crate::space::AckPolicy;

/// Policy of acknowledging, and its counters.
#[derive(Debug)]
pub(crate) struct Acks {
    pub(crate) policy: AckPolicy,
    pub(crate) stats: AckStats,
}

impl Acks {
    /// Creates the policy that `config` asks for.
    pub(crate) fn new(config: &AckConfig) -> Self {
        let policy =
            AckPolicy { threshold: config.threshold, max_delay: config.max_delay, reordering_threshold: 1 };
        Self { policy, stats: AckStats::default() }
    }
}
