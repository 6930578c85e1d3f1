//! Transport parameters of this endpoint, and the effects of the peer's (RFC 9000 §7.4, §18).

use std::time::Duration;

use anabranch_wire::{
    MAX_VARINT, PathId, PreferredAddress, Time, TransportErrorCode, TransportParameters, Version,
    VersionInformation,
};

use crate::connection::connection::Connection;
use crate::connection::parts::ACK_DELAY_EXPONENT;
use crate::error::TransportError;
use crate::event::EndpointEvent;
use crate::trace::TraceEvent;

/// Minimum acknowledgment delay that a peer may request, in microseconds (`min_ack_delay`). Timers of common
/// systems have this resolution.
const MIN_ACK_DELAY_US: u64 = 1_000;

fn parameter_error(reason: &'static str) -> TransportError {
    TransportError::new(TransportErrorCode::TRANSPORT_PARAMETER_ERROR, reason)
}

impl Connection {
    /// Returns the minimum acknowledgment delay that the peer may request, in microseconds (draft-ietf-quic-ack-frequency §3).
    pub(super) fn min_ack_delay(&self) -> u64 {
        let max = u64::try_from(self.config.ack.max_delay.as_millis()).unwrap_or(MAX_VARINT);
        MIN_ACK_DELAY_US.min(max.saturating_mul(1000))
    }

    /// Returns this endpoint's transport parameters (RFC 9000 §18.2).
    pub(super) fn local_parameters(&mut self) -> TransportParameters {
        let (initial_max_path_id, single_number_space) = self.paths.multipath_parameters();
        let config = &self.config;
        let streams = &config.streams;
        let millis =
            |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(MAX_VARINT).min(MAX_VARINT);
        let mut available = config.versions.clone();
        if self.config.grease {
            let seed = (self.random.u64() >> 32) as u32;
            available.push(Version::grease(seed));
        }
        let mut parameters = TransportParameters::default();
        parameters.max_idle_timeout = config.max_idle_timeout.map_or(0, millis);
        parameters.max_udp_payload_size = u64::from(config.max_udp_payload_size);
        parameters.initial_max_data = streams.connection_window;
        parameters.initial_max_stream_data_bidi_local = streams.stream_window;
        parameters.initial_max_stream_data_bidi_remote = streams.stream_window;
        parameters.initial_max_stream_data_uni = streams.stream_window;
        parameters.initial_max_streams_bidi = streams.max_bidi;
        parameters.initial_max_streams_uni = streams.max_uni;
        parameters.ack_delay_exponent = ACK_DELAY_EXPONENT;
        parameters.max_ack_delay = millis(config.ack.max_delay);
        parameters.active_connection_id_limit = config.active_connection_id_limit.clamp(2, 8);
        parameters.initial_source_connection_id = Some(self.paths.list.main().used_local_cid);
        parameters.version_information = Some(VersionInformation { chosen: self.format.version, available });
        parameters.max_datagram_frame_size = self.datagrams.local_maximum();
        parameters.grease_quic_bit = config.grease;
        parameters.initial_max_path_id = initial_max_path_id;
        parameters.single_number_space = single_number_space;
        parameters.alternative_address = self.paths.wants_alternatives();
        parameters.min_ack_delay = Some(self.min_ack_delay());
        if let Some(server) = &self.server {
            parameters.original_destination_connection_id = Some(self.handshake.original_dcid);
            parameters.retry_source_connection_id = self.handshake.retry_scid;
            let cid = self.paths.list.main().used_local_cid;
            parameters.disable_active_migration =
                !self.config.migration || self.shared.is_routed_by_address();
            if !cid.is_empty() {
                parameters.stateless_reset_token = Some(self.shared.reset_token(&cid));
            }
            if let Some(addresses) =
                server.preferred_address.filter(|_| !cid.is_empty() && !self.shared.is_routed_by_address())
            {
                let cid = self.shared.cid(&mut self.random);
                let token = self.shared.reset_token(&cid);
                if let Some(cids) = self.paths.local_cids_mut(PathId::ZERO) {
                    cids.issue_preferred(cid, token);
                }
                self.output.endpoint_events.push_back(EndpointEvent::CidIssued(cid));
                parameters.preferred_address =
                    Some(PreferredAddress { v4: addresses.v4, v6: addresses.v6, cid, token });
            }
        }
        #[cfg(test)]
        if let Some(edit) = self.config.hooks.parameters {
            edit(&mut parameters);
        }
        parameters
    }

    pub(super) fn encode(&mut self, parameters: &TransportParameters) -> Vec<u8> {
        let mut encoded = Vec::new();
        let grease = self.config.grease.then(|| self.random.u64());
        parameters.encode(&mut encoded, grease);
        encoded
    }

    /// Checks and applies the peer's transport parameters.
    pub(super) fn on_peer_parameters(
        &mut self,
        now: Time,
        parameters: TransportParameters,
    ) -> Result<(), TransportError> {
        self.trace(now, &TraceEvent::Parameters { local: false, parameters: &parameters });
        // RFC 9000 §7.3: connection IDs are authenticated by the handshake.
        if parameters.initial_source_connection_id != self.handshake.peer_scid
            || parameters.initial_source_connection_id.is_none()
        {
            return Err(parameter_error("initial_source_connection_id does not match"));
        }
        if self.side.is_client() {
            if parameters.original_destination_connection_id != Some(self.handshake.original_dcid) {
                return Err(parameter_error("original_destination_connection_id does not match"));
            }
            if parameters.retry_source_connection_id != self.handshake.retry_scid {
                return Err(parameter_error("retry_source_connection_id does not match"));
            }
        }
        if parameters.min_ack_delay.is_some_and(|delay| delay > parameters.max_ack_delay * 1000) {
            // draft-ietf-quic-ack-frequency §3
            return Err(parameter_error("min_ack_delay exceeds max_ack_delay"));
        }
        self.streams.set_peer_parameters(&parameters)?;
        self.datagrams.set_peer_maximum(parameters.max_datagram_frame_size);
        self.idle.set_peer_timeout(parameters.max_idle_timeout);
        let max_ack_delay = Duration::from_millis(parameters.max_ack_delay);
        let path = self.paths.list.main_mut();
        path.recovery.set_peer_max_ack_delay(max_ack_delay);
        path.recovery
            .set_peer_max_udp_payload(u16::try_from(parameters.max_udp_payload_size).unwrap_or(u16::MAX));
        path.local_cids.set_limit(parameters.active_connection_id_limit);
        if let Some(token) = parameters.stateless_reset_token {
            path.remote_cids.set_first_token(token);
        }
        if let Some(preferred) = &parameters.preferred_address {
            if self.paths.list.main().remote_cids.active().is_empty() {
                return Err(parameter_error("preferred_address without connection IDs"));
            }
            self.paths.list.main_mut().remote_cids.insert_preferred(preferred.cid, preferred.token);
        }
        self.paths.negotiate_multipath(&parameters)?;
        self.begin_alternatives(&parameters);
        self.collect_reset_tokens();
        self.handshake.peer_parameters = Some(parameters);
        Ok(())
    }
}
