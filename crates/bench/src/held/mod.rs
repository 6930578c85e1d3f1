//! Idle connections that one server process holds, with keep-alive: its memory for each, and its processor time.

mod process;
pub(crate) mod server;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anabranch::{ClientConfig, Connection, Endpoint, TransportConfig, VarInt, config};
use clap::Args;
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use self::server::{ALPN, Server};
use crate::Error;
use crate::report::{BROKEN, Report, rounded};
use crate::stacks::Identity;

/// Maximum number of unfinished handshakes.
const AT_ONCE: usize = 64;
/// Maximum part of a core that keep-alives may take at a server of [`USUAL`] connections every 30 s.
const MAX_CORE: f64 = 0.05;
/// Connections and interval of keep-alives for which [`MAX_CORE`] is meant.
const USUAL: (u32, u64) = (100_000, 30);
/// Interval of progress messages, in connections.
const SHOWN: usize = 10_000;

#[derive(Args)]
pub(crate) struct Options {
    /// Number of connections
    #[arg(long, default_value_t = USUAL.0, value_parser = clap::value_parser!(u32).range(1..))]
    connections: u32,
    /// Interval at which clients send keep-alives, in seconds
    #[arg(long, default_value_t = USUAL.1, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    keep_alive: u64,
    /// Time of the measurement, in seconds. It begins one interval after the last handshake
    #[arg(long, default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// The server's allocator asks for huge pages, as `GLIBC_TUNABLES=glibc.malloc.hugetlb=1` does for any program
    #[arg(long)]
    huge_pages: bool,
}

impl Options {
    fn keep_alive(&self) -> Duration {
        Duration::from_secs(self.keep_alive)
    }
}

pub(crate) fn run(options: &Options) -> Result<Report, Error> {
    let identity = Identity::new()?;
    let server = Server::start(&identity, options)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let held = runtime.block_on(hold(options, &identity, &server))?;
    server.end()?;
    Ok(held.report(options))
}

/// Figures of the server.
#[derive(Debug)]
struct Held {
    /// Seconds of the server's processor for all handshakes, and until the last one was complete.
    handshakes: (f64, Duration),
    /// Resident memory for each connection, in bytes.
    resident: f64,
    /// Part of a core that the server needed during the measurement.
    core: f64,
    /// Connections that have ended.
    lost: usize,
}

/// Opens the connections, lets them be idle, and measures the server.
async fn hold(options: &Options, identity: &Identity, server: &Server) -> Result<Held, Error> {
    let transport = TransportConfig::default()
        .with_keep_alive(options.keep_alive())
        .with_max_idle_timeout(server::idle_timeout(options.keep_alive()));
    let client = config::client(config::roots(&identity.certificate())?, [ALPN])?.with_transport(transport);
    let endpoint = Endpoint::client(([127, 0, 0, 1], 0).into())?;
    let (before, begin) = (server.usage()?, Instant::now());
    let connections = connect(options.connections, &endpoint, &client, server.address).await?;
    let (opened, took) = (server.usage()?, begin.elapsed());
    tokio::time::sleep(options.keep_alive()).await;
    let (from, begin) = (server.usage()?, Instant::now());
    tokio::time::sleep(Duration::from_secs(options.seconds)).await;
    let to = server.usage()?;
    let core = (to.cpu - from.cpu) / begin.elapsed().as_secs_f64();
    let lost = connections.iter().filter(|connection| connection.close_reason().is_some()).count();
    endpoint.close(VarInt::ZERO, b"done");
    Ok(Held {
        handshakes: (opened.cpu - before.cpu, took),
        resident: (to.resident - before.resident) / f64::from(options.connections),
        core,
        lost,
    })
}

/// Opens `count` connections, [`AT_ONCE`] at the same time.
async fn connect(
    count: u32,
    endpoint: &Endpoint,
    client: &ClientConfig,
    server: SocketAddr,
) -> Result<Vec<Connection>, Error> {
    let turns = Arc::new(Semaphore::new(AT_ONCE));
    let (mut opening, mut connections) = (JoinSet::new(), Vec::with_capacity(count as usize));
    for _ in 0..count {
        let turn = Arc::clone(&turns).acquire_owned().await?;
        let connecting = endpoint.connect_with(client, server, "localhost")?;
        opening.spawn(async move {
            let connection = connecting.await;
            drop(turn);
            connection
        });
        while let Some(connection) = opening.try_join_next() {
            connections.push(connection??);
            if connections.len().is_multiple_of(SHOWN) {
                eprintln!("  {} connections", connections.len());
            }
        }
    }
    while let Some(connection) = opening.join_next().await {
        connections.push(connection??);
    }
    Ok(connections)
}

impl Held {
    fn report(&self, options: &Options) -> Report {
        let count = f64::from(options.connections);
        let row = |name: &str, value: String, verdict: &str| vec![name.to_owned(), value, verdict.to_owned()];
        let kept = |is_kept: bool| if is_kept { "kept" } else { BROKEN };
        let is_usual = (options.connections, options.keep_alive) == USUAL;
        let verdict = if is_usual { kept(self.core <= MAX_CORE) } else { "shown" };
        // One keep-alive and its acknowledgment.
        let each = self.core * 1e6 * options.keep_alive as f64 / count;
        Report {
            title: format!(
                "{} idle connections at one server process, a keep-alive of each every {} s, {} s, {} pages",
                options.connections,
                options.keep_alive,
                options.seconds,
                if options.huge_pages { "huge" } else { "small" }
            ),
            columns: vec!["what", "seen", "verdict"],
            rows: vec![
                row("lost", self.lost.to_string(), kept(self.lost == 0)),
                row("resident memory of a connection, bytes", format!("{:.0}", self.resident), "shown"),
                row("part of a core", format!("{:.1} %", self.core * 100.0), verdict),
                row("processor time of a keep-alive, µs", format!("{each:.1}"), "shown"),
                row(
                    "handshakes per second of the processor",
                    format!("{:.0}", count / self.handshakes.0),
                    "shown",
                ),
                row(
                    "handshakes per second",
                    format!("{:.0}", count / self.handshakes.1.as_secs_f64()),
                    "shown",
                ),
            ],
            json: json!({
                "connections": options.connections, "keep_alive_s": options.keep_alive, "huge_pages": options.huge_pages,
                "lost": self.lost,
                "resident_bytes": rounded(self.resident), "core": rounded(self.core), "keep_alive_us": rounded(each),
                "handshakes_per_s_core": rounded(count / self.handshakes.0),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_of_many_connections_that_needs_too_much_is_not_kept() {
        let held =
            |core, lost| Held { handshakes: (30.0, Duration::from_secs(60)), resident: 1e4, core, lost };
        let options =
            |connections| Options { connections, keep_alive: USUAL.1, seconds: 1, huge_pages: false };
        let broken = |held: Held, options: &Options| {
            held.report(options).rows.iter().filter(|row| row[2] == BROKEN).count()
        };
        assert_eq!(broken(held(0.04, 0), &options(USUAL.0)), 0);
        assert_eq!(broken(held(0.06, 0), &options(USUAL.0)), 1);
        assert_eq!(broken(held(0.06, 0), &options(10)), 0, "the limit is meant for many");
        assert_eq!(broken(held(0.06, 1), &options(USUAL.0)), 2);
    }
}
