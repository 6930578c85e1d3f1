//! Running a model to its end and checking its invariants.

use core::time::Duration;

use anabranch_tls::ConfigError;
use anabranch_transport::Connection;
use anabranch_wire::{PathId, Side, Time};
use bytes::Bytes;

use super::peer::{DONE, Peer, is_goodbye, is_without_paths};
use super::{Disturbance, Model};
use crate::link::{Blackout, Rebinding};
use crate::network::{HostId, LinkId};
use crate::pair::{Pair, PairConfig, outside_ip};
use crate::random::Seed;
use crate::seeds::{SeedReport as _, seed_report};
use crate::sim::{Outcome, Simulation};

/// Maximum simulated time until all data has been sent and received.
const DEADLINE: Duration = Duration::from_secs(1800);
/// Maximum time until an idle connection comes to rest: abandoned paths are removed and the search for a
/// larger MTU is complete.
const MAX_RECOVERY: Duration = Duration::from_secs(300);
/// Time after [`MAX_RECOVERY`] for which the connection must remain at rest.
const REST: Duration = Duration::from_secs(60);
/// Maximum number of packets during [`REST`] if a NAT has rebound: keep-alives, their acknowledgments, and a
/// server's probes on paths on which it cannot reach the client until the client sends a packet.
const MAX_AFTER_REBINDING: u64 = 2 * REST.as_secs();

/// Report of a model's run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The model's seed.
    pub seed: u64,
    /// Violations of the invariants; empty if the run passed.
    pub faults: Vec<String>,
    /// Hash of the network's trace, which is equal for equal runs.
    pub trace: u64,
    /// Simulated time at which all data had been sent and received.
    pub done: Time,
    /// Bytes that arrived on streams at both ends.
    pub received: u64,
    /// Stream halves that were received completely.
    pub complete: u64,
    /// Number of paths that were opened, without the first one.
    pub opened: u64,
    /// Number of paths that were abandoned, by either end.
    pub gone: u64,
    /// Path changes that the server reported.
    pub moves: u64,
    /// Key updates.
    pub key_updates: u64,
    /// `true` if the two ends together abandoned all paths.
    pub without_paths: bool,
}

seed_report!(Report);

/// A model that is running.
struct Stage {
    sim: Simulation,
    hosts: [HostId; 2],
    links: Vec<LinkId>,
    faults: Vec<String>,
    key_updates: u64,
}

impl Model {
    /// Runs the model. These invariants must hold:
    ///
    /// - Every byte arrives, once and in order. Datagrams arrive at most once, undamaged.
    /// - The connection lives until the two ends together have abandoned all its paths.
    /// - Each path is reported as opened and as abandoned at most once, and no end keeps more than its
    ///   maximum.
    /// - When all operations are done, both ends have the same paths, nothing is in flight, and the links are
    ///   silent.
    /// - After the connection has ended, neither end keeps any of its state.
    pub fn run(&self) -> Report {
        self.run_watched(false)
    }

    /// Runs the model. If `watch` is `true`, prints all events of both ends to standard error.
    pub fn run_watched(&self, watch: bool) -> Report {
        let mut stage = match Stage::new(self) {
            Ok(stage) => stage,
            Err(error) => return Report::failed(self.seed, error.to_string()),
        };
        if watch {
            stage.hosts.iter().for_each(|host| stage.sim.watch(*host));
        }
        stage.play(self)
    }
}

impl Stage {
    fn new(model: &Model) -> Result<Self, ConfigError> {
        let config = PairConfig {
            seed: Seed(model.seed),
            links: model.links.clone(),
            client: model.client.clone(),
            server: model.server.clone(),
            cid_len: model.cid_len,
            ..PairConfig::new(model.seed, [])
        };
        let max_paths = model.server.multipath().as_ref().map_or(1, |multipath| multipath.max_paths());
        let peer = |side, label| {
            let rng = config.seed.rng(label);
            Peer::new(side, &model.operations, model.seed, rng).with_max_paths(max_paths)
        };
        let client =
            |_: &Simulation, config, tuple| peer(Side::Client, "client reads").connecting(config, tuple);
        let Pair { sim, client, server, links } =
            Pair::new(&config, client, peer(Side::Server, "server reads"), |_| ())?;
        Ok(Self { sim, hosts: [client, server], links, faults: Vec::new(), key_updates: 0 })
    }

    fn play(mut self, model: &Model) -> Report {
        let hosts = self.hosts;
        let all = move |sim: &Simulation, what: fn(&Peer) -> bool| {
            hosts.iter().all(|host| what(sim.application::<Peer>(*host)))
        };
        let confirmed = |sim: &Simulation| all(sim, |peer| peer.confirmed.is_some());
        let outcome = self.sim.run(Time::ZERO + DEADLINE, confirmed);
        if outcome != Outcome::Done {
            return self.report(model, format!("no handshake: {outcome:?}"));
        }
        let disturbed_until = self.disturb(model);
        let done = |sim: &Simulation| {
            all(sim, Peer::is_done)
                || hosts.iter().any(|host| sim.application::<Peer>(*host).closed.is_some())
        };
        let outcome = self.sim.run(Time::ZERO + DEADLINE, done);
        if outcome != Outcome::Done {
            return self.report(model, format!("ended with {outcome:?}"));
        }
        let finished = self.sim.now();
        if all(&self.sim, |peer| peer.closed.is_none()) {
            self.come_to_rest(model, disturbed_until);
            self.sim.with_endpoint(self.hosts[0], |now, endpoint| {
                if let Some(connection) = endpoint.connection(anabranch_transport::Handle(0)) {
                    connection.close(now, DONE, Bytes::new());
                }
            });
        }
        let outcome = self.sim.run(self.sim.now() + DEADLINE, |_| false);
        if outcome != Outcome::Quiet {
            self.faults.push(format!("after the end: {outcome:?}"));
        }
        for host in self.hosts {
            if !self.sim.endpoint(host).is_empty() {
                self.faults.push(format!("host {} still has the connection", host.0));
            }
        }
        let mut report = self.report(model, String::new());
        report.done = finished;
        report
    }

    /// Schedules the disturbances of the links. Returns the time at which the last one ends.
    fn disturb(&mut self, model: &Model) -> Time {
        let now = self.sim.now();
        let mut windows: Vec<[Vec<_>; 2]> = vec![[Vec::new(), Vec::new()]; self.links.len()];
        let mut rebound = 0;
        let mut until = now;
        for disturbance in &model.disturbances {
            match disturbance {
                Disturbance::Kill { link, window, ways } => {
                    until = until.max(now + window.end);
                    for (way, windows) in windows[usize::from(*link)].iter_mut().enumerate() {
                        if ways[way] {
                            windows.push(now + window.start..now + window.end);
                        }
                    }
                }
                Disturbance::Rebind { link, at, address } => {
                    rebound += 1;
                    until = until.max(now + *at);
                    let ip = address.then(|| outside_ip(rebound));
                    let rebinding = Rebinding { from: now + *at, ip, port_shift: 100 * u16::from(rebound) };
                    self.sim.network().rebind(self.links[usize::from(*link)], rebinding);
                }
            }
        }
        for (link, windows) in self.links.iter().zip(windows) {
            self.sim.network().black_out(*link, windows.map(Blackout::new));
        }
        until
    }

    /// Continues the simulation after the last operation, and checks that the connection comes to rest.
    fn come_to_rest(&mut self, model: &Model, disturbed_until: Time) {
        let recovered = self.sim.now().max(disturbed_until) + MAX_RECOVERY;
        self.sim.run(recovered, |_| false);
        let before = self.packets();
        self.sim.run(recovered + REST, |_| false);
        let packets = self.packets() - before;
        if self.hosts.iter().any(|host| self.sim.application::<Peer>(*host).closed.is_some()) {
            return; // The report judges whether the connection may have ended.
        }
        let most = model.client.keep_alive().map_or(0, |_| MAX_AFTER_REBINDING);
        if packets > most {
            self.faults.push(format!("{packets} packets while there was nothing to say"));
        }
        let mut faults = Vec::new();
        let [client, server] = self.hosts.map(|host| {
            let handle = self.sim.application::<Peer>(host).handle;
            let (faults, key_updates) = (&mut faults, &mut self.key_updates);
            self.sim.with_endpoint(host, |_, endpoint| {
                let connection = endpoint.connection(handle?)?;
                *key_updates = connection.stats().key_updates.max(*key_updates);
                Some(at_rest(connection, faults))
            })
        });
        // The server's probes after a rebinding may still be in flight.
        if model.client.keep_alive().is_none() {
            self.faults.extend(faults);
        }
        if client != server || client.is_none() {
            self.faults.push(format!("paths at the client {client:?}, at the server {server:?}"));
        }
    }

    /// Returns the number of packets that have entered any link.
    fn packets(&mut self) -> u64 {
        let network = self.sim.network();
        self.links.iter().flat_map(|link| network.counters(*link)).map(|way| way.entered).sum()
    }

    fn report(mut self, model: &Model, fault: String) -> Report {
        if !fault.is_empty() {
            self.faults.push(fault);
        }
        let mut report =
            Report { seed: model.seed, trace: self.sim.network().trace().hash(), ..Report::default() };
        let peers = self.hosts.map(|host| self.sim.application::<Peer>(host));
        report.without_paths = peers.iter().any(|peer| peer.closed.as_ref().is_some_and(is_without_paths));
        // Neither end closes while it has a path that neither end has abandoned. The connection may have
        // closed without a path. Then each end abandoned one of the last paths before it received the other
        // end's PATH_ABANDON: its application asked for it, or the path did not respond.
        let [first, second] = peers;
        let to_blame = report.without_paths && !(gave_up(first, second) && gave_up(second, first));
        for peer in peers {
            self.faults.extend_from_slice(&peer.faults);
            report.received += peer.tally.received;
            report.complete += peer.tally.complete;
            if !report.without_paths && !peer.is_done() {
                self.faults.push(format!("{:?} misses {}", peer.side(), peer.missing()));
            }
            let closed = peer.closed.as_ref().map(ToString::to_string);
            let as_it_must = match &peer.closed {
                Some(error) if report.without_paths => {
                    !to_blame && (is_without_paths(error) || is_goodbye(error))
                }
                Some(error) => is_goodbye(error),
                None => false,
            };
            if !(as_it_must && (peer.is_done() || report.without_paths)) {
                self.faults.push(format!("{:?} was closed: {closed:?}", peer.side()));
            }
        }
        let [client, server] = peers.map(|peer| &peer.tally);
        report.opened = client.opened.len() as u64;
        report.gone = client.gone.union(&server.gone).count() as u64;
        report.moves = server.moves;
        report.key_updates = self.key_updates;
        report.faults = self.faults;
        report
    }
}

/// Returns true if an end has abandoned a path of its own accord, not because the other end had abandoned the
/// path.
fn gave_up(own: &Peer, other: &Peer) -> bool {
    let theirs = &other.tally.unanswered;
    let mut unanswered = own.tally.unanswered.iter();
    own.tally.abandoned > 0 || unanswered.any(|(path, at)| theirs.get(path).is_none_or(|theirs| at <= theirs))
}

/// Returns the paths of a connection that should be at rest. Adds everything still in flight, pending or
/// buffered to `faults`.
fn at_rest(connection: &mut Connection, faults: &mut Vec<String>) -> Vec<PathId> {
    let side = connection.side();
    let mut ids = Vec::new();
    for path in connection.paths() {
        if path.in_flight > 0 {
            faults.push(format!("{side:?}: {} bytes in flight on path {}", path.in_flight, path.id));
        }
        ids.push(path.id);
    }
    let streams = connection.streams();
    let left = (streams.pending_bytes(), streams.buffered_bytes());
    if left != (0, 0) {
        faults.push(format!("{side:?}: {left:?} bytes pending and buffered"));
    }
    ids
}
