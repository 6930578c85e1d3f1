//! Small HTTP/3 requests over loopback: the number of responses per second of server CPU.

use clap::Args;
use serde_json::{Map, Value, json};

use crate::Error;
use crate::report::{Report, rounded};
use crate::stacks::{Choice, Identity, Measured, OURS, Rates, Stack, client_of_all, rotate};

/// Stacks whose programs serve `/bytes/N` over HTTP/3.
const SPEAK_HTTP3: &[&str] = &[OURS, "quinn", "quiche", "quic-go"];

#[derive(Args)]
pub(crate) struct Options {
    /// Number of rounds; each stack runs once in each round, in rotated order
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Number of requests in a round, over all connections
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1..))]
    requests: u64,
    /// Number of concurrent requests on each connection
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    concurrency: u64,
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

/// Medians of one stack with one number of connections.
struct Row {
    name: &'static str,
    connections: u64,
    requests: Rates,
}

impl Row {
    fn new(options: &Options, connections: u64, stack: &Stack, runs: &[Measured]) -> Self {
        Self { name: stack.name, connections, requests: Rates::new(options.requests, runs) }
    }

    fn json(&self) -> Value {
        json!({
            "name": self.name, "connections": self.connections,
            "requests_per_s_core": rounded(self.requests.server),
            "client_requests_per_s_core": rounded(self.requests.client), "requests_per_s": rounded(self.requests.wall),
        })
    }
}

pub(crate) fn run(options: &Options) -> Result<Report, Error> {
    let mut stacks = options.choice.built()?;
    stacks.retain(|stack| SPEAK_HTTP3.contains(&stack.name));
    let client = client_of_all(&stacks, options.client.as_deref())?;
    let identity = Identity::new()?;
    let mut rows = Vec::new();
    for &connections in &options.connections {
        let work = work(options, connections);
        let runs = rotate(options.rounds, stacks.clone(), |stack| {
            let run = stack.run(client.as_ref().unwrap_or(stack), &identity, &work)?;
            match run.result["requests"].as_u64() {
                Some(made) if made == options.requests => Ok(run),
                other => Err(format!("{}: {other:?} requests were answered", stack.name).into()),
            }
        })?;
        rows.extend(runs.iter().map(|(stack, runs)| Row::new(options, connections, stack, runs)));
    }
    Ok(report(options, &rows))
}

fn work(options: &Options, connections: u64) -> Vec<String> {
    let mut work = vec!["--http3".to_owned()];
    for (flag, value) in [
        ("--requests", options.requests),
        ("--concurrency", options.concurrency),
        ("--connections", connections),
    ] {
        work.extend([flag.to_owned(), value.to_string()]);
    }
    work.push(format!("/bytes/{}", options.bytes));
    work
}

fn report(options: &Options, rows: &[Row]) -> Report {
    let against = |row: &Row| {
        let ours = rows.iter().find(|ours| ours.name == OURS && ours.connections == row.connections)?;
        (row.name != OURS).then(|| ours.requests.server / row.requests.server)
    };
    let ratio: Map<String, Value> = rows
        .iter()
        .filter_map(|row| Some((format!("{}/{}", row.name, row.connections), json!(rounded(against(row)?)))))
        .collect();
    let cells = |row: &Row| {
        let [server, client, wall] = row.requests.cells();
        let ratio = against(row).map_or(String::from("–"), |ratio| format!("{ratio:.2}"));
        vec![row.name.to_owned(), row.connections.to_string(), server, client, wall, ratio]
    };
    Report {
        title: format!(
            "HTTP/3 requests of {} bytes over loopback, {} at once on each connection, medians of {} rounds of {}; client: {}; {}",
            options.bytes,
            options.concurrency,
            options.rounds,
            options.requests,
            options.client.as_deref().unwrap_or("each stack's own"),
            options.choice.allocator,
        ),
        columns: vec![
            "stack",
            "connections",
            "per server CPU s",
            "per client CPU s",
            "per s",
            "ours / theirs",
        ],
        rows: rows.iter().map(cells).collect(),
        json: json!({ "allocator": options.choice.allocator.name(), "rows": rows.iter().map(Row::json).collect::<Vec<_>>(), "ratio": ratio }),
    }
}
