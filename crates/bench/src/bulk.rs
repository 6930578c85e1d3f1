//! One download on one stream over loopback: CPU time of both ends, goodput, memory.

use clap::Args;
use serde_json::{Map, Value, json};

use crate::Error;
use crate::report::{Report, median, rounded};
use crate::stacks::{Choice, Identity, OURS, Run, rotate};

#[derive(Args)]
pub(crate) struct Options {
    /// Rounds; every stack has its turn in each, in rotated order
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Bytes of a download
    #[arg(long, default_value_t = 1 << 30, value_parser = clap::value_parser!(u64).range(1..))]
    bytes: u64,
    #[command(flatten)]
    choice: Choice,
}

/// Our row with the same bytes as the body of an HTTP/3 response.
const OURS_OVER_HTTP3: &str = "anabranch-http3";

/// Medians of one stack.
struct Row {
    name: &'static str,
    /// CPU seconds per GB (10⁹ bytes).
    server: f64,
    client: f64,
    both: f64,
    goodput_gbps: f64,
    server_rss_mb: f64,
    client_rss_mb: f64,
}

impl Row {
    fn new(name: &'static str, runs: &[Run], bytes: u64) -> Self {
        let gigabytes = bytes as f64 / 1e9;
        let middle = |value: &dyn Fn(&Run) -> f64| median(&runs.iter().map(value).collect::<Vec<_>>());
        Self {
            name,
            server: middle(&|run| run.server.cpu / gigabytes),
            client: middle(&|run| run.client.cpu / gigabytes),
            both: middle(&|run| (run.server.cpu + run.client.cpu) / gigabytes),
            goodput_gbps: middle(&|run| run.result["goodput_mbps"].as_f64().unwrap_or(f64::NAN) / 1e3),
            server_rss_mb: middle(&|run| run.server.rss / 1e6),
            client_rss_mb: middle(&|run| run.client.rss / 1e6),
        }
    }

    fn json(&self) -> Value {
        json!({
            "name": self.name,
            "cpu_s_per_gb": rounded(self.both),
            "server_s_per_gb": rounded(self.server),
            "client_s_per_gb": rounded(self.client),
            "goodput_gbps": rounded(self.goodput_gbps),
            "rss_mb": rounded(self.server_rss_mb.max(self.client_rss_mb)),
            "server_rss_mb": rounded(self.server_rss_mb),
            "client_rss_mb": rounded(self.client_rss_mb),
        })
    }

    fn cells(&self, ours: Option<f64>) -> Vec<String> {
        vec![
            self.name.to_owned(),
            format!("{:.2}", self.both),
            format!("{:.2}", self.server),
            format!("{:.2}", self.client),
            format!("{:.1}", self.goodput_gbps),
            format!("{:.0}", self.server_rss_mb),
            format!("{:.0}", self.client_rss_mb),
            ours.map_or(String::from("–"), |ours| format!("{:.2}", ours / self.both)),
        ]
    }
}

pub(crate) fn run(options: &Options) -> Result<Report, Error> {
    let identity = Identity::new()?;
    let plain = ["--download".to_owned(), options.bytes.to_string()];
    let http3 = ["--http3".to_owned(), format!("/bytes/{}", options.bytes)];
    let mut stacks = options.choice.built()?;
    let ours = stacks.iter().position(|stack| stack.name == OURS);
    if let Some(at) = ours {
        stacks.insert(at + 1, stacks[at].named(OURS_OVER_HTTP3));
    }
    let runs = rotate(options.rounds, stacks, |stack| {
        let work = if stack.name == OURS_OVER_HTTP3 { &http3 } else { &plain };
        let run = stack.run(stack, &identity, work)?;
        match run.result["bytes"].as_u64() {
            Some(bytes) if bytes == options.bytes => Ok(run),
            other => Err(format!("{}: {other:?} bytes arrived", stack.name).into()),
        }
    })?;
    let rows: Vec<Row> = runs.iter().map(|(stack, runs)| Row::new(stack.name, runs, options.bytes)).collect();
    let ours = rows.iter().find(|row| row.name == OURS).map(|row| row.both);
    let ratio: Map<String, Value> = rows
        .iter()
        .filter(|row| row.name != OURS)
        .filter_map(|row| Some((row.name.to_owned(), json!(rounded(ours? / row.both)))))
        .collect();
    Ok(Report {
        title: format!(
            "One download of {} bytes on one stream over loopback, CPU seconds per GB, medians of {} rounds",
            options.bytes, options.rounds
        ),
        columns: vec![
            "stack",
            "both",
            "server",
            "client",
            "Gbit/s",
            "server MB",
            "client MB",
            "ours / theirs",
        ],
        rows: rows.iter().map(|row| row.cells(ours)).collect(),
        json: json!({ "rows": rows.iter().map(Row::json).collect::<Vec<_>>(), "ratio": ratio }),
    })
}
