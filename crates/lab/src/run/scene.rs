//! Common part of all workloads: two observed hosts, connected by the point's links.

use anabranch_transport::stream::ReceivedBytes;
use anabranch_transport::{Handle, ReorderingStats};
use anabranch_wire::{Side, Time};

use crate::app::{Application, Dial, DownloadServer, PathOpener};
use crate::experiment::{Experiment, Job, Workload};
use crate::link::{LinkSpec, Lost};
use crate::network::{LinkId, Network};
use crate::pair::{Pair, PairConfig, client_ip, server_address};
use crate::profile::Variant;
use crate::record::Row;
use crate::sim::{Outcome, Simulation};
use crate::transfer::further_tuple;

use super::RunOptions;
use super::guest_counts::GuestCounts;
use super::observe::Recorder;
use super::qlog;

/// Inputs of a run.
pub(super) struct Scene<'a> {
    pub(super) experiment: &'a Experiment,
    pub(super) job: Job,
    pub(super) options: &'a RunOptions,
    /// Indices of the point's paths that are used.
    pub(super) paths: &'a [usize],
    pub(super) recorder: &'a Recorder,
}

/// Measurements of a run that its workload takes.
#[derive(Debug, Default)]
pub(super) struct RunResult {
    /// Reason for the failure; empty if the run succeeded.
    pub(super) failure: String,
    pub(super) transfer_time: Option<Time>,
    pub(super) last_byte: Option<Time>,
    pub(super) handshake: Option<Time>,
    pub(super) request_times_s: Vec<f64>,
    pub(super) request_delays_s: Vec<f64>,
    pub(super) flow_goodput_bps: Vec<f64>,
    pub(super) max_queue: Vec<u64>,
    pub(super) overflows: Vec<u64>,
    /// Counts of the client's connection.
    pub(super) received: Option<Arrived>,
    /// Counts that two guests reported.
    pub(super) guest: Option<GuestCounts>,
}

/// Counts of the packets and bytes that a client received.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrived {
    /// Numbers of stream bytes, by the way in which they reached the reader's buffer.
    bytes: ReceivedBytes,
    ordered_ratio: Option<f64>,
    reordering: ReorderingStats,
}

impl Scene<'_> {
    pub(super) fn variant(&self) -> &Variant {
        &self.experiment.variants[self.job.variant]
    }

    /// Returns the server of downloads and responses.
    pub(super) fn server(&self) -> DownloadServer {
        DownloadServer::default().with_weights(self.variant().settings.weights.clone().unwrap_or_default())
    }

    /// Returns the simulated time at which the run fails if it is not done.
    pub(super) fn deadline(&self) -> Time {
        Time::ZERO + self.experiment.deadline
    }

    /// Creates both hosts with the links of the paths in use, and observes them. `client` gets the
    /// connection, which opens the further paths, and creates the client's application.
    pub(super) fn pair<C: Application>(
        &self,
        client: impl FnOnce(Dial) -> C,
        server: impl Application,
    ) -> Result<Pair, String> {
        self.build(client, server, self.paths.len())
    }

    /// Creates both hosts in the same way, but with all paths over the first path's link.
    pub(super) fn pair_on_one_link<C: Application>(
        &self,
        client: impl FnOnce(Dial) -> C,
        server: impl Application,
    ) -> Result<Pair, String> {
        let mut pair = self.build(client, server, 1)?;
        for path in 1..self.paths.len() {
            let ends = [(pair.client, client_ip(path as u8)), (pair.server, server_address().ip())];
            pair.sim.network().share_link(pair.links[0], ends[0], ends[1]);
        }
        Ok(pair)
    }

    /// Creates both hosts with the links of the first `own` paths.
    fn build<C: Application>(
        &self,
        client: impl FnOnce(Dial) -> C,
        server: impl Application,
        own: usize,
    ) -> Result<Pair, String> {
        let links = self.links()?.into_iter().take(own);
        let config = PairConfig {
            client: self.variant().client(),
            server: self.variant().server(),
            initial_version: self.variant().wire().version(),
            ..PairConfig::new(self.seed(), links)
        };
        let opener = PathOpener::new((1..self.paths.len()).map(|link| further_tuple(link as u8)));
        let client = |_: &Simulation, config, tuple| client(Dial::new(config, tuple).with_paths(opener));
        let mut pair = Pair::new(&config, client, server, |_| ()).map_err(|error| error.to_string())?;
        self.observe(&mut pair);
        #[cfg(test)]
        self.options.hook.iter().for_each(|hook| hook(self.job));
        Ok(pair)
    }

    pub(super) fn seed(&self) -> u64 {
        self.experiment.seed(self.job)
    }

    /// Returns the links of the paths in use.
    pub(super) fn links(&self) -> Result<Vec<LinkSpec>, String> {
        let all = &self.experiment.points[self.job.point].paths;
        if self.paths.is_empty() {
            return Err(format!("the variant uses none of the point's {} paths", all.len()));
        }
        Ok(self.paths.iter().map(|path| all[*path].link()).collect())
    }

    /// Returns whether the client sends the data.
    fn is_upload(&self) -> bool {
        matches!(self.experiment.workload, Workload::Upload { .. })
    }

    /// Returns the role in which the end `side` is counted. Rows describe a server that sends and a client
    /// that receives, so the roles are swapped in an upload.
    fn role(&self, side: Side) -> Side {
        match side {
            Side::Client if self.is_upload() => Side::Server,
            Side::Server if self.is_upload() => Side::Client,
            side => side,
        }
    }

    /// Returns the end that receives the data. The counts of links are those of the direction towards this
    /// end.
    pub(super) fn receiver(&self) -> Side {
        self.role(Side::Client)
    }

    fn observe(&self, pair: &mut Pair) {
        for (host, side) in [(pair.client, Side::Client), (pair.server, Side::Server)] {
            let recorder = self.recorder.clone();
            let role = self.role(side);
            pair.sim.observe(host, move |_| recorder.observer(role));
        }
        if let Some(dir) = &self.options.qlog {
            let point = self.experiment.points[self.job.point].run;
            let name = format!("{}-{point}-{}", self.variant().name, self.job.repetition);
            let traces = qlog::Traces::new(dir, &name);
            for (host, side) in [(pair.client, Side::Client), (pair.server, Side::Server)] {
                let traces = traces.clone();
                pair.sim.observe(host, move |_| Box::new(traces.of(side)));
            }
        }
    }
}

impl RunResult {
    /// Creates a result that contains only the reason for a failure.
    pub(super) fn failed(failure: String) -> Self {
        Self { failure, ..Self::default() }
    }

    /// Adds the counts of the links towards the receiver, and of the client's connection if it still exists.
    pub(super) fn with_counts(mut self, pair: &mut Pair, client: Option<Handle>, receiver: Side) -> Self {
        self = self.with_links(pair.sim.network(), &pair.links, receiver);
        self.received = pair.sim.with_endpoint(pair.client, |_, endpoint| {
            client.and_then(|handle| endpoint.connection(handle)).map(|connection| connection.stats()).map(
                |stats| Arrived {
                    bytes: stats.received,
                    ordered_ratio: stats.ordered_ratio(),
                    reordering: stats.reordering(),
                },
            )
        });
        self
    }

    /// Adds the counts of the links towards the receiver.
    pub(super) fn with_links(mut self, network: &Network, links: &[LinkId], receiver: Side) -> Self {
        for link in links {
            let [to_server, to_client] = network.counters(*link);
            let there = match receiver {
                Side::Client => to_client,
                Side::Server => to_server,
            };
            self.max_queue.push(there.longest_queue);
            self.overflows.push(there.lost(Lost::Overflow));
        }
        self
    }

    /// Writes the result to `row`. The client's first packet is sent at [`Time::ZERO`].
    pub(super) fn fill(self, row: &mut Row) {
        row.failure = self.failure;
        row.transfer_time_s = self.transfer_time.map(seconds);
        row.last_byte_s = self.last_byte.map(seconds);
        row.handshake_s = self.handshake.map(seconds);
        row.request_times_s = self.request_times_s;
        row.request_delays_s = self.request_delays_s;
        row.flow_goodput_bps = self.flow_goodput_bps;
        row.path_max_queue = self.max_queue;
        row.path_overflows = self.overflows;
        row.placed_bytes = self.received.map(|arrived| arrived.bytes.placed);
        row.copied_bytes = self.received.map(|arrived| arrived.bytes.copied);
        row.restored_bytes = self.received.map(|arrived| arrived.bytes.restored);
        row.ordered_ratio = self.received.and_then(|arrived| arrived.ordered_ratio);
        row.reordering_packets = self.received.map(|arrived| arrived.reordering.max_distance);
        row.reordering_s = self.received.map(|arrived| arrived.reordering.max_delay.as_secs_f64());
    }
}

/// Describes for a human reader why a run made no more progress.
pub(super) fn stalled(outcome: Outcome, at: Time) -> String {
    match outcome {
        Outcome::Done | Outcome::Quiet => format!("nothing happens any more after {:.3} s", seconds(at)),
        Outcome::Deadline => format!("not done at the deadline of {:.0} s", seconds(at)),
        Outcome::Spinning(host) => format!("host {} does not come to rest at {:.3} s", host.0, seconds(at)),
    }
}

pub(super) fn seconds(since_start: Time) -> f64 {
    since_start.as_nanos() as f64 / 1e9
}
