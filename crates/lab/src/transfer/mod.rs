//! Measured download over several paths, the basis of the experiments on aggregation.

mod meter;

use core::time::Duration;

use anabranch_transport::{FourTuple, TransportConfig};
use anabranch_wire::Time;

use crate::app::{Dial, DownloadClient, DownloadServer, PathOpener};
use crate::link::{Counters, LinkSpec, Lost};
use crate::pair::{CLIENT_PORT, Pair, PairConfig, client_ip, server_address};
use crate::sim::{Outcome, Simulation};

pub use meter::{Growth, Meter, PathTotals, RoundTrip, Totals};

/// Simulated time after which a transfer counts as stuck.
const DEADLINE: Time = Time::from_millis(3_600_000);

/// Download by a client over all links simultaneously. The client closes the connection when it has all
/// bytes.
#[derive(Clone, Debug)]
pub struct Transfer {
    /// Seed from which all randomness follows.
    pub seed: u64,
    /// Links. The handshake uses the first one; the client opens a path on each of the others.
    pub links: Vec<LinkSpec>,
    /// Number of bytes of the download, which uses one stream.
    pub bytes: u64,
    /// The client's transport configuration.
    pub client: TransportConfig,
    /// The server's transport configuration.
    pub server: TransportConfig,
}

/// Measurements of a [`Transfer`]. Times count from the client's first packet.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Time at which the client received the response to its CONNECTION_CLOSE; `None` if there was none.
    pub closed: Option<Duration>,
    /// Time at which the last byte arrived.
    pub finished: Duration,
    /// Time at which the client's handshake completed.
    pub connected: Duration,
    /// Time of the client's first packet on each further path.
    pub opened: Vec<Duration>,
    /// STREAM bytes that the server sent more than once, in percent of the download.
    pub retransmitted_percent: f64,
    /// Number of packets dropped by the links' full queues on the way to the client.
    pub overflowed: u64,
    /// The client's counts.
    pub client: Totals,
    /// The server's counts.
    pub server: Totals,
    /// Fingerprint of all events.
    pub trace: u64,
    /// Counters of each link: from the client, and to it.
    pub links: Vec<[Counters; 2]>,
}

impl Transfer {
    /// Runs the transfer. If `watch` is `true`, prints all events to standard error.
    ///
    /// # Errors
    /// Returns the reason if the download did not complete.
    pub fn run(&self, watch: bool) -> Result<Measured, String> {
        let config = PairConfig {
            client: self.client.clone(),
            server: self.server.clone(),
            ..PairConfig::new(self.seed, self.links.clone())
        };
        let others = (1..self.links.len()).map(|link| further_tuple(link as u8));
        let client = |_: &Simulation, client, tuple| {
            DownloadClient::new(Dial::new(client, tuple).with_paths(PathOpener::new(others)), &[self.bytes])
        };
        let pair = Pair::new(&config, client, DownloadServer::default(), |_| ());
        let mut pair = pair.map_err(|error| error.to_string())?;
        let meters = [Meter::default(), Meter::default()];
        for (host, meter) in [pair.client, pair.server].into_iter().zip(&meters) {
            if watch {
                pair.sim.watch(host);
            }
            let meter = meter.clone();
            pair.sim.observe(host, move |_| Box::new(meter.clone()));
        }
        let (host, seen) = (pair.client, meters[0].clone());
        let outcome = pair.sim.run(DEADLINE, |sim| {
            sim.application::<DownloadClient>(host).is_done()
                && seen.look(|totals| totals.close_received.is_some())
        });
        self.measure(pair, meters, outcome)
    }

    fn measure(&self, mut pair: Pair, meters: [Meter; 2], outcome: Outcome) -> Result<Measured, String> {
        let [client, server] = meters.map(|meter| meter.totals());
        let application = pair.sim.application::<DownloadClient>(pair.client);
        if let Some(failure) = &application.failure {
            return Err(failure.clone());
        }
        if let Some(refused) = &application.dial.paths.refused {
            return Err(format!("a path was not opened: {refused}"));
        }
        let started = client.first_sent.ok_or("nothing was sent")?;
        let since = |at: Time| at.saturating_since(started);
        let finished = application.finished.ok_or_else(|| format!("not finished: {outcome:?}"))?;
        let opened = application.dial.paths.opened.iter().map(|(_, at)| since(*at)).collect();
        let connected = since(application.connected.unwrap_or(finished));
        let network = pair.sim.network();
        let links: Vec<_> = pair.links.iter().map(|link| network.counters(*link)).collect();
        Ok(Measured {
            closed: client.close_received.map(since),
            finished: since(finished),
            connected,
            opened,
            retransmitted_percent: server.stream_bytes.saturating_sub(self.bytes) as f64 * 100.0
                / self.bytes as f64,
            overflowed: links.iter().map(|[_, back]| back.lost(Lost::Overflow)).sum(),
            client,
            server,
            trace: network.trace().hash(),
            links,
        })
    }
}

/// Returns the addresses of the path over link number `link`.
pub fn further_tuple(link: u8) -> FourTuple {
    FourTuple { local: (client_ip(link), CLIENT_PORT).into(), remote: server_address() }
}
