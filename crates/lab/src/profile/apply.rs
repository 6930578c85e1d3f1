//! What settings mean to a transport.

use core::time::Duration;

use anabranch_transport::recovery::{InitialWindow, PacingBurst, PacingGain};
use anabranch_transport::{MultipathConfig, Numbering, NumberingChoice, TransportConfig};

use super::Settings;
use crate::design::MAX_PATHS;

/// Puts a value into the place of a default.
fn set<T>(place: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *place = value;
    }
}

/// A number that was read within bounds.
fn narrow<T: TryFrom<u64>>(value: Option<u64>) -> Option<T> {
    value.and_then(|value| T::try_from(value).ok())
}

impl Settings {
    /// The transport of either end.
    pub(super) fn transport(&self) -> TransportConfig {
        let mut config = TransportConfig { multipath: self.multipath_config(), ..TransportConfig::default() };
        set(&mut config.versions, self.wire.map(|wire| vec![wire.version()]));
        set(&mut config.skip_packet_numbers, self.skip_packet_numbers);
        self.set_acks(&mut config);
        self.set_recovery(&mut config);
        self.set_streams(&mut config);
        if let Some(timeout) = self.idle_timeout_ms {
            config.max_idle_timeout = Some(Duration::from_millis(timeout));
        }
        config
    }

    /// Several paths at once, as many as a point may have.
    fn multipath_config(&self) -> Option<MultipathConfig> {
        if self.multipath == Some(false) {
            return None;
        }
        let mut config = MultipathConfig { max_paths: MAX_PATHS as u32, ..MultipathConfig::default() };
        set(&mut config.scheduler, self.scheduler);
        set(&mut config.loss_scan, self.loss_scan);
        set(&mut config.path_signalling, self.path_signalling);
        set(&mut config.numbering, self.numbering.map(NumberingChoice::Only));
        Some(config)
    }

    fn set_acks(&self, config: &mut TransportConfig) {
        let ack = &mut config.ack;
        set(&mut ack.max_ranges, narrow(self.max_ranges));
        ack.order = self.range_order.or(ack.order);
        let single = self.single_horizon.filter(|_| self.numbering == Some(Numbering::Single));
        set(&mut ack.horizon, self.horizon.or(single));
        set(&mut ack.max_tellings, narrow(self.range_tellings));
        set(&mut ack.path, self.ack_path);
        set(&mut ack.scope, self.ack_scope);
        set(&mut ack.mixed_round_trips, self.mixed_round_trips);
        set(&mut ack.frequency_rule, self.ack_frequency_rule);
        set(&mut ack.threshold, self.ack_threshold);
        set(&mut ack.max_delay, self.max_ack_delay_ms.map(Duration::from_millis));
        set(&mut ack.frequency, self.ack_frequency);
    }

    fn set_recovery(&self, config: &mut TransportConfig) {
        let recovery = &mut config.recovery;
        set(&mut recovery.congestion, self.congestion);
        set(&mut recovery.loss_delay, self.loss_delay);
        set(&mut recovery.initial_window, narrow(self.initial_window_packets).map(InitialWindow::Packets));
        set(&mut recovery.initial_window, narrow(self.initial_window_bytes).map(InitialWindow::Bytes));
        set(&mut recovery.pacing, self.pacing);
        if let Some([slow_start, otherwise]) = self.pacing_percent {
            recovery.pacing_gain = PacingGain { slow_start: (slow_start, 100), otherwise: (otherwise, 100) };
        }
        set(&mut recovery.pacing_burst, narrow(self.pacing_burst_packets).map(PacingBurst::Packets));
        set(&mut recovery.ecn, self.ecn);
        let mtu = &mut recovery.mtu;
        set(&mut mtu.initial, narrow(self.mtu_initial));
        set(&mut mtu.maximum, narrow(self.mtu_maximum));
        mtu.discovery = mtu.maximum > mtu.initial;
    }

    fn set_streams(&self, config: &mut TransportConfig) {
        let streams = &mut config.streams;
        set(&mut streams.stream_window, self.stream_window);
        set(&mut streams.stream_window_max, self.stream_window_max);
        set(&mut streams.connection_window, self.connection_window);
        set(&mut streams.connection_window_max, self.connection_window_max);
        set(&mut streams.window_rule, self.window_rule);
    }

    /// Which of `of` paths are used.
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
