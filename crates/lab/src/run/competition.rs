//! Several connections that send for the same duration, all over the first link.

use core::time::Duration;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use anabranch_transport::{ClientConfig, Endpoint, EndpointConfig, FourTuple, ServerConfig};
use anabranch_wire::Time;

use crate::app::{Dial, DownloadClient, DownloadServer};
use crate::network::HostId;
use crate::pair::{CLIENT_PORT, Pair, SERVER_PORT};
use crate::profile::{Settings, Variant};
use crate::random::Seed;
use crate::tls;

use super::scene::{RunResult, Scene};

/// Maximum number of connections that compete with the observed one.
pub(super) const MAX_OTHERS: u32 = 64;
/// Number of bytes that no link can carry during a run.
const ENDLESS: u64 = 1 << 50;

/// Plan of a competition.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) others: u32,
    pub(super) length: Duration,
    pub(super) one_link: bool,
}

pub(super) fn play(scene: &Scene<'_>, plan: Plan) -> Result<RunResult, String> {
    let Plan { others, length, one_link } = plan;
    if others > MAX_OTHERS {
        return Err(format!("{others} other connections are more than {MAX_OTHERS}"));
    }
    let client = |dial| DownloadClient::new(dial, &[ENDLESS]);
    let mut pair = if one_link {
        scene.pair_on_one_link(client, scene.server())?
    } else {
        scene.pair(client, scene.server())?
    };
    let mut hosts = vec![pair.client];
    for index in 0..others {
        hosts.push(add_pair(scene, &mut pair, index as u8)?);
    }
    let end = (Time::ZERO + length).min(scene.deadline());
    pair.sim.run(end, |_| false);
    let clients: Vec<_> = hosts.iter().map(|host| pair.sim.application::<DownloadClient>(*host)).collect();
    let failures = clients.iter().enumerate().filter_map(|(index, client)| {
        let failure = client.failure.clone();
        let refused = client.dial.paths.refused.map(|refused| format!("a path was not opened: {refused}"));
        failure.or(refused).map(|failure| format!("connection {index}: {failure}"))
    });
    let goodput = |client: &&DownloadClient| client.received as f64 * 8.0 / length.as_secs_f64();
    let result = RunResult {
        failure: failures.collect::<Vec<_>>().join(", "),
        handshake: clients[0].connected,
        flow_goodput_bps: clients.iter().map(goodput).collect(),
        ..RunResult::default()
    };
    let handle = clients[0].dial.handle();
    Ok(result.with_counts(&mut pair, handle, scene.receiver()))
}

/// Adds two hosts with a connection of their own over the first link, with a single path.
fn add_pair(scene: &Scene<'_>, pair: &mut Pair, index: u8) -> Result<HostId, String> {
    let settings = scene.variant().settings.clone();
    let other = Settings {
        multipath: Some(false),
        congestion: settings.others_congestion.or(settings.congestion),
        ..Settings::default()
    };
    let variant = Variant { settings: other.over(settings), ..scene.variant().clone() };
    let (client_tls, server_tls) = tls::pair(&pair.sim.clock()).map_err(|error| error.to_string())?;
    let client_config = ClientConfig::new(client_tls)
        .with_transport(variant.client())
        .with_initial_version(variant.wire().version());
    let server_config = ServerConfig::new(server_tls).with_transport(variant.server());

    let seed = Seed(scene.experiment.seed(scene.job));
    let endpoint = |side: &str, server| {
        Endpoint::new(&EndpointConfig::new(seed.rng(&format!("{side}/{index}")).bytes()), server)
    };
    let mut server_endpoint = endpoint("server", Some(Arc::new(server_config)));
    server_endpoint.set_auto_accept(true);
    let ip = |last| IpAddr::from([10, 1, index, last]);
    let local = SocketAddr::new(ip(2), CLIENT_PORT);
    let tuple = FourTuple { local, remote: SocketAddr::new(ip(1), SERVER_PORT) };
    let application = DownloadClient::new(Dial::new(client_config, tuple), &[ENDLESS]);
    let client = pair.sim.add_node(endpoint("client", None), application);
    let server = pair.sim.add_node(server_endpoint, DownloadServer::default());
    pair.sim.network().share_link(pair.links[0], (client, ip(2)), (server, ip(1)));
    Ok(client)
}
