//! Running a scenario to its end and checking its outcome.

use core::time::Duration;

use std::sync::Arc;

use anabranch_tls::ConfigError;
use anabranch_transport::{Handle, ServerConfig, TransportConfig};
use anabranch_wire::Time;

use super::{Disturbance, Scenario};
use crate::app::exchange::{ExchangeClient, ExchangeServer};
use crate::link::{Counters, Rebinding};
use crate::network::{HostId, LinkId};
use crate::pair::{Pair, PairConfig, client_ip, outside_ip};
use crate::random::Seed;
use crate::seeds::{SeedReport as _, seed_report};
use crate::sim::{Outcome, Simulation};
use crate::tls::{SERVER_NAME, pair};

/// Simulated time within which the run must end.
const DEADLINE: Duration = Duration::from_secs(4 * 3600);

/// Minimum number of consecutive packets lost by chance in one direction that excuses a timeout of the
/// connection. Each PTO is twice as long as the previous one, so no more than a dozen fit into the idle
/// timeout.
const BAD_LUCK: u64 = 10;

/// Message with which the client reports a timeout.
const TIMED_OUT: &str = "connection ended early: timed out";

/// Report of a scenario's run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The scenario's seed.
    pub seed: u64,
    /// Deviations from the expected course; empty if the run passed.
    pub faults: Vec<String>,
    /// Fingerprint of all events.
    pub trace: u64,
    /// Number of events in the fingerprint.
    pub events: u64,
    /// Simulated time at the end.
    pub ended: Time,
    /// Bytes that arrived at both applications.
    pub received: u64,
    /// Number of messages that the server echoed.
    pub echoed: u64,
    /// Number of completed handshakes.
    pub connected: u32,
    /// Number of connections with accepted early data.
    pub early: u32,
    /// Number of connections with rejected early data.
    pub refused: u32,
    /// Number of path changes that the server reported.
    pub moves: u32,
    /// `true` if a connection timed out because a link lost too many consecutive packets by chance.
    pub unlucky: bool,
    /// Counters of both links: from the client, and to it.
    pub links: [[Counters; 2]; 2],
}

/// A scenario that is running.
struct Stage {
    sim: Simulation,
    client: HostId,
    server: HostId,
    links: [LinkId; 2],
    /// Number of changes of the NAT so far.
    rebound: u16,
}

impl Scenario {
    /// Runs the scenario.
    pub fn run(&self) -> Report {
        self.run_watched(false)
    }

    /// Runs the scenario. If `watch` is `true`, prints all events to standard error.
    pub fn run_watched(&self, watch: bool) -> Report {
        let mut stage = match Stage::new(self) {
            Ok(stage) => stage,
            Err(error) => return Report::failed(self.seed, error.to_string()),
        };
        if watch {
            stage.sim.watch(stage.client);
            stage.sim.watch(stage.server);
        }
        let outcome = stage.play(self);
        stage.report(self, outcome)
    }
}

seed_report!(Report);

impl Stage {
    fn new(scenario: &Scenario) -> Result<Self, ConfigError> {
        let config = PairConfig {
            seed: Seed(scenario.seed),
            links: scenario.links.to_vec(),
            client: scenario.client.clone(),
            server: scenario.server.clone(),
            cid_len: scenario.cid_len,
            initial_version: scenario.initial_version,
        };
        let client = |sim: &Simulation, config, tuple| {
            let plans = scenario.plans.iter().cloned();
            ExchangeClient::new(config, tuple, SERVER_NAME, plans, sim.rng("client reads"))
        };
        let server = ExchangeServer::new(config.seed.rng("server reads"));
        let built = Pair::new(&config, client, server, |server| {
            *server = server.clone().with_retry(scenario.retry).with_retry_token_lifetime(DEADLINE);
        })?;
        let Pair { sim, client, server, links } = built;
        Ok(Self { sim, client, server, links: [links[0], links[1]], rebound: 0 })
    }

    /// Runs until the client has completed all connections, disturbing them as planned, and then until no
    /// event is left.
    fn play(&mut self, scenario: &Scenario) -> Outcome {
        let deadline = Time::ZERO + DEADLINE;
        let client = self.client;
        let mut seen = None;
        loop {
            let confirmed = |sim: &Simulation| sim.application::<ExchangeClient>(client).confirmed;
            let outcome = self.sim.run(deadline, |sim| confirmed(sim).is_some_and(|now| Some(now) != seen));
            if outcome != Outcome::Done {
                return outcome;
            }
            seen = confirmed(&self.sim);
            let Some((handle, since)) = seen else { return outcome };
            // A migration is not allowed during a handshake (RFC 9000 §9). So when a connection ends, its
            // remaining disturbances are skipped instead of being applied to the next connection.
            for &(after, disturbance) in &scenario.disturbances {
                let outcome = self.sim.run((since + after).min(deadline), |sim| confirmed(sim) != seen);
                if matches!(outcome, Outcome::Done | Outcome::Spinning(_)) {
                    break;
                }
                self.disturb(handle, disturbance);
            }
        }
    }

    fn disturb(&mut self, handle: Handle, disturbance: Disturbance) {
        let (now, server) = (self.sim.now(), self.server);
        match disturbance {
            Disturbance::RebindPort | Disturbance::RebindAddress => {
                self.rebound += 1;
                let ip = (disturbance == Disturbance::RebindAddress).then(|| outside_ip(self.rebound as u8));
                let rebinding = Rebinding { from: now, ip, port_shift: 100 * self.rebound };
                self.sim.network().rebind(self.links[0], rebinding);
            }
            Disturbance::Migrate => self.sim.with_endpoint(self.client, |now, endpoint| {
                if let Some(connection) = endpoint.connection(handle) {
                    let Some(mut there) = connection.paths().next().map(|path| path.tuple.local) else {
                        return;
                    };
                    there.set_ip(client_ip(if there.ip() == client_ip(0) { 1 } else { 0 }));
                    // Fails if the server has issued no spare connection ID, which is not a fault.
                    let _ = connection.migrate(now, there);
                }
            }),
            Disturbance::UpdateClientKeys => self.sim.with_endpoint(self.client, |_, endpoint| {
                if let Some(connection) = endpoint.connection(handle) {
                    connection.update_keys();
                }
            }),
            Disturbance::UpdateServerKeys => self.sim.with_endpoint(server, |_, endpoint| {
                for handle in (0..4).map(Handle) {
                    if let Some(connection) = endpoint.connection(handle) {
                        connection.update_keys();
                    }
                }
            }),
            Disturbance::ForgetSessions => self.forget_sessions(),
        }
    }

    fn forget_sessions(&mut self) {
        let clock = self.sim.clock();
        self.sim.with_endpoint(self.server, |_, endpoint| {
            let Some(mut config) = endpoint.router().server().map(|config| ServerConfig::clone(config))
            else {
                return;
            };
            let transport = TransportConfig::clone(config.transport());
            let streams = transport.streams().clone();
            let [stream, connection] = [streams.stream_window(), streams.connection_window()];
            let streams = streams
                .with_stream_window((stream / 2).max(1000))
                .with_connection_window((connection / 2).max(1000));
            config = config.with_transport(transport.with_streams(streams));
            if let Ok((_, tls)) = pair(&clock) {
                config = config.with_tls(tls);
            }
            endpoint.set_server(Some(Arc::new(config)));
        });
    }

    fn report(mut self, scenario: &Scenario, outcome: Outcome) -> Report {
        let ended = self.sim.now();
        let trace = self.sim.network().trace().clone();
        let links = self.links.map(|link| self.sim.network().counters(link));
        let client = self.sim.application::<ExchangeClient>(self.client);
        let server = self.sim.application::<ExchangeServer>(self.server);
        let mut faults = [&client.faults[..], &server.faults[..]].concat();
        let before = faults.len();
        if links.iter().flatten().any(|way| way.longest_bad_luck >= BAD_LUCK) {
            faults.retain(|fault| !fault.starts_with(TIMED_OUT));
        }
        let unlucky = faults.len() < before;
        if outcome != Outcome::Quiet {
            faults.push(format!("ended with {outcome:?} at {ended:?}"));
        }
        if !client.is_done() {
            faults.push(format!("the client is not done: {}", client.missing()));
        }
        if server.open_connections() > 0 {
            faults.push(format!("{} connections of the server did not end", server.open_connections()));
        }
        for (host, name) in [(self.client, "client"), (self.server, "server")] {
            let left = self.sim.endpoint(host).len();
            if left > 0 {
                faults.push(format!("the {name}'s endpoint still has {left} connections"));
            }
        }
        if client.connected as usize != scenario.plans.len() {
            faults.push(format!("{} of {} handshakes completed", client.connected, scenario.plans.len()));
        }
        Report {
            faults,
            trace: trace.hash(),
            events: trace.events(),
            ended,
            received: client.received + server.received,
            echoed: client.echoed,
            connected: client.connected,
            early: client.early,
            refused: client.refused,
            moves: server.moves,
            unlucky,
            links,
            seed: scenario.seed,
        }
    }
}
