//! Time from a request to the first byte of its response, over two paths and over each alone, in virtual time.

use std::time::Duration;

use anabranch_lab::app::{Dial, DownloadServer, PathOpener, RequestClient};
use anabranch_lab::link::LinkSpec;
use anabranch_lab::pair::{Pair, PairConfig};
use anabranch_lab::transfer::further_tuple;
use anabranch_transport::schedule::Algorithm;
use anabranch_transport::{MultipathConfig, TransportConfig};
use anabranch_wire::Time;
use anabranch_workloads::transfer::MAX_UDP_PAYLOAD;
use clap::Args;
use serde_json::json;

use crate::Error;
use crate::report::{BROKEN, Report, median, rounded};

/// Rate in bits per second, and round-trip times in milliseconds of the paths. The first one is the better one.
const RATE: u64 = 50_000_000;
const RTTS: [u64; 2] = [20, 60];
/// Bytes of a request and of its response.
const SIZES: [u64; 2] = [400, 10_000];
/// Virtual time within which all requests are answered.
const DEADLINE: Time = Time::from_millis(600_000);
/// Milliseconds by which the median over two paths may exceed that over the better one: a full packet at [`RATE`], since the frames of
/// several paths take a few bytes.
const PACKET_MS: f64 = 8e3 * MAX_UDP_PAYLOAD as f64 / RATE as f64;

#[derive(Args)]
pub(crate) struct Options {
    /// Number of requests on a connection
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    requests: u32,
    /// Milliseconds between two requests; 0 makes all at once
    #[arg(long, default_value_t = 50)]
    every_ms: u64,
    /// Number of connections, each with a seed of its own
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// Scheduler of the connections over two paths; may be repeated
    #[arg(long = "scheduler", value_name = "NAME")]
    schedulers: Vec<Algorithm>,
}

/// Paths of a connection.
#[derive(Clone, Debug)]
enum Over {
    /// This path alone.
    One(usize),
    /// Both paths, with a scheduler or the default one.
    Both(Option<Algorithm>),
}

impl Over {
    fn name(&self) -> String {
        match self {
            Self::One(path) => format!("{} ms alone", RTTS[*path]),
            Self::Both(None) => "both".to_owned(),
            Self::Both(Some(scheduler)) => format!("both, {scheduler}"),
        }
    }

    fn transport(&self) -> TransportConfig {
        let config = TransportConfig::default();
        match self {
            Self::One(_) => config,
            Self::Both(None) => config.with_multipath(MultipathConfig::default()),
            Self::Both(Some(scheduler)) => {
                config.with_multipath(MultipathConfig::default().with_scheduler(*scheduler))
            }
        }
    }

    fn links(&self) -> Vec<LinkSpec> {
        let link = |rtt| LinkSpec::new(RATE, Duration::from_millis(rtt)).mtu(MAX_UDP_PAYLOAD);
        match self {
            Self::One(path) => vec![link(RTTS[*path])],
            Self::Both(_) => RTTS.map(link).into(),
        }
    }
}

/// Milliseconds from requests to the first and to the last byte of their responses, in ascending order.
#[derive(Default)]
struct Times {
    first: Vec<f64>,
    last: Vec<f64>,
}

pub(crate) fn run(options: &Options) -> Result<Report, Error> {
    let mut all = vec![Over::One(0), Over::One(1), Over::Both(None)];
    all.extend(options.schedulers.iter().map(|scheduler| Over::Both(Some(*scheduler))));
    let times: Vec<Times> = all.iter().map(|over| measure(over, options)).collect::<Result<_, _>>()?;
    let better = median(&times[0].first);
    let (mut lines, mut rows) = (Vec::new(), Vec::new());
    for (over, times) in all.iter().zip(&times) {
        let values = [&times.first, &times.last].map(|one| [median(one), one[one.len() * 99 / 100]]);
        let [first, last] = values;
        let ratio = first[0] / better;
        let verdict = match over {
            Over::Both(None) if first[0] > better + PACKET_MS => BROKEN,
            Over::Both(None) => "kept",
            _ => "shown",
        };
        let mut line = vec![over.name()];
        line.extend(first.iter().chain(&last).map(|ms| format!("{ms:.2}")));
        line.extend([format!("{ratio:.3}"), verdict.to_owned()]);
        lines.push(line);
        rows.push(json!({
            "name": over.name(),
            "first_ms": { "p50": rounded(first[0]), "p99": rounded(first[1]) },
            "last_ms": { "p50": rounded(last[0]), "p99": rounded(last[1]) },
            "ratio": rounded(ratio),
        }));
    }
    let rhythm = match options.every_ms {
        0 => "all at once".to_owned(),
        every => format!("one each {every} ms"),
    };
    Ok(Report {
        title: format!(
            "{} requests, {rhythm}, for {} bytes over paths of {} Mbit/s, {} connections; milliseconds of virtual time",
            options.requests,
            SIZES[1],
            RATE / 1_000_000,
            options.seeds
        ),
        columns: vec![
            "paths",
            "first byte",
            "p99",
            "last byte",
            "p99",
            "first byte / better path",
            "verdict",
        ],
        rows: lines,
        json: json!({ "requests": options.requests, "every_ms": options.every_ms, "rows": rows }),
    })
}

/// Makes the requests on each connection.
fn measure(over: &Over, options: &Options) -> Result<Times, Error> {
    let mut times = Times::default();
    for seed in 0..options.seeds {
        connection(over, seed, options, &mut times).map_err(|error| format!("{}: {error}", over.name()))?;
    }
    times.first.sort_by(f64::total_cmp);
    times.last.sort_by(f64::total_cmp);
    Ok(times)
}

/// Makes the requests on one connection, and adds their times.
fn connection(over: &Over, seed: u64, options: &Options, times: &mut Times) -> Result<(), Error> {
    let transport = over.transport();
    let config =
        PairConfig { client: transport.clone(), server: transport, ..PairConfig::new(seed, over.links()) };
    let others = (1..over.links().len()).map(|link| further_tuple(link as u8));
    let every = Duration::from_millis(options.every_ms);
    let client = |_: &anabranch_lab::sim::Simulation, client, tuple| {
        let dial = Dial::new(client, tuple).with_paths(PathOpener::new(others));
        RequestClient::new(dial, SIZES, every, options.requests)
    };
    let mut pair = Pair::new(&config, client, DownloadServer::default(), |_| ())?;
    let host = pair.client;
    pair.sim.run(DEADLINE, |sim| sim.application::<RequestClient>(host).is_done());
    let client = pair.sim.application::<RequestClient>(host);
    if let Some(failure) = &client.failure {
        return Err(failure.clone().into());
    }
    if client.requests.len() != options.requests as usize {
        return Err(format!("{} requests were made", client.requests.len()).into());
    }
    for request in &client.requests {
        let since = |at: Time| 1e3 * at.saturating_since(request.made).as_secs_f64();
        let unanswered = "a request was not answered";
        times.first.push(since(request.begun.ok_or(unanswered)?));
        times.last.push(since(request.answered.ok_or(unanswered)?));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_takes_a_round_trip_of_its_path() {
        let report = run(&Options { requests: 5, every_ms: 50, seeds: 1, schedulers: Vec::new() }).unwrap();
        let first = |row: usize| report.json["rows"][row]["first_ms"]["p50"].as_f64().unwrap();
        assert!((20.0..25.0).contains(&first(0)), "{}", report.json);
        assert!((60.0..65.0).contains(&first(1)), "{}", report.json);
        assert!((20.0..60.0).contains(&first(2)), "{}", report.json);
    }
}
