//! Conversion of settings into a transport configuration.

use core::time::Duration;

use anabranch_transport::recovery::{Config, InitialWindow, MtuConfig, PacingBurst, PacingGain};
use anabranch_transport::stream::StreamsConfig;
use anabranch_transport::{AckConfig, MultipathConfig, Numbering, TransportConfig};

use super::Settings;
use crate::design::MAX_PATHS;

/// Returns the configuration, with `value` set if it is present.
fn with<C, T>(config: C, value: Option<T>, set: impl FnOnce(C, T) -> C) -> C {
    match value {
        Some(value) => set(config, value),
        None => config,
    }
}

/// Converts a number that was checked against its bounds when it was read.
fn narrow<T: TryFrom<u64>>(value: Option<u64>) -> Option<T> {
    value.and_then(|value| T::try_from(value).ok())
}

impl Settings {
    /// Returns the transport configuration, which is the same for both ends.
    pub(super) fn transport(&self) -> TransportConfig {
        use TransportConfig as Transport;
        let config = Transport::default()
            .with_multipath(self.multipath_config())
            .with_ack(self.acks())
            .with_recovery(self.recovery())
            .with_streams(self.streams());
        let config = with(config, self.wire, |config, wire| config.with_versions([wire.version()]));
        let config = with(config, self.skip_packet_numbers, Transport::with_skip_packet_numbers);
        let idle = self.idle_timeout_ms.map(Duration::from_millis);
        with(config, idle, |config, idle| config.with_max_idle_timeout(idle))
    }

    /// Returns the multipath configuration. It allows as many paths as a point may have.
    fn multipath_config(&self) -> Option<MultipathConfig> {
        if self.multipath == Some(false) {
            return None;
        }
        let config = MultipathConfig::default().with_max_paths(MAX_PATHS as u32);
        let config = with(config, self.scheduler, MultipathConfig::with_scheduler);
        let config = with(config, self.loss_scan, MultipathConfig::with_loss_scan);
        let config = with(config, self.path_signalling, MultipathConfig::with_path_signalling);
        Some(with(config, self.numbering, |config, numbering| config.with_numbering(numbering)))
    }

    fn acks(&self) -> AckConfig {
        let single = self.single_horizon.filter(|_| self.numbering == Some(Numbering::Single));
        let ack = with(AckConfig::default(), narrow(self.max_ranges), AckConfig::with_max_ranges);
        let ack = with(ack, self.range_order, |ack, order| ack.with_order(order));
        let ack = with(ack, self.horizon.or(single), AckConfig::with_horizon);
        let ack = with(ack, narrow(self.range_repeats), AckConfig::with_max_repeats);
        let ack = with(ack, self.ack_path, AckConfig::with_path);
        let ack = with(ack, self.ack_scope, AckConfig::with_scope);
        let ack = with(ack, self.mixed_round_trips, AckConfig::with_mixed_round_trips);
        let ack = with(ack, self.ack_frequency_rule, AckConfig::with_frequency_rule);
        let ack = with(ack, self.ack_timing, AckConfig::with_timing);
        let ack = with(ack, self.ack_threshold, AckConfig::with_threshold);
        let ack = with(ack, self.max_ack_delay_ms.map(Duration::from_millis), AckConfig::with_max_delay);
        with(ack, self.ack_frequency, AckConfig::with_frequency)
    }

    fn recovery(&self) -> Config {
        let packets = narrow(self.initial_window_packets).map(InitialWindow::Packets);
        let bytes = narrow(self.initial_window_bytes).map(InitialWindow::Bytes);
        let gain = self.pacing_percent.map(|[slow_start, otherwise]| PacingGain {
            slow_start: (slow_start, 100),
            otherwise: (otherwise, 100),
        });
        let burst = narrow(self.pacing_burst_packets).map(PacingBurst::Packets);
        let config = Config::default().with_mtu(self.mtu());
        let config = with(config, self.congestion, Config::with_congestion);
        let config = with(config, self.loss_delay, Config::with_loss_delay);
        let config = with(config, bytes.or(packets), Config::with_initial_window);
        let config = with(config, self.pacing, Config::with_pacing);
        let config = with(config, gain, Config::with_pacing_gain);
        let config = with(config, burst, Config::with_pacing_burst);
        with(config, self.ecn, Config::with_ecn)
    }

    fn mtu(&self) -> MtuConfig {
        let mtu = with(MtuConfig::default(), narrow(self.mtu_initial), MtuConfig::with_initial);
        let mtu = with(mtu, narrow(self.mtu_maximum), MtuConfig::with_maximum);
        let discovery = mtu.maximum() > mtu.initial();
        mtu.with_discovery(discovery)
    }

    fn streams(&self) -> StreamsConfig {
        let streams = with(StreamsConfig::default(), self.stream_window, StreamsConfig::with_stream_window);
        let streams = with(streams, self.stream_window_max, StreamsConfig::with_stream_window_max);
        let streams = with(streams, self.connection_window, StreamsConfig::with_connection_window);
        let streams = with(streams, self.connection_window_max, StreamsConfig::with_connection_window_max);
        with(streams, self.window_rule, StreamsConfig::with_window_rule)
    }

    /// Returns the indices of the paths in use, out of `of` paths.
    pub(super) fn chosen_paths(&self, of: usize) -> Vec<usize> {
        let all: Vec<usize> = (0..of).collect();
        let mut paths = self.paths.clone().unwrap_or(all);
        paths.retain(|path| *path < of);
        if self.multipath == Some(false) {
            paths.truncate(1);
        }
        paths
    }
}
