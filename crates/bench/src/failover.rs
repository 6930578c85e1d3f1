//! Length of the gap in a transfer when one of its paths fails, over random kill schedules in virtual time.

use std::time::Duration;

use anabranch_lab::failover::{Class, KillSchedule, Outcome};
use anabranch_lab::stats::Sample;
use anabranch_transport::recovery::{Algorithm as Congestion, Config as RecoveryConfig};
use anabranch_transport::schedule::Algorithm as Scheduler;
use anabranch_transport::{MultipathConfig, Numbering, TransportConfig};
use clap::Args;
use rayon::prelude::*;
use serde_json::{Value, json};

use crate::Error;
use crate::report::{Report, median, rounded};

/// Maximum acceptable gap for users, regardless of the paths.
const MAX_GAP: Duration = Duration::from_millis(200);
/// Number of schedules that are listed, longest gaps first.
const WORST: usize = 20;

#[derive(Args)]
pub(crate) struct Options {
    /// Number of kill schedules; the four classes alternate
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    schedules: u64,
    /// Seed of the first schedule; the following ones are consecutive
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(..1 << 62))]
    seed: u64,
    /// Only schedules of this class: upload, download, acks or idle
    #[arg(long, value_parser = class)]
    class: Option<Class>,
    /// Packet numbering of the paths
    #[arg(long, default_value = "multiple")]
    numbering: Numbering,
    /// Scheduler, instead of the default
    #[arg(long)]
    scheduler: Option<Scheduler>,
    /// Congestion controller, instead of the default
    #[arg(long)]
    congestion: Option<Congestion>,
    /// Print the packets of a single schedule to standard error
    #[arg(long)]
    trace: bool,
}

fn class(name: &str) -> Result<Class, String> {
    let named = Class::ALL.into_iter().find(|class| class.name() == name);
    named.ok_or_else(|| format!("one of {}", Class::ALL.map(Class::name).join(", ")))
}

/// A schedule and its outcome.
struct Trial {
    schedule: KillSchedule,
    outcome: Outcome,
}

pub(crate) fn run(options: &Options) -> Result<Report, Error> {
    if options.trace && options.schedules != 1 {
        return Err("--trace needs a single schedule: --schedules 1 --seed N".into());
    }
    let defaults = MultipathConfig::default();
    let scheduler = options.scheduler.unwrap_or(defaults.scheduler());
    let recovery = RecoveryConfig::default();
    let congestion = options.congestion.unwrap_or(recovery.congestion());
    let setting = format!("scheduler {}, numbering {}, {congestion}", scheduler.name(), options.numbering);
    let multipath = defaults.with_scheduler(scheduler).with_numbering(options.numbering);
    let transport = TransportConfig::default()
        .with_multipath(multipath)
        .with_recovery(recovery.with_congestion(congestion));
    let runs = (options.seed..options.seed + options.schedules).into_par_iter().map(KillSchedule::random);
    let runs: Result<Vec<Trial>, String> = runs
        .filter(|schedule| options.class.is_none_or(|class| schedule.class == class))
        .map(|schedule| match schedule.run(&transport, options.trace) {
            Ok(outcome) => Ok(Trial { schedule, outcome }),
            Err(error) => Err(format!("seed {}: {error}", schedule.seed)),
        })
        .collect();
    let mut runs = runs?;
    runs.sort_by_key(|run| (std::cmp::Reverse((run.exceeds(), run.outcome.gap)), run.schedule.seed));
    Ok(report(&runs, &setting))
}

/// Builds the report of `runs`. Runs above the limit are listed first, then those with the longest gaps.
fn report(runs: &[Trial], setting: &str) -> Report {
    let all: Vec<&Trial> = runs.iter().collect();
    let total = Group::new("all", &all);
    let groups: Vec<Group> = Class::ALL
        .into_iter()
        .map(|class| {
            let of: Vec<&Trial> = runs.iter().filter(|run| run.schedule.class == class).collect();
            Group::new(class.name(), &of)
        })
        .collect();
    let lines: String =
        groups.iter().chain([&total]).map(|group| format!("    {}\n", group.line())).collect();
    let failures: String =
        runs.iter().filter_map(Trial::fault).map(|fault| format!("    {fault}\n")).collect();
    let faults = if failures.is_empty() { String::new() } else { format!("faults:\n{failures}") };
    Report {
        title: format!(
            "Gaps over {} kill schedules in virtual time: 2 or 3 paths of 10 Mbit/s and 15, 25, 40 ms, {setting}\n\n\
             {lines}{faults}\nThose above the limit, and the longest gaps; `failover --schedules 1 --seed SEED --trace` shows one:",
            runs.len()
        ),
        columns: COLUMNS.to_vec(),
        rows: runs.iter().take(WORST).map(Trial::cells).collect(),
        json: json!({
            "schedules": runs.len(),
            "lost_bytes": total.lost,
            "p99_gap_ms": total.p99.map(rounded),
            "max_gap_ms": rounded(total.max),
            "wrong_bytes": total.wrong,
            "above_limit": total.above_limit,
            "above_limit_as_known": total.above_known,
            "failures": total.failures,
            "setting": setting,
            "classes": groups.iter().map(Group::json).collect::<Vec<_>>(),
            "worst": runs.iter().take(WORST).map(Trial::json).collect::<Vec<_>>(),
        }),
    }
}

const COLUMNS: [&str; 13] = [
    "seed",
    "class",
    "gap ms",
    "limit ms",
    "as known ms",
    "PTO ms",
    "other RTT ms",
    "killed s",
    "gap from s",
    "paths ms",
    "dead",
    "for s",
    "data",
];

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

impl Trial {
    fn exceeds(&self) -> bool {
        self.outcome.gap > self.outcome.limit().min(MAX_GAP)
    }

    /// Returns true if the gap exceeds the limit that is computed with the sender's own estimate of the other
    /// path's round-trip time.
    fn exceeds_known(&self) -> bool {
        self.outcome.gap > self.outcome.limit_as_known().min(MAX_GAP)
    }

    /// Describes lost bytes, wrong bytes or a failed transfer, none of which may occur; `None` if the trial
    /// has no such fault.
    fn fault(&self) -> Option<String> {
        let Outcome { seed, lost_bytes, wrong_bytes, failure, .. } = &self.outcome;
        if let (0, 0, None) = (lost_bytes, wrong_bytes, failure) {
            return None;
        }
        let ended = failure.as_ref().map_or(String::new(), |failure| format!(", {failure}"));
        Some(format!("seed {seed}: {lost_bytes} bytes lost, {wrong_bytes} wrong{ended}"))
    }

    fn dead(&self) -> String {
        format!("{} {:?}", self.schedule.victim, self.schedule.dead)
    }

    fn paths(&self) -> Vec<u128> {
        self.schedule.round_trips.iter().map(Duration::as_millis).collect()
    }

    fn cells(&self) -> Vec<String> {
        let Self { schedule, outcome } = self;
        let seconds = |nanos: u64| format!("{:.3}", nanos as f64 / 1e9);
        vec![
            outcome.seed.to_string(),
            schedule.class.name().to_owned(),
            format!("{:.1}", ms(outcome.gap)),
            format!("{:.1}", ms(outcome.limit())),
            format!("{:.1}", ms(outcome.limit_as_known())),
            format!("{:.1}", ms(outcome.pto)),
            format!("{:.1}", ms(outcome.other_rtt)),
            seconds(outcome.killed.as_nanos()),
            seconds(outcome.gap_began.as_nanos()),
            self.paths().iter().map(u128::to_string).collect::<Vec<_>>().join(" "),
            self.dead(),
            schedule.lasts.map_or("ever".to_owned(), |lasts| format!("{:.1}", lasts.as_secs_f64())),
            if schedule.upload { "up" } else { "down" }.to_owned(),
        ]
    }

    fn json(&self) -> Value {
        let Self { schedule, outcome } = self;
        json!({
            "seed": outcome.seed,
            "class": schedule.class.name(),
            "gap_ms": rounded(ms(outcome.gap)),
            "limit_ms": rounded(ms(outcome.limit())),
            "limit_as_known_ms": rounded(ms(outcome.limit_as_known())),
            "pto_ms": rounded(ms(outcome.pto)),
            "other_rtt_ms": rounded(ms(outcome.other_rtt)),
            "killed_s": outcome.killed.as_nanos() as f64 / 1e9,
            "paths_ms": self.paths(),
            "dead": self.dead(),
            "upload": schedule.upload,
            "lost_bytes": outcome.lost_bytes,
            "wrong_bytes": outcome.wrong_bytes,
            "failure": outcome.failure,
        })
    }
}

/// Schedules that are summarized together.
struct Group {
    name: &'static str,
    schedules: usize,
    median: f64,
    p99: Option<f64>,
    max: f64,
    /// Number of gaps longer than the failed path's PTO plus one RTT of another path, or longer than
    /// [`MAX_GAP`].
    above_limit: usize,
    /// Number of gaps above the limit that is computed with the sender's own round-trip time estimates. If an
    /// estimate is too low, no ACK can arrive within that limit.
    above_known: usize,
    lost: u64,
    wrong: u64,
    failures: usize,
}

impl Group {
    fn new(name: &'static str, runs: &[&Trial]) -> Self {
        let gaps: Vec<f64> = runs.iter().map(|run| ms(run.outcome.gap)).collect();
        // The 99th percentile is computed only if there are enough values for at least one to lie above it.
        let p99 = gaps.iter().copied().collect::<Sample>().percentile(0.99);
        Self {
            name,
            schedules: runs.len(),
            median: median(&gaps),
            p99,
            max: gaps.iter().copied().fold(f64::NAN, f64::max),
            above_limit: runs.iter().filter(|run| run.exceeds()).count(),
            above_known: runs.iter().filter(|run| run.exceeds_known()).count(),
            lost: runs.iter().map(|run| run.outcome.lost_bytes).sum(),
            wrong: runs.iter().map(|run| run.outcome.wrong_bytes).sum(),
            failures: runs.iter().filter(|run| run.outcome.failure.is_some()).count(),
        }
    }

    fn line(&self) -> String {
        let Self { name, schedules, median, p99, max, above_limit, above_known, lost, wrong, failures } =
            self;
        let p99 = p99.map_or_else(|| "–".to_owned(), |gap| format!("{gap:.1} ms"));
        format!(
            "{name:8} {schedules:5} schedules: gap median {median:.1} ms, 99 % {p99}, longest {max:.1} ms, \
             {above_limit} above the limit ({above_known} with round trips as the sender knows them); {lost} bytes lost, {wrong} wrong, {failures} connections ended"
        )
    }

    fn json(&self) -> Value {
        json!({
            "class": self.name,
            "schedules": self.schedules,
            "median_gap_ms": rounded(self.median),
            "p99_gap_ms": self.p99.map(rounded),
            "max_gap_ms": rounded(self.max),
            "above_limit": self.above_limit,
            "above_limit_as_known": self.above_known,
            "lost_bytes": self.lost,
            "wrong_bytes": self.wrong,
            "failures": self.failures,
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn report_of(arguments: &[&str]) -> Result<Report, Error> {
        run(&Line::parse_from([&["failover"], arguments].concat()).options)
    }

    #[test]
    fn every_class_is_counted_and_no_byte_is_lost_or_doubled() {
        let report = report_of(&["--schedules", "12", "--seed", "40"]).unwrap();
        let json = &report.json;
        assert_eq!([&json["schedules"], &json["lost_bytes"], &json["wrong_bytes"]], [12, 0, 0]);
        for class in json["classes"].as_array().unwrap() {
            assert_eq!(class["schedules"], 3);
            assert!(class["max_gap_ms"].as_f64().unwrap() >= class["median_gap_ms"].as_f64().unwrap());
        }
        // Some data must arrive late; otherwise no path was killed.
        assert!(json["max_gap_ms"].as_f64().unwrap() > 15.0, "{json}");
        assert!(json["p99_gap_ms"].is_null(), "12 gaps have no 99th percentile");
        assert_eq!((report.rows.len(), report.rows[0].len()), (12, report.columns.len()));
    }

    #[test]
    fn a_schedule_can_be_repeated_alone() {
        let together = report_of(&["--schedules", "4", "--seed", "8"]).unwrap();
        let alone = report_of(&["--schedules", "1", "--seed", "10"]).unwrap();
        let found = together.rows.iter().find(|row| row[0] == "10").unwrap();
        assert_eq!(*found, alone.rows[0]);
        assert_eq!(alone.rows[0][1], "acks");
        assert_eq!(report_of(&["--schedules", "8", "--class", "idle"]).unwrap().rows.len(), 2);
    }
}
