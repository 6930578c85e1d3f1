//! A transfer from a server to a client in this process, over links between them.

use anabranch::{ClientConfig, Connection, Endpoint, ServerConfig, VarInt};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anabranch_lab::relay::Relay;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::arrivals::{Arrivals, Received};
use super::links::{Fail, Link};
use super::source::Source;
use super::timeline::{Event, INTERVAL, Sample, Sampler, Timeline};
use crate::exit::{self, Exit, Failure, Result};

/// Name in the server's certificate.
pub(super) const NAME: &str = "localhost";
/// Duration of the measurement of a path alone, and of its first part. The first part does not count, because
/// the sender is still increasing its rate.
const ALONE: Duration = Duration::from_secs(4);
const WARM_UP: Duration = Duration::from_secs(1);
/// Maximum time that both ends have to close the connection.
const FAREWELL: Duration = Duration::from_millis(300);
/// Seed of the links' losses, so that they are the same in each run, as far as real time permits.
const SEED: u64 = 10_069;

/// Both ends and the links between them, before the first packet.
pub(super) struct Scene {
    pub(super) relays: Vec<Relay>,
    client: Endpoint,
    config: ClientConfig,
    source: Source,
    /// Receiver of the server's end of the connection.
    accepted: oneshot::Receiver<Connection>,
    serving: JoinHandle<Result>,
}

/// Configurations of both ends.
#[derive(Clone, Debug)]
pub(super) struct Ends {
    pub(super) client: ClientConfig,
    pub(super) server: ServerConfig,
    pub(super) qlog: Option<PathBuf>,
}

/// A completed transfer.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    /// Time from the client's first packet to the last byte.
    pub(super) took: Duration,
    pub(super) received: Received,
    pub(super) timeline: Timeline,
    /// For each link, the reason why its path could not be opened, if any.
    pub(super) refusals: Vec<Option<String>>,
}

impl Scene {
    pub(super) fn set(ends: Ends, links: &[Link], source: Source) -> Result<Self> {
        let loopback = (Ipv4Addr::LOCALHOST, 0).into();
        let cannot_bind = |error| Failure::io("cannot bind to the loopback interface", &error);
        let server = Endpoint::server(ends.server, loopback).map_err(|error| cannot_bind(error.into()))?;
        let client = Endpoint::client(loopback).map_err(|error| cannot_bind(error.into()))?;
        if ends.qlog.is_some() {
            server.set_qlog_dir(ends.qlog.clone());
            client.set_qlog_dir(ends.qlog);
        }
        let address = server.local_addr().map_err(cannot_bind)?;
        let start = |(index, link): (usize, &Link)| link.start(address, SEED + index as u64);
        let relays = links.iter().enumerate().map(start).collect::<std::io::Result<_>>();
        let relays = relays.map_err(|error| Failure::io("cannot start a link", &error))?;
        let (tell, accepted) = oneshot::channel();
        let serving = tokio::spawn(serve(server, source.clone(), tell));
        Ok(Self { relays, client, config: ends.client, source, accepted, serving })
    }

    fn addresses(&self) -> Vec<SocketAddr> {
        self.relays.iter().map(Relay::address).collect()
    }

    /// Connects over the first link.
    async fn connect(&self) -> Result<Connection> {
        let Some(first) = self.relays.first() else { return Err(Failure::new(Exit::Usage, "no links")) };
        let connecting = self.client.connect_with(&self.config, first.address(), NAME)?;
        connecting.await.map_err(exit::handshake)
    }

    /// Moves all data. `show` receives the state of the paths several times a second.
    pub(super) async fn play(mut self, fails: &[Fail], mut show: impl FnMut(&Timeline)) -> Result<Outcome> {
        let begin = Instant::now();
        for fail in fails {
            fail.arrange(&self.relays[fail.path], begin.elapsed());
        }
        let client = self.connect().await?;
        let opening = tokio::spawn(open_paths(client.clone(), self.addresses()));
        let server = (&mut self.accepted).await;
        let server = server.map_err(|_| Failure::new(Exit::Protocol, "nobody connected"))?;
        let mut watch = Sampler::new(client.clone(), server, self.addresses());
        let mut timeline = Timeline::new();
        for fail in fails {
            timeline.tell(Event { at: fail.at, path: fail.path, what: "link dead".to_owned() });
            if let Some(lasts) = fail.lasts {
                timeline.tell(Event { at: fail.at + lasts, path: fail.path, what: "link back".to_owned() });
            }
        }

        let failures = fails.iter().map(|fail| begin + fail.at);
        let arrivals = Arrivals::new(self.source.len(), begin, failures);
        let bytes = Arc::new(AtomicU64::new(0));
        let mut receiving = std::pin::pin!(receive(&client, arrivals, Arc::clone(&bytes)));
        let mut ticks = tokio::time::interval(INTERVAL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        let received = loop {
            let over = tokio::select! {
                received = &mut receiving => Some(received),
                _ = ticks.tick() => None,
            };
            let at = begin.elapsed();
            if over.is_some() || timeline.is_due(at) {
                timeline.add(Sample { at, bytes: bytes.load(Ordering::Relaxed), paths: watch.look() });
                show(&timeline);
            }
            if let Some(received) = over {
                break received;
            }
        };
        let took = begin.elapsed();
        client.close(VarInt::from_u32(0), b"");
        let refusals = opening.await.unwrap_or_default();
        self.farewell().await?;
        timeline.events.retain(|event| event.at <= took);
        timeline.events.sort_by_key(|event| event.at);
        Ok(Outcome { took, received: received?, timeline, refusals })
    }

    /// Measures the rate of the links, in bits per second, without the time of slow start. If all bytes
    /// arrive before the end of the measurement, the time from the beginning counts.
    pub(super) async fn measure(self, bytes: Arc<AtomicU64>) -> Result<f64> {
        let begin = Instant::now();
        let client = self.connect().await?;
        let arrivals = Arrivals::new(self.source.len(), begin, []);
        let measured = async {
            tokio::time::sleep_until((begin + WARM_UP).into()).await;
            let counted = (begin.elapsed(), bytes.load(Ordering::Relaxed));
            tokio::time::sleep_until((begin + ALONE).into()).await;
            counted
        };
        let counted = tokio::select! {
            received = receive(&client, arrivals, Arc::clone(&bytes)) => {
                received.map(|_| (Duration::ZERO, 0))
            }
            counted = measured => Ok(counted),
        };
        let (end, moved) = (begin.elapsed(), bytes.load(Ordering::Relaxed));
        client.close(VarInt::from_u32(0), b"");
        self.farewell().await?;
        let (from, before) = counted?;
        Ok((moved - before) as f64 * 8.0 / (end - from).as_secs_f64())
    }

    /// Waits until the client has sent CONNECTION_CLOSE and the server has ended. Returns the server's error,
    /// if any. A server that does not end in time is no error.
    async fn farewell(self) -> Result {
        let _ = tokio::time::timeout(FAREWELL, self.client.wait_close_sent()).await;
        match tokio::time::timeout(FAREWELL, self.serving).await {
            Ok(Ok(served)) => served,
            Ok(Err(error)) => Err(Failure::new(Exit::Protocol, error)),
            // The CONNECTION_CLOSE may have been lost on the links.
            Err(_) => Ok(()),
        }
    }
}

/// Opens a path over each link but the first. Returns, for each link, the reason if no path could be opened.
async fn open_paths(connection: Connection, addresses: Vec<SocketAddr>) -> Vec<Option<String>> {
    let mut refusals = vec![None; addresses.len()];
    let mut opening = tokio::task::JoinSet::new();
    for (link, address) in addresses.into_iter().enumerate().skip(1) {
        let connection = connection.clone();
        opening.spawn(async move {
            // Each path has its own socket, as on a host with several interfaces.
            let local: SocketAddr = (Ipv4Addr::LOCALHOST, 0).into();
            let opened = connection.open_path(local, Some(address)).await;
            (link, opened.err().filter(|_| connection.close_reason().is_none()))
        });
    }
    while let Some(opened) = opening.join_next().await {
        if let Ok((link, Some(error))) = opened {
            refusals[link] = Some(error.to_string());
        }
    }
    refusals
}

/// Reads a stream to its end; `bytes` counts the received bytes.
async fn receive(connection: &Connection, mut arrivals: Arrivals, bytes: Arc<AtomicU64>) -> Result<Received> {
    let mut stream = connection.accept_uni().await?;
    let mut read = |piece: &[u8]| {
        bytes.fetch_add(arrivals.take(Instant::now(), piece), Ordering::Relaxed);
        piece.len()
    };
    while stream.read_with(&mut read).await?.is_some() {}
    Ok(arrivals.finish())
}

/// Sends all data to the first client that connects.
async fn serve(endpoint: Endpoint, source: Source, tell: oneshot::Sender<Connection>) -> Result {
    let gone = || Failure::new(Exit::Protocol, "nobody connected");
    let connection = endpoint.accept().await.ok_or_else(gone)?.await.map_err(exit::handshake)?;
    // The receiver is gone if only a rate is measured.
    let _ = tell.send(connection.clone());
    let mut stream = connection.open_uni().await?;
    let mut pieces = source.pieces();
    while let Some(piece) = pieces.recv().await {
        let piece = match piece {
            Ok(piece) => piece,
            Err(error) => {
                connection.close(VarInt::from_u32(1), b"cannot read");
                return Err(Failure::io("cannot read what is to be moved", &error));
            }
        };
        if stream.write_chunk(piece).await.is_err() {
            // The stream or the connection has ended. The client knows the reason, and reports it.
            return Ok(());
        }
    }
    let _ = stream.finish();
    connection.closed().await;
    Ok(())
}
