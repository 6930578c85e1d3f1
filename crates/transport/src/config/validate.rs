//! Checks for settings that contradict the protocol or each other. They run before a connection or an
//! endpoint is created.

use std::time::Duration;

use anabranch_wire::{InvalidSetting, MAX_CID_LEN, MAX_STREAM_COUNT, MAX_VARINT};

use super::{
    AckConfig, ClientConfig, EndpointConfig, MAX_PATHS, MultipathConfig, ServerConfig, TransportConfig,
};
use crate::path::MAX_ALTERNATIVES;
use crate::stream::StreamsConfig;

/// Maximum number of further secrets of tokens. Each costs work for every token that a stranger sends.
pub(super) const MAX_EARLIER_TOKEN_KEYS: usize = 7;
/// Exclusive upper bound of `max_ack_delay` (RFC 9000 §18.2).
const ACK_DELAY_LIMIT: Duration = Duration::from_millis(1 << 14);

impl TransportConfig {
    /// Checks that a connection can be created with these settings. Connecting runs the same check.
    ///
    /// # Errors
    /// Fails if a setting contradicts the protocol. The error names the first such setting.
    pub fn validate(&self) -> Result<(), InvalidSetting> {
        let unless = InvalidSetting::unless;
        let cids = (2..=8).contains(&self.active_connection_id_limit);
        unless(cids, "active_connection_id_limit", "must be 2 to 8")?;
        unless(self.max_udp_payload_size >= 1200, "max_udp_payload_size", "must be at least 1200 bytes")?;
        unless(!self.versions.is_empty(), "versions", "must name one at least")?;
        let known = self.versions.iter().all(|version| version.format().is_some());
        unless(known, "versions", "must be versions that this library speaks")?;
        unless(!self.handshake_timeout.is_zero(), "handshake_timeout", "must not be zero")?;
        unless(self.keep_alive != Some(Duration::ZERO), "keep_alive", "must not be zero: None is never")?;
        self.streams.validate()?;
        self.ack.validate()?;
        self.recovery.validate()?;
        self.multipath.as_ref().map_or(Ok(()), MultipathConfig::validate)
    }
}

impl StreamsConfig {
    /// Checks that a connection can be created with these settings.
    ///
    /// # Errors
    /// Fails if a setting contradicts the protocol. The error names the first such setting.
    pub fn validate(&self) -> Result<(), InvalidSetting> {
        let unless = InvalidSetting::unless;
        unless(self.max_bidi <= MAX_STREAM_COUNT, "max_bidi", "must be 2^60 at most")?;
        unless(self.max_uni <= MAX_STREAM_COUNT, "max_uni", "must be 2^60 at most")?;
        for (setting, bytes) in [
            ("stream_window", self.stream_window),
            ("stream_window_max", self.stream_window_max),
            ("connection_window", self.connection_window),
            ("connection_window_max", self.connection_window_max),
        ] {
            unless(bytes <= MAX_VARINT, setting, "must be less than 2^62 bytes")?;
        }
        unless(self.send_buffer > 0, "send_buffer", "must be at least 1 byte")
    }
}

impl AckConfig {
    /// Checks that a connection can be created with these settings.
    ///
    /// # Errors
    /// Fails if a setting contradicts the protocol. The error names the first such setting.
    pub fn validate(&self) -> Result<(), InvalidSetting> {
        let unless = InvalidSetting::unless;
        unless(self.max_delay < ACK_DELAY_LIMIT, "max_delay", "must be less than 2^14 ms")?;
        unless(self.max_repeats > 0, "max_repeats", "must be at least 1")
    }
}

impl MultipathConfig {
    /// Checks that a connection can be created with these settings.
    ///
    /// # Errors
    /// Fails if a setting is out of its bounds. The error names the first such setting.
    pub fn validate(&self) -> Result<(), InvalidSetting> {
        let unless = InvalidSetting::unless;
        unless((1..=MAX_PATHS).contains(&self.max_paths), "max_paths", "must be 1 to 64")?;
        let keep_alive = self.path_keep_alive != Some(Duration::ZERO);
        unless(keep_alive, "path_keep_alive", "must not be zero: None is never")
    }
}

impl ClientConfig {
    /// Checks that a connection can be created with these settings. Connecting runs the same check.
    ///
    /// # Errors
    /// Fails if a setting contradicts the protocol. The error names the first such setting.
    pub fn validate(&self) -> Result<(), InvalidSetting> {
        // RFC 9368 §3: a server refuses a first flight in a version that is not among those on offer.
        let offered = self.transport.versions.contains(&self.initial_version);
        self.transport.validate()?;
        InvalidSetting::unless(offered, "initial_version", "must be one of the versions")
    }
}

impl ServerConfig {
    /// Checks that a connection can be accepted with these settings.
    ///
    /// # Errors
    /// Fails if a setting contradicts the protocol. The error names the first such setting.
    pub fn validate(&self) -> Result<(), InvalidSetting> {
        let few = self.alternative_addresses.len() <= MAX_ALTERNATIVES;
        InvalidSetting::unless(few, "alternative_addresses", "must be 16 at most")?;
        self.transport.validate()
    }
}

impl EndpointConfig {
    /// Checks that an endpoint can be created with these settings.
    ///
    /// # Errors
    /// Fails if a setting contradicts the protocol. The error names the first such setting.
    pub fn validate(&self) -> Result<(), InvalidSetting> {
        self.validate_for(1)
    }

    /// Checks that an endpoint with this number of workers can be created with these settings.
    ///
    /// # Errors
    /// Fails if a setting contradicts the protocol or the number of workers. The error names the first such setting.
    pub fn validate_for(&self, workers: usize) -> Result<(), InvalidSetting> {
        let unless = InvalidSetting::unless;
        if let Some(balancing) = &self.load_balancing {
            balancing.validate_for(self.cid_len, workers)?;
        }
        let few = self.earlier_token_keys.len() <= MAX_EARLIER_TOKEN_KEYS;
        unless(few, "earlier_token_keys", "must be 7 at most")?;
        unless(self.cid_len <= MAX_CID_LEN, "cid_len", "must be 20 bytes at most")?;
        unless(workers == 1 || self.cid_len > 0, "cid_len", "must not be 0 with several workers")
    }
}

#[cfg(test)]
mod tests {
    use anabranch_recovery::{Config, MtuConfig};
    use anabranch_testkit::seeded::Trust;
    use anabranch_wire::Version;

    use super::*;
    use crate::endpoint::{LoadBalancing, ServerId};

    fn broken(config: &TransportConfig) -> &'static str {
        config.validate().unwrap_err().setting()
    }

    #[test]
    fn settings_that_contradict_the_protocol_are_named() {
        let config = TransportConfig::default;
        assert_eq!(config().validate(), Ok(()));
        assert_eq!(config().with_multipath(MultipathConfig::default()).validate(), Ok(()));
        assert_eq!(broken(&config().with_active_connection_id_limit(1)), "active_connection_id_limit");
        assert_eq!(broken(&config().with_max_udp_payload_size(1199)), "max_udp_payload_size");
        assert_eq!(broken(&config().with_versions([])), "versions");
        assert_eq!(broken(&config().with_versions([Version(7)])), "versions");
        assert_eq!(broken(&config().with_handshake_timeout(Duration::ZERO)), "handshake_timeout");
        assert_eq!(broken(&config().with_keep_alive(Duration::ZERO)), "keep_alive");
        let streams = StreamsConfig::default;
        assert_eq!(broken(&config().with_streams(streams().with_max_uni(u64::MAX))), "max_uni");
        let wide = streams().with_connection_window(1 << 62);
        assert_eq!(broken(&config().with_streams(wide)), "connection_window");
        assert_eq!(broken(&config().with_streams(streams().with_send_buffer(0))), "send_buffer");
        let late = AckConfig::default().with_max_delay(Duration::from_millis(1 << 14));
        assert_eq!(broken(&config().with_ack(late)), "max_delay");
        let small = Config::default().with_mtu(MtuConfig::default().with_initial(1199));
        assert_eq!(broken(&config().with_recovery(small)), "initial");
        for max_paths in [0, MAX_PATHS + 1] {
            let paths = MultipathConfig::default().with_max_paths(max_paths);
            assert_eq!(broken(&config().with_multipath(paths)), "max_paths");
        }
        let client = ClientConfig::new(Trust::new("localhost").client("test").build().unwrap());
        assert_eq!(client.validate(), Ok(()));
        let other = client.with_transport(config().with_versions([Version::V2]));
        assert_eq!(other.validate().unwrap_err().setting(), "initial_version");
        assert_eq!(other.with_initial_version(Version::V2).validate(), Ok(()));
        let long = EndpointConfig::new([0; 32]).with_cid_len(21).validate().unwrap_err();
        assert_eq!(long.to_string(), "the setting cid_len must be 20 bytes at most");
    }

    #[test]
    fn settings_of_an_endpoint_that_contradict_each_other_are_named() {
        let config = || EndpointConfig::new([0; 32]);
        let keys = |count| config().with_earlier_token_keys(vec![[1; 32]; count]).validate();
        assert_eq!(keys(MAX_EARLIER_TOKEN_KEYS), Ok(()));
        assert_eq!(keys(MAX_EARLIER_TOKEN_KEYS + 1).unwrap_err().setting(), "earlier_token_keys");
        assert_eq!(config().with_cid_len(0).validate(), Ok(()));
        assert_eq!(config().with_cid_len(0).validate_for(2).unwrap_err().setting(), "cid_len");
        let balancing = LoadBalancing::new(0, ServerId::new(&[1, 2]).unwrap(), 10);
        let balanced = config().with_load_balancing(balancing.clone());
        assert_eq!((balanced.cid_len(), balanced.validate_for(32)), (13, Ok(())));
        assert_eq!(balanced.with_cid_len(12).validate().unwrap_err().setting(), "cid_len");
        let encoded = config().with_load_balancing(balancing.with_encoded_length(true));
        assert_eq!(encoded.validate(), Ok(()));
        assert_eq!(encoded.validate_for(2).unwrap_err().setting(), "encoded_length");
    }
}
