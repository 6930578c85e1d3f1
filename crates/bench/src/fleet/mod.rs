//! A fleet of servers behind a load balancer that routes by QUIC-LB: one is added, one drained and one killed, while clients use
//! several paths and move. No connection may be lost but those of the killed server.

mod balancer;
mod client;
pub(crate) mod server;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use anabranch::{ClientConfig, MultipathConfig, ServerIdDecoder, TransportConfig, config};
use clap::Args;
use serde_json::json;
use tokio::task::JoinSet;

use self::balancer::Balancer;
use self::client::Visit;
use self::server::Server;
use crate::Error;
use crate::report::{BROKEN, Report};
use crate::stacks::{Identity, Ours};

/// Minimum number of servers: one is drained, one killed, and clients need a third one meanwhile.
const MIN_SERVERS: u16 = 3;
/// Number of lost connections whose reasons are printed.
const MAX_SHOWN: u32 = 10;
/// Numbers of the server that is drained, and of the one that is killed.
const DRAINED: u16 = 0;
const KILLED: u16 = 1;

#[derive(Args)]
pub(crate) struct Options {
    /// Number of servers at the beginning
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(i64::from(MIN_SERVERS)..))]
    servers: u16,
    /// Number of connections
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..))]
    connections: u32,
    /// Maximum number of connections at the same time
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..))]
    at_once: u32,
    /// Servers are processes of this program instead of `anabranch serve`
    #[arg(long)]
    own_servers: bool,
    #[command(flatten)]
    ours: Ours,
}

pub(crate) fn run(options: &Options) -> Result<Report, Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let counts = runtime.block_on(async { Fleet::start(options).await?.run(options).await })?;
    Ok(counts.report(options))
}

/// Servers, and the balancer in front of them.
struct Fleet {
    balancer: Balancer,
    servers: BTreeMap<u16, Server>,
    identity: Identity,
    client: ClientConfig,
}

/// Numbers of connections by their ends.
#[derive(Debug, Default)]
struct Counts {
    connections: u32,
    /// Connections that failed although their server lived.
    lost: u32,
    /// Connections that ended with the killed server.
    killed: u32,
    moved: u32,
    paths: usize,
    by_server: BTreeMap<u16, u32>,
}

impl Fleet {
    async fn start(options: &Options) -> Result<Self, Error> {
        let identity = Identity::new()?;
        let transport = TransportConfig::default().with_multipath(MultipathConfig::default());
        let roots = config::roots(&identity.certificate())?;
        let client = config::client(roots, [server::ALPN])?.with_transport(transport);
        let balancer = Balancer::start(ServerIdDecoder::new(&server::balancing(0))?).await?;
        let mut fleet = Self { balancer, servers: BTreeMap::new(), identity, client };
        (0..options.servers).try_for_each(|number| fleet.add(number, options))?;
        Ok(fleet)
    }

    /// Starts a server, and leads clients to it.
    fn add(&mut self, number: u16, options: &Options) -> Result<(), Error> {
        let ours = (!options.own_servers).then_some(&options.ours);
        let server = Server::start(number, &self.identity, ours)?;
        self.balancer.add(server::id(number), server.address);
        self.servers.insert(number, server);
        Ok(())
    }

    /// Lets all clients come, as many at once as the options say. After a quarter of them, a server is added; after half, the first one
    /// is drained, and ends once all clients that may be there have left; after three quarters, the second one is killed.
    async fn run(mut self, options: &Options) -> Result<Counts, Error> {
        let quarter = (options.connections / 4).max(1);
        let (mut counts, mut visits, mut begun) = (Counts::default(), JoinSet::new(), 0);
        let (mut present, mut drained_at) = (BTreeSet::new(), None);
        while counts.connections < options.connections {
            while begun < options.connections && visits.len() < options.at_once as usize {
                let visit = client::visit(self.client.clone(), self.balancer.address());
                visits.spawn(async move { (begun, visit.await) });
                present.insert(begun);
                begun += 1;
            }
            let (number, visit) = visits.join_next().await.ok_or("no client is left")??;
            present.remove(&number);
            let visit = visit.map_err(|error| error.to_string())?;
            let first = self.first_server(visit.from);
            counts.add(visit, first, (counts.connections >= 3 * quarter).then_some(KILLED));
            match counts.connections {
                at if at == quarter => self.add(options.servers, options)?,
                at if at == 2 * quarter => {
                    self.balancer.drain(server::id(DRAINED));
                    drained_at = Some(begun);
                }
                at if at == 3 * quarter => drop(self.remove(KILLED)),
                _ => {}
            }
            let is_empty = |drained| present.first().is_none_or(|oldest| *oldest >= drained);
            if drained_at.is_some_and(is_empty) {
                drained_at = None;
                self.remove(DRAINED).map_or(Ok(()), Server::end)?;
            }
        }
        self.servers.into_values().try_for_each(Server::end)?;
        Ok(counts)
    }

    /// Takes a server out of the fleet. Dropping it kills it.
    fn remove(&mut self, number: u16) -> Option<Server> {
        self.balancer.remove(server::id(number));
        self.servers.remove(&number)
    }

    /// Returns the number of the server that got a client's first packet.
    fn first_server(&self, client: SocketAddr) -> Option<u16> {
        let id = self.balancer.first_server(client)?;
        id.first_chunk().map(|bytes| u16::from_be_bytes(*bytes))
    }
}

impl Counts {
    /// Counts a connection, whose first packet went to the server `first`. `killed` is the server that was killed, if one was.
    fn add(&mut self, visit: Visit, first: Option<u16>, killed: Option<u16>) {
        self.connections += 1;
        self.moved += u32::from(visit.has_moved);
        self.paths += visit.paths;
        let server = visit.server.or(first);
        if let Some(server) = server {
            *self.by_server.entry(server).or_default() += 1;
        }
        let Some(failure) = visit.failure else { return };
        if killed.is_some() && server == killed {
            self.killed += 1;
        } else {
            self.lost += 1;
            if self.lost <= MAX_SHOWN {
                eprintln!("lost at server {server:?}: {failure}");
            }
        }
    }

    fn report(&self, options: &Options) -> Report {
        let row = |name: &str, value: String, verdict: &str| vec![name.to_owned(), value, verdict.to_owned()];
        let left = self.connections - self.killed - self.lost;
        let servers: Vec<_> =
            self.by_server.iter().map(|(server, count)| format!("{server}: {count}")).collect();
        let nothing = if self.lost == 0 { "kept" } else { BROKEN };
        Report {
            title: format!(
                "{} connections, {} at once, {} servers: one more is added, server 0 drained, server 1 killed",
                self.connections, options.at_once, options.servers
            ),
            columns: vec!["what", "seen", "verdict"],
            rows: vec![
                row("lost", self.lost.to_string(), nothing),
                row("ended with the killed server", self.killed.to_string(), "shown"),
                row("moved to another address", format!("{} of {left}", self.moved), "shown"),
                row("paths", self.paths.to_string(), "shown"),
                row("connections by server", servers.join(", "), "shown"),
            ],
            json: json!({
                "connections": self.connections, "lost": self.lost, "moved": self.moved, "servers": self.by_server.len(),
                "killed": self.killed, "paths": self.paths, "by_server": self.by_server,
            }),
        }
    }
}
