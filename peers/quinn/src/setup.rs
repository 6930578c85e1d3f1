//! Settings of both client and server.

use std::time::Duration;

use peer_common::Failure;
use peer_common::args::Common;
use quinn::{
    ConnectionId, ConnectionIdGenerator, EndpointConfig, IdleTimeout, MtuDiscoveryConfig, TransportConfig,
    VarInt,
};

/// The only version of this stack, besides drafts.
pub const VERSION_1: u32 = 1;

/// Returns the transport settings of both client and server.
pub fn transport(common: &Common) -> Result<TransportConfig, Failure> {
    let mut config = TransportConfig::default();
    config
        .stream_receive_window(VarInt::from_u64(common.window)?)
        .receive_window(VarInt::from_u64(common.window * 2)?)
        .send_window(common.window * 2)
        .max_idle_timeout(Some(IdleTimeout::try_from(common.idle)?))
        .mtu_discovery_config(Some(MtuDiscoveryConfig::default()))
        .enable_segmentation_offload(!common.no_gso);
    Ok(config)
}

/// Returns the endpoint settings of both client and server: version 1, and for a client also a draft version
/// that it can offer.
pub fn endpoint_config(drafts: &[u32]) -> EndpointConfig {
    let mut config = EndpointConfig::default();
    config.supported_versions([&[VERSION_1], drafts].concat());
    config
}

/// Generator of connection IDs without a mark of the process, and their lifetime.
pub struct UnmarkedIds(pub Option<Duration>);

impl ConnectionIdGenerator for UnmarkedIds {
    fn generate_cid(&mut self) -> ConnectionId {
        let mut id = [0; 8];
        // If the system provides no randomness, the ID repeats and the connection fails.
        let _ = aws_lc_rs::rand::fill(&mut id);
        ConnectionId::new(&id)
    }

    fn cid_len(&self) -> usize {
        8
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        self.0
    }
}
