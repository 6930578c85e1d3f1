//! A QUIC connection inside a tunnel: its packets are messages of an outer connection over several paths, as those of a UDP flow
//! through a proxy. Neither end of the inner connection knows of the tunnel, so two congestion controllers work one above the other.

mod ends;
mod inner;
mod profiles;

use core::time::Duration;
use std::net::SocketAddr;
use std::sync::Arc;

use anabranch_tls::ConfigError;
use anabranch_transport::{
    ClientConfig, Endpoint, EndpointConfig, FourTuple, MultipathConfig, ServerConfig, TransportConfig,
};
use anabranch_wire::Time;

pub use self::ends::{Carriage, TunnelClient, TunnelServer};
pub use self::profiles::{Link, PROFILES};

use self::inner::Inner;
use crate::app::{Dial, DownloadClient, DownloadServer, PathOpener};
use crate::link::LinkSpec;
use crate::pair::{CLIENT_PORT, Pair, PairConfig, SERVER_PORT};
use crate::random::Seed;
use crate::sim::Simulation;
use crate::tls;
use crate::transfer::further_tuple;

/// Capacity of the queue of messages at each end, as in `anabranch::proxy`, in bytes.
const QUEUE: usize = 4 << 20;
/// Time from the start of the outer connection to that of the inner one.
const BEGIN: Time = Time::from_millis(1_500);
/// Maximum duration of a download.
const LIMIT: Duration = Duration::from_secs(120);

/// A download over a QUIC connection inside a tunnel.
#[derive(Clone, Debug)]
pub struct TunnelledDownload {
    /// Seed from which all randomness follows.
    pub seed: u64,
    /// Links between the tunnel's ends. The ends of the inner connection are on the same hosts as those of the tunnel.
    pub links: Vec<LinkSpec>,
    /// Treatment of the packets of the inner connection in the tunnel.
    pub carriage: Carriage,
    /// Transport configuration of both ends of the inner connection.
    pub inner: TransportConfig,
    /// Number of bytes of the download.
    pub len: u64,
}

impl TunnelledDownload {
    /// Runs the download. Returns its rate in Mbit/s, from the begin of the inner handshake to the last byte, or to the end of
    /// 120 s.
    ///
    /// # Errors
    /// Fails if TLS refuses its configuration, which would be a fault of this crate.
    pub fn run(&self) -> Result<f64, ConfigError> {
        let mut config = PairConfig::new(self.seed, self.links.clone());
        for end in [&mut config.client, &mut config.server] {
            *end = end.clone().with_multipath(MultipathConfig::default()).with_datagram_send_buffer(QUEUE);
        }
        let (client, server) = self.inner_hosts()?;
        let others = (1..).take(self.links.len().saturating_sub(1)).map(further_tuple);
        let carriage = self.carriage;
        let client = |_: &_, config, tuple| {
            let dial = Dial::new(config, tuple).with_paths(PathOpener::new(others));
            TunnelClient::new(dial, client, carriage, BEGIN)
        };
        let mut pair = Pair::new(&config, client, TunnelServer::new(server, carriage), |_| ())?;
        let host = pair.client;
        let download = |sim: &Simulation| -> Option<(u64, Option<Time>)> {
            let client: &DownloadClient = sim.application::<TunnelClient>(host).inner()?;
            Some((client.received, client.finished))
        };
        pair.sim.run(BEGIN + LIMIT, |sim| download(sim).is_some_and(|(_, finished)| finished.is_some()));
        let (received, finished) = download(&pair.sim).unwrap_or_default();
        let took = finished.map_or(LIMIT, |finished| finished - BEGIN);
        Ok(received as f64 * 8e-6 / took.as_secs_f64())
    }

    /// Creates the client and the server of the inner connection.
    fn inner_hosts(&self) -> Result<(Inner, Inner), ConfigError> {
        let seed = Seed(self.seed);
        // TLS takes its time from a clock that stands still, because its certificate is valid at any time.
        let (client_tls, server_tls) = tls::pair(&Simulation::new(seed).clock())?;
        let client_config = ClientConfig::new(client_tls).with_transport(self.inner.clone());
        let server_config = ServerConfig::new(server_tls).with_transport(self.inner.clone());
        let [local, remote] = [(1, CLIENT_PORT), (2, SERVER_PORT)]
            .map(|(host, port)| SocketAddr::from(([172, 16, 0, host], port)));
        let endpoint = |label, server| {
            Endpoint::new(&EndpointConfig::new(seed.rng(label).bytes()).with_cid_len(8), server)
        };
        let mut server_endpoint = endpoint("inner server", Some(Arc::new(server_config)));
        server_endpoint.set_auto_accept(true);
        let download =
            DownloadClient::new(Dial::new(client_config, FourTuple { local, remote }), &[self.len]);
        let client = Inner::new(endpoint("inner client", None), Box::new(download), (local, remote));
        let server = Inner::new(server_endpoint, Box::new(DownloadServer::default()), (remote, local));
        Ok((client, server))
    }
}
