//! Command-line options for acknowledgments.

use anabranch_transport::{AckConfig, AckPath, Horizon, RangeOrder};
use clap::Args;
use serde_json::{Value, json};

#[derive(Args)]
pub(crate) struct AckOptions {
    /// Maximum number of ranges in an ACK frame, instead of the default
    #[arg(long, value_name = "RANGES", value_parser = clap::value_parser!(u16).range(2..=1024))]
    ack_ranges: Option<u16>,
    /// Order of the ranges in an ACK frame, instead of the default of the packet numbering
    #[arg(long, value_name = "ORDER")]
    ack_order: Option<RangeOrder>,
    /// Packet numbers that are no longer acknowledged: `none`, those more than this number below the largest
    /// (128), or those that are this old and have been reported this many times (1000ms/4)
    #[arg(long, value_name = "HORIZON")]
    ack_horizon: Option<Horizon>,
    /// Path on which acknowledgments are sent: soonest, same, fastest, all
    #[arg(long, value_name = "PATH")]
    ack_path: Option<AckPath>,
    /// Do not request less frequent acknowledgments as the window grows
    #[arg(long)]
    no_ack_frequency: bool,
}

impl AckOptions {
    /// Returns the default configuration, changed by the options.
    pub(crate) fn config(&self) -> AckConfig {
        let defaults = AckConfig::default();
        let max_ranges = self.ack_ranges.map_or(defaults.max_ranges(), usize::from);
        let horizon = self.ack_horizon.unwrap_or(defaults.horizon());
        let path = self.ack_path.unwrap_or(defaults.path());
        let frequency = defaults.frequency() && !self.no_ack_frequency;
        defaults
            .with_max_ranges(max_ranges)
            .with_order(self.ack_order)
            .with_horizon(horizon)
            .with_path(path)
            .with_frequency(frequency)
    }
}

/// Describes the configuration for the result.
pub(crate) fn described(config: &AckConfig) -> Value {
    json!({
        "threshold": config.threshold(),
        "max_ranges": config.max_ranges(),
        "order": config.order().map_or("by numbering", RangeOrder::name),
        "horizon": config.horizon().to_string(),
        "path": config.path().name(),
        "frequency": config.frequency(),
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: AckOptions,
    }

    #[test]
    fn the_options_reach_the_configuration() {
        let config = Line::parse_from(["bench"]).options.config();
        let before = json!({
            "threshold": 2, "max_ranges": 64, "order": "by numbering", "horizon": "none", "path": "soonest",
            "frequency": true,
        });
        assert_eq!(described(&config), before);
        let line =
            "bench --ack-ranges 5 --ack-order news-first --ack-horizon 128 --ack-path all --no-ack-frequency";
        let config = Line::parse_from(line.split(' ')).options.config();
        let after = json!({
            "threshold": 2, "max_ranges": 5, "order": "news-first", "horizon": "128", "path": "all",
            "frequency": false,
        });
        assert_eq!(described(&config), after);
        let Err(fault) = Line::try_parse_from(["bench", "--ack-order", "x"]) else {
            panic!("`x` is no order")
        };
        assert!(fault.to_string().contains("least-sent-first"));
    }
}
