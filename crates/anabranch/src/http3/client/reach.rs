//! Endpoint and settings with which a client reaches servers.

use std::collections::HashMap;
use std::net::SocketAddr;

use anabranch_transport::ClientConfig;

use super::super::Config;
use crate::endpoint::Endpoint;

/// An endpoint, and the settings of future connections.
#[derive(Debug)]
pub(super) struct Reach {
    pub(super) endpoint: Endpoint,
    pub(super) quic: ClientConfig,
    pub(super) config: Config,
    pub(super) early_data: bool,
    pub(super) overrides: HashMap<String, SocketAddr>,
}

impl Reach {
    pub(super) fn new(endpoint: Endpoint, quic: ClientConfig) -> Self {
        let config = Config::default();
        Self { endpoint, quic, config, early_data: false, overrides: HashMap::new() }
    }
}
