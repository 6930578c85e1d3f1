//! One client, one server and the links between them: the basis of nearly every simulation.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use anabranch_tls::ConfigError;
use anabranch_transport::{ClientConfig, Endpoint, EndpointConfig, FourTuple, ServerConfig, TransportConfig};
use anabranch_wire::Version;

use crate::app::Application;
use crate::link::LinkSpec;
use crate::network::{HostId, LinkId};
use crate::random::Seed;
use crate::sim::Simulation;
use crate::tls;

/// Port of the client's first connection.
pub const CLIENT_PORT: u16 = 40_000;
/// Port of the server.
pub const SERVER_PORT: u16 = 443;

/// Configuration of two hosts.
#[derive(Clone, Debug)]
pub struct PairConfig {
    /// Seed from which all randomness follows.
    pub seed: Seed,
    /// Links, each from its own client address to the server's only address.
    pub links: Vec<LinkSpec>,
    /// The client's transport configuration.
    pub client: TransportConfig,
    /// The server's transport configuration.
    pub server: TransportConfig,
    /// Lengths in bytes of the client's and the server's connection IDs.
    pub cid_len: [usize; 2],
    /// Version of the client's first flight.
    pub initial_version: Version,
}

impl PairConfig {
    /// Creates a configuration of two hosts with default transports over `links`.
    pub fn new(seed: u64, links: impl IntoIterator<Item = LinkSpec>) -> Self {
        Self {
            seed: Seed(seed),
            links: links.into_iter().collect(),
            client: TransportConfig::default(),
            server: TransportConfig::default(),
            cid_len: [8, 8],
            initial_version: Version::V1,
        }
    }
}

/// A simulation with a client and a server.
pub struct Pair {
    /// The simulation.
    pub sim: Simulation,
    /// The host that connects.
    pub client: HostId,
    /// The host that accepts every connection.
    pub server: HostId,
    /// The links, in the order of the configuration.
    pub links: Vec<LinkId>,
}

/// Returns the client's address on link number `link`.
pub fn client_ip(link: u8) -> IpAddr {
    IpAddr::from([10, 0, link + 1, 2])
}

/// Returns a public address that a NAT may use for the client after its `rebinding`-th change.
pub fn outside_ip(rebinding: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, rebinding])
}

/// Returns the server's address.
pub fn server_address() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], SERVER_PORT))
}

impl Pair {
    /// Builds both hosts. `client` creates the client's application from its configuration and the addresses
    /// of the first link. `adjust` may change the server's configuration.
    ///
    /// # Errors
    /// Fails if TLS refuses its configuration, which would be a fault of this crate.
    pub fn new<C: Application>(
        config: &PairConfig,
        client: impl FnOnce(&Simulation, ClientConfig, FourTuple) -> C,
        server: impl Application,
        adjust: impl FnOnce(&mut ServerConfig),
    ) -> Result<Self, ConfigError> {
        let mut sim = Simulation::new(config.seed);
        let (client_tls, server_tls) = tls::pair(&sim.clock())?;
        let client_config = ClientConfig::new(client_tls)
            .with_transport(config.client.clone())
            .with_initial_version(config.initial_version);
        let mut server_config = ServerConfig::new(server_tls).with_transport(config.server.clone());
        adjust(&mut server_config);

        let endpoint = |label: &str, cid_len, server| {
            let config = EndpointConfig::new(config.seed.rng(label).bytes()).with_cid_len(cid_len);
            Endpoint::new(&config, server)
        };
        let client_endpoint = endpoint("client", config.cid_len[0], None);
        let mut server_endpoint = endpoint("server", config.cid_len[1], Some(Arc::new(server_config)));
        server_endpoint.set_auto_accept(true);

        let local = SocketAddr::new(client_ip(0), CLIENT_PORT);
        let application = client(&sim, client_config, FourTuple { local, remote: server_address() });
        let client = sim.add_node(client_endpoint, application);
        let server = sim.add_node(server_endpoint, server);
        let links = (0..)
            .zip(&config.links)
            .map(|(index, spec)| {
                sim.add_link((client, client_ip(index)), (server, server_address().ip()), spec)
            })
            .collect();
        Ok(Self { sim, client, server, links })
    }
}
