//! Full TLS 1.3 handshakes over loopback: the number per second of server CPU.

mod floor;

use clap::Args;
use serde_json::{Map, Value, json};

use self::floor::Floor;
use crate::Error;
use crate::report::{Report, median, rounded};
use crate::stacks::{Choice, Identity, OURS, Rates, Stack, client_of_all, rotate};

#[derive(Args)]
pub(crate) struct Options {
    /// Number of rounds; each stack runs once in each round, in rotated order
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Handshakes in a round
    #[arg(long, default_value_t = 4_000, value_parser = clap::value_parser!(u64).range(1..))]
    handshakes: u64,
    /// Number of concurrent handshakes
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..))]
    concurrency: u64,
    /// Number of session tickets that a server issues for each handshake; a peer that cannot is skipped. All can
    /// issue none, anabranch and quiche 2, s2n-quic and quic-go 1, quinn any number
    #[arg(long, default_value_t = 0)]
    tickets: u32,
    /// Use this stack's client for every server [default: each stack's own]
    #[arg(long, value_name = "STACK")]
    client: Option<String>,
    #[command(flatten)]
    choice: Choice,
}

/// Medians of one stack.
struct Row {
    name: &'static str,
    handshakes: Rates,
}

pub(crate) fn run(options: &Options) -> Result<Report, Error> {
    let tickets = options.tickets.to_string();
    let serving = |stack: Stack| stack.serving(&["--tickets", &tickets]);
    let stacks: Vec<Stack> = options.choice.built()?.into_iter().map(serving).collect();
    let client = client_of_all(&stacks, options.client.as_deref())?;
    let identity = Identity::new()?;
    let floor = Floor::new(&identity, options.tickets)?;
    // The floor is measured once in each round, before the first stack.
    let (first, mut floors) = (stacks.first().map(|stack| stack.name), Vec::new());
    let count = options.handshakes;
    let work = [
        "--handshakes".to_owned(),
        count.to_string(),
        "--concurrency".to_owned(),
        options.concurrency.to_string(),
    ];
    let runs = rotate(options.rounds, stacks, |stack| {
        if first == Some(stack.name) {
            floors.push(floor.measure(count)?);
        }
        let run = stack.run(client.as_ref().unwrap_or(stack), &identity, &work)?;
        match run.result["handshakes"].as_u64() {
            Some(made) if made == count => Ok(run),
            other => Err(format!("{}: {other:?} handshakes were made", stack.name).into()),
        }
    })?;
    let rows: Vec<Row> = runs
        .iter()
        .map(|(stack, runs)| Row { name: stack.name, handshakes: Rates::new(count, runs) })
        .collect();
    Ok(report(options, &rows, median(&floors)))
}

fn report(options: &Options, rows: &[Row], floor: f64) -> Report {
    let ours = rows.iter().find(|row| row.name == OURS).map(|row| row.handshakes.server);
    let against = |row: &Row| ours.map(|ours| ours / row.handshakes.server);
    let ratio: Map<String, Value> = rows
        .iter()
        .filter(|row| row.name != OURS)
        .filter_map(|row| Some((row.name.to_owned(), json!(rounded(against(row)?)))))
        .collect();
    let cells = |row: &Row| {
        let [server, client, wall] = row.handshakes.cells();
        let ratio = against(row).map_or(String::from("–"), |ratio| format!("{ratio:.2}"));
        vec![row.name.to_owned(), server, client, wall, ratio]
    };
    let absent = || String::from("–");
    let ratio_to_floor = ours.map_or_else(absent, |ours| format!("{:.2}", ours / floor));
    let lowest = vec!["TLS alone".to_owned(), format!("{floor:.0}"), absent(), absent(), ratio_to_floor];
    let json = |row: &Row| {
        json!({
            "name": row.name, "server_per_s_core": rounded(row.handshakes.server),
            "client_per_s_core": rounded(row.handshakes.client), "per_s": rounded(row.handshakes.wall),
        })
    };
    Report {
        title: format!(
            "Full handshakes over loopback, P-256 certificate, X25519, {} tickets; {} at once, medians of {} rounds of {}; client: {}; {}",
            options.tickets,
            options.concurrency,
            options.rounds,
            options.handshakes,
            options.client.as_deref().unwrap_or("each stack's own"),
            options.choice.allocator,
        ),
        columns: vec!["stack", "per server CPU s", "per client CPU s", "per s", "ours / theirs"],
        rows: rows.iter().map(cells).chain([lowest]).collect(),
        json: json!({
            "allocator": options.choice.allocator.name(),
            "tickets": options.tickets,
            "floor_per_s_core": rounded(floor),
            "rows": rows.iter().map(json).collect::<Vec<_>>(),
            "ratio": ratio,
        }),
    }
}
