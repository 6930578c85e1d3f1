//! Small HTTP/3 requests over loopback: the number of responses per second of server CPU.

use clap::Args;
use serde_json::{Map, Value, json};

use crate::Error;
use crate::report::{Report, median, rounded};
use crate::stacks::{Choice, Identity, Measured, OURS, Rates, Stack, client_of_all, rotate};

/// Stacks whose programs serve `/bytes/N` over HTTP/3.
const SPEAK_HTTP3: &[&str] = &[OURS, "quinn", "s2n-quic", "quiche", "quic-go"];

#[derive(Args)]
pub(crate) struct Options {
    /// Number of rounds; each stack runs once in each round, in rotated order
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Number of requests in a round, over all connections; a tenth of it with one at a time
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1..))]
    requests: u64,
    /// Numbers of concurrent requests on each connection to measure with
    #[arg(long, value_delimiter = ',', default_values_t = [100, 1], value_parser = clap::value_parser!(u64).range(1..))]
    concurrency: Vec<u64>,
    /// Numbers of connections to measure with
    #[arg(long, value_delimiter = ',', default_values_t = [1, 100])]
    connections: Vec<u64>,
    /// Size of a response in bytes
    #[arg(long, default_value_t = 100)]
    bytes: u64,
    /// Use this stack's client for every server [default: each stack's own]
    #[arg(long, value_name = "STACK")]
    client: Option<String>,
    #[command(flatten)]
    choice: Choice,
}

/// Load of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Load {
    requests: u64,
    /// Concurrent requests on each connection.
    concurrency: u64,
    connections: u64,
}

/// Medians of one stack with one load.
struct Row {
    name: &'static str,
    load: Load,
    requests: Rates,
    latency: Latency,
}

/// Microseconds from a request to the end of its response, as the client measures them; NaN if it does not.
struct Latency {
    p50: f64,
    p99: f64,
}

impl Latency {
    fn new(runs: &[Measured]) -> Self {
        let middle = |name: &str| {
            let of = |run: &Measured| run.result["latency_us"][name].as_f64().unwrap_or(f64::NAN);
            median(&runs.iter().map(of).collect::<Vec<_>>())
        };
        Self { p50: middle("p50"), p99: middle("p99") }
    }

    /// Returns both values; `None` if the client does not measure them.
    fn values(&self) -> Option<[f64; 2]> {
        (!self.p50.is_nan() && !self.p99.is_nan()).then_some([self.p50, self.p99])
    }
}

impl Row {
    fn new(load: Load, stack: &Stack, runs: &[Measured]) -> Self {
        let (requests, latency) = (Rates::new(load.requests, runs), Latency::new(runs));
        Self { name: stack.name, load, requests, latency }
    }

    fn json(&self) -> Value {
        json!({
            "name": self.name, "connections": self.load.connections, "concurrency": self.load.concurrency,
            "requests_per_s_core": rounded(self.requests.server),
            "client_requests_per_s_core": rounded(self.requests.client), "requests_per_s": rounded(self.requests.wall),
            "latency_us": self.latency.values().map(|[p50, p99]| json!({ "p50": rounded(p50), "p99": rounded(p99) })),
        })
    }
}

pub(crate) fn run(options: &Options) -> Result<Report, Error> {
    let mut stacks = options.choice.built()?;
    stacks.retain(|stack| SPEAK_HTTP3.contains(&stack.name));
    let client = client_of_all(&stacks, options.client.as_deref())?;
    let identity = Identity::new()?;
    let mut rows = Vec::new();
    for load in loads(options) {
        let work = work(load, options.bytes);
        let runs = rotate(options.rounds, stacks.clone(), |stack| {
            let run = stack.run(client.as_ref().unwrap_or(stack), &identity, &work)?;
            match run.result["requests"].as_u64() {
                Some(made) if made == load.requests => Ok(run),
                other => Err(format!("{}: {other:?} requests were answered", stack.name).into()),
            }
        })?;
        rows.extend(runs.iter().map(|(stack, runs)| Row::new(load, stack, runs)));
    }
    Ok(report(options, &rows))
}

/// Returns the loads in the order of the table. One request at a time takes a round trip each, so that a tenth of
/// the requests is enough.
fn loads(options: &Options) -> Vec<Load> {
    let of = |&concurrency: &u64| {
        let requests = if concurrency == 1 { options.requests.div_ceil(10) } else { options.requests };
        options.connections.iter().map(move |&connections| Load { requests, concurrency, connections })
    };
    options.concurrency.iter().flat_map(of).collect()
}

fn work(load: Load, bytes: u64) -> Vec<String> {
    let mut work = vec!["--http3".to_owned()];
    for (flag, value) in [
        ("--requests", load.requests),
        ("--concurrency", load.concurrency),
        ("--connections", load.connections),
    ] {
        work.extend([flag.to_owned(), value.to_string()]);
    }
    work.push(format!("/bytes/{bytes}"));
    work
}

/// Returns the name of a row's ratio. That of one request at a time has a third part.
fn ratio_name(row: &Row) -> String {
    let Load { concurrency, connections, .. } = row.load;
    let serial = if concurrency == 1 { "/1" } else { "" };
    format!("{}/{connections}{serial}", row.name)
}

fn report(options: &Options, rows: &[Row]) -> Report {
    let against = |row: &Row| {
        let ours = rows.iter().find(|ours| ours.name == OURS && ours.load == row.load)?;
        (row.name != OURS).then(|| ours.requests.server / row.requests.server)
    };
    let ratio: Map<String, Value> =
        rows.iter().filter_map(|row| Some((ratio_name(row), json!(rounded(against(row)?))))).collect();
    let cells = |row: &Row| {
        let [server, client, wall] = row.requests.cells();
        let [p50, p99] = match row.latency.values() {
            Some(values) => values.map(|value| format!("{value:.0}")),
            None => ["–", "–"].map(str::to_owned),
        };
        let ratio = against(row).map_or(String::from("–"), |ratio| format!("{ratio:.2}"));
        let (concurrency, connections) = (row.load.concurrency.to_string(), row.load.connections.to_string());
        vec![row.name.to_owned(), concurrency, connections, server, client, wall, p50, p99, ratio]
    };
    Report {
        title: format!(
            "HTTP/3 requests of {} bytes over loopback, medians of {} rounds of {} (a tenth with one at once); client: {}; {}",
            options.bytes,
            options.rounds,
            options.requests,
            options.client.as_deref().unwrap_or("each stack's own"),
            options.choice.allocator,
        ),
        columns: vec![
            "stack",
            "at once",
            "connections",
            "per server CPU s",
            "per client CPU s",
            "per s",
            "p50 µs",
            "p99 µs",
            "ours / theirs",
        ],
        rows: rows.iter().map(cells).collect(),
        json: json!({ "allocator": options.choice.allocator.name(), "rows": rows.iter().map(Row::json).collect::<Vec<_>>(), "ratio": ratio }),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::child::Cost;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn run(seconds: f64, latency: &Value) -> Measured {
        let cost = Cost { cpu: seconds, rss: 0.0 };
        let result = json!({ "seconds": seconds, "latency_us": latency });
        Measured { server: cost, client: cost, result }
    }

    #[test]
    fn one_at_a_time_makes_a_tenth() {
        let options = Line::parse_from(["bench", "--requests", "95", "--connections", "3"]).options;
        let all = loads(&options);
        assert_eq!(all.len(), 2);
        assert_eq!(all[0], Load { requests: 95, concurrency: 100, connections: 3 });
        assert_eq!(all[1], Load { requests: 10, concurrency: 1, connections: 3 });
        let work = work(all[1], 7).join(" ");
        assert_eq!(work, "--http3 --requests 10 --concurrency 1 --connections 3 /bytes/7");
    }

    #[test]
    fn each_load_is_compared_with_itself() {
        let options = Line::parse_from(["bench"]).options;
        let stacks = [(OURS, 1.0), ("quinn", 2.0)];
        let rows: Vec<Row> = loads(&options)
            .into_iter()
            .flat_map(|load| {
                stacks.map(|(name, seconds)| {
                    let latency = if name == OURS {
                        json!({ "p50": 3.0, "p99": load.concurrency })
                    } else {
                        Value::Null
                    };
                    let requests = Rates::new(load.requests, &[run(seconds, &Value::Null)]);
                    Row { name, load, requests, latency: Latency::new(&[run(seconds, &latency)]) }
                })
            })
            .collect();
        let report = report(&options, &rows);
        let ratio = report.json["ratio"].as_object().unwrap();
        let mut names: Vec<_> = ratio.keys().collect();
        names.sort();
        assert_eq!(names, ["quinn/1", "quinn/1/1", "quinn/100", "quinn/100/1"]);
        assert!(ratio.values().all(|ratio| *ratio == 2.0), "{ratio:?}");
        let of = |row: usize| &report.json["rows"][row];
        assert_eq!((&of(0)["latency_us"]["p99"], &of(0)["concurrency"]), (&json!(100.0), &json!(100)));
        assert_eq!((&of(4)["latency_us"]["p99"], &of(4)["concurrency"]), (&json!(1.0), &json!(1)));
        assert!(of(1)["latency_us"].is_null());
        assert!(report.rows.iter().all(|row| row.len() == report.columns.len()));
    }
}
