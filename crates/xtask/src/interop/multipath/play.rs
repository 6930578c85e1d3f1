//! Execution and evaluation of a multipath case between two programs.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anabranch_lab::random::Seed;
use anabranch_lab::relay::{Direction, Relay};
use serde_json::Value;

use super::case::{Case, Check, Mark};
use super::traffic::{Traffic, stalls};
use crate::interop::field::Field;
use crate::interop::judge::Outcome;
use crate::interop::process::{Client, Ended, NoServer, Server, UNSUPPORTED, last_line, missing};
use crate::interop::program::{OURS, Program};

/// Seed of all randomness in the links.
const SEED: Seed = Seed(4);
/// Maximum duration of a client's run.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time in milliseconds during which datagrams may still arrive on a path that is no longer used.
const GRACE_MS: u64 = 250;
/// Minimum number of bytes that must be transferred after a path is no longer used. Otherwise its silence
/// proves nothing.
const REST: u64 = 1_000_000;
/// Traffic and reports of a case that was run.
struct CaseResult {
    rtt: Duration,
    traffic: Vec<Traffic>,
    client: Value,
    server: Value,
}

/// Runs `case` and judges it.
pub(super) fn play(case: &Case, client: &Program, server: &Program, field: &Field) -> Outcome {
    played(case, client, server, field).unwrap_or_else(|why| why)
}

fn played(case: &Case, client: &Program, server: &Program, field: &Field) -> Result<Outcome, Outcome> {
    let serving = Server::start(server_command(case, server, field)).map_err(|none| match none {
        NoServer::Unsupported(why) => Outcome::Unsupported(format!("server: {why}")),
        NoServer::Failed(why) => Outcome::Failed(why),
    })?;
    let traffic: Vec<Arc<Mutex<Traffic>>> = case.links.iter().map(|_| Arc::default()).collect();
    let relays = relays(case, serving.address.port(), &traffic).map_err(Outcome::Failed)?;
    let addresses: Vec<SocketAddr> = relays.iter().map(Relay::address).collect();
    let ended = Client::start(client_command(case, client, field, &addresses))
        .map_err(Outcome::Failed)?
        .end(PATIENCE);
    drop(relays);
    let served = serving.end();
    let client = report_of_client(&ended)?;
    let lines = served.map_err(Outcome::Failed)?;
    let server = lines.last().and_then(|line| serde_json::from_str(line).ok()).unwrap_or(Value::Null);
    let traffic =
        traffic.iter().map(|one| one.lock().unwrap_or_else(PoisonError::into_inner).clone()).collect();
    let played = CaseResult { rtt: case.rtt, traffic, client, server };
    let broken: Vec<String> = case.checks.iter().filter_map(|check| played.verify(check).err()).collect();
    let negotiated = Value::Bool(case.paths.0 > 0 && case.paths.1 > 0);
    if played.client["multipath"] != negotiated {
        return Err(Outcome::Failed(format!("multipath: {}", played.client["multipath"])));
    }
    match broken.is_empty() {
        true => Ok(Outcome::Pass(format!("{:.1} s", played.seconds()))),
        false => Err(Outcome::Failed(broken.join("; "))),
    }
}

fn report_of_client(ended: &Ended) -> Result<Value, Outcome> {
    if ended.code == Some(UNSUPPORTED) {
        return Err(Outcome::Unsupported(format!("client: {}", missing(&ended.log))));
    }
    if ended.timed_out {
        return Err(Outcome::Failed(format!("client took longer than {} s", PATIENCE.as_secs())));
    }
    if ended.code != Some(0) {
        return Err(Outcome::Failed(format!("client: {}", last_line(&ended.log))));
    }
    serde_json::from_str(last_line(&ended.output))
        .map_err(|error| Outcome::Failed(format!("client's report: {error}")))
}

/// Returns the loopback address of a link.
fn loopback(link: usize) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(127, 0, 0, u8::try_from(link + 1).unwrap_or(u8::MAX)))
}

/// Starts a relay for each link. Each relay listens on the link's loopback address and forwards to the server's
/// `port` at the same address.
fn relays(case: &Case, port: u16, traffic: &[Arc<Mutex<Traffic>>]) -> Result<Vec<Relay>, String> {
    let each = case.links.iter().zip(traffic).enumerate();
    each.map(|(number, (link, traffic))| {
        let ip = loopback(number);
        let (listen, server) = (SocketAddr::new(ip, 0), SocketAddr::new(ip, port));
        Relay::tapped(listen, server, link, SEED, Instant::now, Traffic::tap(traffic))
            .map_err(|error| format!("relay: {error}"))
    })
    .collect()
}

fn server_command(case: &Case, program: &Program, field: &Field) -> Command {
    let mut command = program.multipath("server");
    command.args(["--listen", "0.0.0.0:0", "--plan", case.server, "--paths", &case.paths.1.to_string()]);
    command.arg("--cert").arg(&field.short.chain).arg("--key").arg(&field.short.key);
    command.args(case.server_flags).args(own_flags(case, program));
    command
}

fn client_command(case: &Case, program: &Program, field: &Field, addresses: &[SocketAddr]) -> Command {
    let fill = |plan: String, (number, address): (usize, &SocketAddr)| {
        plan.replace(&format!("{{{number}}}"), &address.to_string())
    };
    let plan = addresses.iter().enumerate().fold(case.client.clone(), fill);
    let (download, upload, streams) = case.work;
    let mut command = program.multipath("client");
    command.args(["--connect", &addresses[0].to_string(), "--name", "localhost", "--plan", &plan]);
    command.args(["--download", &download.to_string(), "--upload", &upload.to_string()]);
    command.args(["--streams", &streams.to_string(), "--paths", &case.paths.0.to_string()]);
    command.arg("--ca").arg(&field.short.ca).args(case.client_flags).args(own_flags(case, program));
    command
}

/// Returns the flags for this endpoint, which depend on whether it is a peer's program.
fn own_flags(case: &Case, program: &Program) -> &'static [&'static str] {
    if program.name == OURS { &[] } else { case.peer_flags }
}

impl CaseResult {
    fn seconds(&self) -> f64 {
        self.client["seconds"].as_f64().unwrap_or(f64::INFINITY)
    }

    /// Returns the time at which a step was completed, in milliseconds of the system clock.
    fn step(&self, report: &Value, step: usize) -> Result<u64, String> {
        report["steps"][step]["at_ms"].as_u64().ok_or_else(|| format!("nobody has done step {step}"))
    }

    fn at(&self, mark: Mark, link: usize) -> Result<u64, String> {
        match mark {
            Mark::Client(step) => self.step(&self.client, step),
            Mark::Server(step) => self.step(&self.server, step),
            Mark::Elapsed(ms) => {
                let began =
                    self.traffic[link].began().ok_or_else(|| format!("nothing came to link {link}"))?;
                Ok(began + ms)
            }
        }
    }

    fn total(&self, way: Direction, from: u64) -> u64 {
        self.traffic.iter().map(|link| link.bytes(way, from, u64::MAX)).sum()
    }

    /// Returns the number of bytes in direction `way` that the link carried after the mark, and that all links
    /// carried, without the times at which the other endpoint stalled.
    ///
    /// # Errors
    ///
    /// Fails if less than [`REST`] was carried.
    fn carried(&self, way: Direction, link: usize, mark: Mark) -> Result<(u64, u64), String> {
        let from = self.at(mark, link)? + GRACE_MS;
        let excused = stalls(&self.traffic, way, self.rtt);
        let counted = |link: &Traffic| link.bytes_outside(way, from, &excused);
        let all = self.traffic.iter().map(counted).sum();
        if all < REST {
            return Err(format!("the work was over {all} bytes after {mark:?}"));
        }
        Ok((counted(&self.traffic[link]), all))
    }

    fn verify(&self, check: &Check) -> Result<(), String> {
        let ensure = |held: bool, broken: String| if held { Ok(()) } else { Err(broken) };
        match *check {
            Check::Share(way, link, least) => {
                let percent = 100 * self.traffic[link].bytes(way, 0, u64::MAX) / self.total(way, 0).max(1);
                ensure(percent >= least, format!("link {link} carried {percent} % {}", name(way)))
            }
            Check::Carries(way, link, mark, least) => {
                let bytes = self.traffic[link].bytes(way, self.at(mark, link)?, u64::MAX);
                ensure(
                    bytes >= least,
                    format!("link {link} carried {bytes} bytes {} after {mark:?}", name(way)),
                )
            }
            Check::Silent(way, link, mark, most) => {
                let (bytes, _) = self.carried(way, link, mark)?;
                ensure(
                    bytes < most,
                    format!("link {link} carried {bytes} bytes {} after {mark:?}", name(way)),
                )
            }
            Check::Spared(way, link, mark, percent) => {
                let (bytes, all) = self.carried(way, link, mark)?;
                let said = format!("link {link} carried {bytes} of {all} bytes {} after {mark:?}", name(way));
                ensure(100 * bytes < percent * all, said)
            }
            Check::SilentUntil(way, link, mark, most) => {
                let bytes = self.traffic[link].bytes(way, 0, self.at(mark, link)?);
                ensure(
                    bytes < most,
                    format!("link {link} carried {bytes} bytes {} before {mark:?}", name(way)),
                )
            }
            Check::Ids(way, link, least) => {
                let ids = self.traffic[link].ids(way);
                ensure(ids >= least, format!("link {link} saw {ids} connection IDs {}", name(way)))
            }
            Check::Within(ms) => {
                ensure(self.seconds() * 1000.0 <= ms as f64, format!("the work took {:.1} s", self.seconds()))
            }
        }
    }
}

fn name(way: Direction) -> &'static str {
    match way {
        Direction::ToServer => "to the server",
        Direction::ToClient => "to the client",
    }
}
