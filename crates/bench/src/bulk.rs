//! One download on one stream over loopback: CPU time of both endpoints, goodput and memory.

use clap::{Args, ValueEnum};
use serde_json::{Map, Value, json};

use crate::Error;
use crate::receive::Wire;
use crate::report::{Report, median, rounded};
use crate::stacks::{Choice, Identity, Measured, OURS, Ours, Stack, rotate};

#[derive(Args)]
pub(crate) struct Options {
    /// Number of rounds; each stack runs once in each round, in rotated order
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Bytes of a download
    #[arg(long, default_value_t = 1 << 30, value_parser = clap::value_parser!(u64).range(1..))]
    bytes: u64,
    /// Wire format of our packets; version 1 is always included
    #[arg(long, value_enum, value_delimiter = ',', default_value = "v1")]
    wire: Vec<Wire>,
    /// Way in which our client receives datagrams; the usual one is always included
    #[arg(long, value_enum, value_delimiter = ',', default_value = "many")]
    recv: Vec<Recv>,
    /// Omit our rows over HTTP/3 and over two paths
    #[arg(long)]
    plain: bool,
    #[command(flatten)]
    choice: Choice,
}

/// Datagrams that one system call of the client can receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Recv {
    /// One datagram
    One,
    /// Several datagrams (recvmmsg)
    Mmsg,
    /// Several batches of datagrams that the kernel has coalesced (recvmmsg and GRO); the usual way
    Many,
}

/// Our rows by wire format and way of receiving: name, wire format, way.
const WAYS: [(&str, Wire, Recv); 6] = [
    (OURS, Wire::V1, Recv::Many),
    ("anabranch-mmsg", Wire::V1, Recv::Mmsg),
    ("anabranch-one", Wire::V1, Recv::One),
    ("anabranch-reverso", Wire::Reverso, Recv::Many),
    ("anabranch-reverso-mmsg", Wire::Reverso, Recv::Mmsg),
    ("anabranch-reverso-one", Wire::Reverso, Recv::One),
];

/// Returns the name of our row with this wire format and this way of receiving.
pub(crate) fn way(wire: Wire, recv: Recv) -> &'static str {
    let found = WAYS.iter().find(|(_, of, by)| (*of, *by) == (wire, recv));
    found.map_or(OURS, |(name, ..)| name)
}

/// Row of ours in which an HTTP/3 response contains the same bytes.
const OURS_OVER_HTTP3: &str = "anabranch-http3";

/// Row of ours with the same bytes over two loopback paths, default settings and a packet number space for
/// each path.
const OURS_ON_TWO_PATHS: &str = "anabranch-2paths";

/// Row of ours over two paths with half of the bytes on each. The default scheduler sends on the path where
/// data arrives first, which on loopback can be the same path for a long time.
const OURS_ON_TWO_EVEN_PATHS: &str = "anabranch-2paths-even";

/// Row of ours over two paths with the single packet number space.
const OURS_ON_TWO_PATHS_SINGLE: &str = "anabranch-2paths-single";

const TWO_PATHS: [&str; 3] = [OURS_ON_TWO_PATHS, OURS_ON_TWO_EVEN_PATHS, OURS_ON_TWO_PATHS_SINGLE];

/// Maximum CPU cost of two paths, as a multiple of the cost of one path.
const TWO_PATHS_TARGET: f64 = 1.10;

/// Minimum share of all bytes that each of two even paths carries. Losses on loopback sometimes leave one
/// path with a small window.
const LEAST_SHARE: f64 = 0.1;

/// Medians of one row.
struct Row {
    name: &'static str,
    /// CPU seconds per GB (10⁹ bytes).
    server: f64,
    client: f64,
    both: f64,
    goodput_gbps: f64,
    server_rss_mb: f64,
    client_rss_mb: f64,
    /// Share of packets that the client received in order, if it counts them.
    ordered: Option<f64>,
}

impl Row {
    fn new(name: &'static str, runs: &[Measured], bytes: u64) -> Self {
        let gigabytes = bytes as f64 / 1e9;
        let middle = |value: &dyn Fn(&Measured) -> f64| median(&runs.iter().map(value).collect::<Vec<_>>());
        Self {
            name,
            server: middle(&|run| run.server.cpu / gigabytes),
            client: middle(&|run| run.client.cpu / gigabytes),
            both: middle(&|run| (run.server.cpu + run.client.cpu) / gigabytes),
            goodput_gbps: middle(&|run| run.result["goodput_mbps"].as_f64().unwrap_or(f64::NAN) / 1e3),
            server_rss_mb: middle(&|run| run.server.rss / 1e6),
            client_rss_mb: middle(&|run| run.client.rss / 1e6),
            ordered: runs[0].result["ordered_ratio"]
                .is_f64()
                .then(|| middle(&|run| run.result["ordered_ratio"].as_f64().unwrap_or(f64::NAN))),
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
            "ordered_ratio": self.ordered,
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

/// Returns the arguments of the client for a row.
fn work(name: &str, bytes: u64) -> Vec<String> {
    let download = ["--download".to_owned(), bytes.to_string()];
    let two_paths = ["--path".to_owned(), "127.0.0.1,count=2".to_owned()];
    match name {
        OURS_OVER_HTTP3 => vec!["--http3".to_owned(), format!("/bytes/{bytes}")],
        OURS_ON_TWO_PATHS | OURS_ON_TWO_EVEN_PATHS => [&download[..], &two_paths].concat(),
        OURS_ON_TWO_PATHS_SINGLE => {
            let single = ["--numbering".to_owned(), "single".to_owned()];
            [&download[..], &two_paths, &single].concat()
        }
        _ => match WAYS.iter().find(|(known, ..)| *known == name) {
            Some((_, wire, recv)) if name != OURS => {
                let recv =
                    recv.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
                let way = ["--wire".to_owned(), wire.name().to_owned(), "--recv".to_owned(), recv];
                [&download[..], &way].concat()
            }
            _ => download.into(),
        },
    }
}

/// Checks that all bytes arrived, and that a row over two paths used both.
fn check(name: &str, run: &Measured, bytes: u64) -> Result<(), Error> {
    let arrived = run.result["bytes"].as_u64();
    if arrived != Some(bytes) {
        return Err(format!("{name}: {arrived:?} bytes arrived").into());
    }
    let least = match name {
        OURS_ON_TWO_PATHS => 1.0,
        OURS_ON_TWO_EVEN_PATHS | OURS_ON_TWO_PATHS_SINGLE => bytes as f64 * LEAST_SHARE,
        _ => return Ok(()),
    };
    let paths = run.result["paths"].as_array().map(Vec::as_slice).unwrap_or_default();
    let used = paths.iter().filter_map(|path| path["bytes"].as_f64()).filter(|carried| *carried >= least);
    match used.count() {
        2 => Ok(()),
        used => Err(format!("{name}: {used} of two paths were used: {paths:?}").into()),
    }
}

/// Runs of each row. The order of the rows is rotated in each round.
pub(crate) type Runs = Vec<(Stack, Vec<Measured>)>;

/// Runs a download of `bytes` with each of `stacks` in every round.
fn measure(rounds: u32, bytes: u64, stacks: Vec<Stack>) -> Result<Runs, Error> {
    let identity = Identity::new()?;
    rotate(rounds, stacks, |stack| {
        let run = stack.run(stack, &identity, &work(stack.name, bytes))?;
        check(stack.name, &run, bytes).map(|()| run)
    })
}

/// Runs downloads of `bytes` with our own command, in each combination of `wanted`.
pub(crate) fn ways(rounds: u32, bytes: u64, ours: &Ours, wanted: &[(Wire, Recv)]) -> Result<Runs, Error> {
    let ours = ours.stack()?;
    measure(rounds, bytes, wanted.iter().map(|&(wire, recv)| ours.named(way(wire, recv))).collect())
}

impl Options {
    /// Returns the rows, including the requested variants of ours.
    fn stacks(&self) -> Result<Vec<Stack>, Error> {
        let mut stacks = self.choice.built()?;
        let Some(at) = stacks.iter().position(|stack| stack.name == OURS) else { return Ok(stacks) };
        let ours = stacks[at].clone();
        let asked = |wire: &Wire, recv: &Recv| {
            (*wire == Wire::V1 || self.wire.contains(wire))
                && (*recv == Recv::Many || self.recv.contains(recv))
        };
        let ways = WAYS.iter().filter(|(name, wire, recv)| *name != OURS && asked(wire, recv));
        let mut variants: Vec<Stack> = ways.map(|(name, ..)| ours.named(name)).collect();
        if !self.plain {
            let even: &[&str] = &["--scheduler", "weighted"];
            variants.extend([
                ours.named(OURS_ON_TWO_PATHS),
                ours.named(OURS_ON_TWO_EVEN_PATHS).serving(even),
                ours.named(OURS_ON_TWO_PATHS_SINGLE).serving(even),
                ours.named(OURS_OVER_HTTP3),
            ]);
        }
        stacks.splice(at + 1..at + 1, variants);
        Ok(stacks)
    }
}

pub(crate) fn run(options: &Options) -> Result<Report, Error> {
    let runs = measure(options.rounds, options.bytes, options.stacks()?)?;
    let rows: Vec<Row> = runs.iter().map(|(stack, runs)| Row::new(stack.name, runs, options.bytes)).collect();
    let ours = rows.iter().find(|row| row.name == OURS).map(|row| row.both);
    let ratio: Map<String, Value> = rows
        .iter()
        .filter(|row| row.name != OURS)
        .filter_map(|row| Some((row.name.to_owned(), json!(rounded(ours? / row.both)))))
        .collect();
    let against = |names: &dyn Fn(&str) -> bool, cost: fn(&Measured) -> f64| -> Map<String, Value> {
        let chosen = runs.iter().filter(|(stack, _)| names(stack.name));
        chosen
            .filter_map(|(stack, of)| {
                Some((stack.name.to_owned(), json!(rounded(against(&runs, OURS, of, cost)?))))
            })
            .collect()
    };
    let two_paths = against(&|name| TWO_PATHS.contains(&name), both);
    let is_way = |name: &str| name != OURS && WAYS.iter().any(|(way, ..)| *way == name);
    let client_ratio = against(&is_way, client);
    let mut title = format!(
        "One download of {} bytes on one stream over loopback, CPU seconds per GB, medians of {} rounds; {}",
        options.bytes, options.rounds, options.choice.allocator
    );
    for (name, ratio) in &two_paths {
        title += &format!("; {name} costs {ratio} of one path (target: {TWO_PATHS_TARGET:.2})");
    }
    for (name, ratio) in &client_ratio {
        title += &format!("; the client of {name} costs {ratio} of the usual one");
    }
    Ok(Report {
        title,
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
        json: json!({
            "allocator": options.choice.allocator.name(),
            "rows": rows.iter().map(Row::json).collect::<Vec<_>>(),
            "ratio": ratio,
            "two_paths": two_paths,
            "target_two_paths": TWO_PATHS_TARGET,
            "client_ratio": client_ratio,
        }),
    })
}

/// Returns the CPU seconds of both endpoints.
fn both(run: &Measured) -> f64 {
    run.server.cpu + run.client.cpu
}

/// Returns the CPU seconds of the client.
pub(crate) fn client(run: &Measured) -> f64 {
    run.client.cpu
}

/// Returns the cost of a row relative to the row `base`: the median of the ratios within each round.
fn against(runs: &Runs, base: &str, of: &[Measured], cost: fn(&Measured) -> f64) -> Option<f64> {
    let (_, base) = runs.iter().find(|(stack, _)| stack.name == base)?;
    Some(median(&of.iter().zip(base).map(|(one, base)| cost(one) / cost(base)).collect::<Vec<_>>()))
}
