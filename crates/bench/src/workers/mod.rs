//! Handshakes and requests at a server with one worker and with several. Each worker has the same share of a processor, as if the
//! processors were slower, so that those of one machine suffice for the workers and for the clients that keep them busy.

mod share;

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;

use self::share::Shares;
use crate::Error;
use crate::child::Program;
use crate::report::{BROKEN, Report, median, rounded};
use crate::stacks::{Identity, Ours};

/// Minimum rate with two workers, one worker = 1.
const MIN_RATIO: f64 = 0.9;
/// Number of client processes.
const CLIENTS: u64 = 2;
/// Maximum time until the server has started its threads.
const PATIENCE: Duration = Duration::from_secs(10);
/// Name of the threads of tokio that run tasks.
const THREAD: &str = "tokio-rt-worker";

#[derive(Args)]
pub(crate) struct Options {
    /// Number of workers that are compared with one
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(2..=32))]
    workers: u32,
    /// Share of a processor that each worker has, in per cent. All of them leave the clients what these need
    #[arg(long, default_value_t = 25, value_parser = clap::value_parser!(u32).range(10..=100))]
    share: u32,
    /// Number of rounds
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Operations of each kind in a round are divided by this number
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=100))]
    divisor: u64,
    #[command(flatten)]
    ours: Ours,
}

/// Operations that are measured: their name, their number in a round, and a client's arguments.
struct Kind {
    name: &'static str,
    count: u64,
    args: &'static [&'static str],
}

const KINDS: [Kind; 3] = [
    Kind { name: "handshakes", count: 6_000, args: &["--concurrency", "32", "--handshakes"] },
    Kind {
        name: "requests, one at a time on each connection",
        count: 60_000,
        args: &["--http3", "/bytes/100", "--connections", "25", "--concurrency", "1", "--requests"],
    },
    Kind {
        name: "requests, 20 at a time on each connection",
        count: 200_000,
        args: &["--http3", "/bytes/100", "--connections", "25", "--concurrency", "20", "--requests"],
    },
];

pub(crate) fn run(options: &Options) -> Result<Report, Error> {
    let (program, identity) = (options.ours.program()?, Identity::new()?);
    let bench = Bench { program, identity, options };
    let mut rates = vec![[Vec::new(), Vec::new()]; KINDS.len()];
    for round in 0..options.rounds {
        for (kind, rates) in KINDS.iter().zip(&mut rates) {
            // The order changes from round to round.
            for index in if round.is_multiple_of(2) { [0, 1] } else { [1, 0] } {
                let workers = [1, options.workers][index];
                rates[index].push(bench.rate(kind, workers)?);
            }
        }
    }
    Ok(report(options, &rates))
}

struct Bench<'a> {
    program: PathBuf,
    identity: Identity,
    options: &'a Options,
}

impl Bench<'_> {
    /// Returns the operations per second at a new server with this number of workers.
    fn rate(&self, kind: &Kind, workers: u32) -> Result<f64, Error> {
        let mut command = Command::new(&self.program);
        command.args(["perf", "server", "--listen", "127.0.0.1:0", "--workers", &workers.to_string()]);
        // As many threads as workers.
        command.args(self.identity.flags()).env("TOKIO_WORKER_THREADS", workers.to_string());
        // Dropped after the server, whose end empties the groups.
        let shares;
        let mut server = Program::start(&mut command)?;
        let said = server.line()?;
        let address = said.strip_prefix("listening ").ok_or("the server does not listen")?.to_owned();
        let threads = threads(server.id(), workers as usize)?;
        shares = Shares::new(server.id(), threads.len(), self.options.share)?;
        threads.iter().enumerate().try_for_each(|(group, thread)| shares.limit(group, *thread))?;
        let each = (kind.count / self.options.divisor / CLIENTS).max(1);
        let begin = Instant::now();
        let clients: Vec<Program> =
            (0..CLIENTS).map(|_| self.client(&address, kind, each)).collect::<Result<_, _>>()?;
        clients.into_iter().try_for_each(|client| client.end().map(drop))?;
        let seconds = begin.elapsed().as_secs_f64();
        server.end()?;
        Ok((each * CLIENTS) as f64 / seconds)
    }

    fn client(&self, address: &str, kind: &Kind, count: u64) -> Result<Program, Error> {
        let mut command = Command::new(&self.program);
        command
            .args(["perf", "client", "--connect", address, "--json", "--ca"])
            .arg(self.identity.certificate());
        Program::start(command.args(kind.args).arg(count.to_string()))
    }
}

/// Returns the IDs of the threads that run the tasks of `process`, of which there are `count`.
fn threads(process: u32, count: usize) -> Result<Vec<u32>, Error> {
    let begin = Instant::now();
    loop {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(format!("/proc/{process}/task"))? {
            let path = entry?.path();
            // A thread may have ended meanwhile.
            let name = std::fs::read_to_string(path.join("comm")).unwrap_or_default();
            if name.trim_end() == THREAD {
                found.extend(path.file_name().and_then(|id| id.to_str()?.parse::<u32>().ok()));
            }
        }
        if found.len() == count {
            return Ok(found);
        }
        if begin.elapsed() > PATIENCE {
            return Err(format!("the server has {} threads for tasks instead of {count}", found.len()).into());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn report(options: &Options, rates: &[[Vec<f64>; 2]]) -> Report {
    let limit = MIN_RATIO * f64::from(options.workers);
    let (mut rows, mut json) = (Vec::new(), Vec::new());
    for (kind, [one, several]) in KINDS.iter().zip(rates) {
        let ratios: Vec<f64> = several.iter().zip(one).map(|(several, one)| several / one).collect();
        let [one, several, ratio] = [median(one), median(several), median(&ratios)];
        let verdict = if ratio >= limit { "kept" } else { BROKEN };
        let cells =
            [kind.name.to_owned(), format!("{one:.0}"), format!("{several:.0}"), format!("{ratio:.2}")];
        rows.push(cells.into_iter().chain([verdict.to_owned()]).collect());
        json.push(json!({ "name": kind.name, "one_per_s": rounded(one), "per_s": rounded(several), "ratio": rounded(ratio) }));
    }
    Report {
        title: format!(
            "Rates at a server with {} workers and with one, {} % of a processor for each worker; medians of {} rounds; at least {limit:.1}",
            options.workers, options.share, options.rounds
        ),
        columns: vec!["what", "per s with one", "with several", "ratio", "verdict"],
        rows,
        json: json!({ "workers": options.workers, "share_percent": options.share, "rows": json }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_that_does_not_grow_is_not_kept() {
        let options = Options { workers: 2, share: 25, rounds: 1, divisor: 1, ours: Ours::default() };
        let rates = [[vec![100.0], vec![185.0]], [vec![100.0], vec![175.0]], [vec![100.0], vec![200.0]]];
        let report = report(&options, &rates);
        let verdicts: Vec<_> = report.rows.iter().map(|row| row[4].as_str()).collect();
        assert_eq!(verdicts, ["kept", BROKEN, "kept"]);
    }
}
