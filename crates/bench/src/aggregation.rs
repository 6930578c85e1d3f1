//! Downloads over several paths in virtual time, at every point of a design, compared with the point's fluid
//! bound.

use std::path::PathBuf;

use anabranch_lab::design::{self, Point};
use anabranch_lab::experiment;
use anabranch_lab::fluid::{self, Return};
use anabranch_lab::transfer::{Measured, PathTotals, Transfer};
use anabranch_transport::recovery::Algorithm as Congestion;
use anabranch_transport::recovery::Config;
use anabranch_transport::schedule::Algorithm as Scheduler;
use anabranch_transport::{MultipathConfig, Numbering, TransportConfig};
use clap::Args;
use rayon::prelude::*;
use serde_json::{Value, json};

use crate::Error;
use crate::acks::{self, AckOptions};
use crate::report::{Report, median, rounded};

/// Experiment whose points are used if no file is given.
const GENERATED: &str = "ccr22-heterogeneous-2path";
/// Maximum initial window in bytes of UDP payload.
const MAX_INITIAL_WINDOW: u64 = 14_720;

#[derive(Args)]
pub(crate) struct Options {
    /// CSV file with the columns run and, for each path, rate_mbps_N, owd_ms_N, queue_packets_N [default: the
    /// 95 generated points of the lab's ccr22-heterogeneous-2path]
    #[arg(long, value_name = "FILE")]
    design: Option<PathBuf>,
    /// Only these points, by the column `run`
    #[arg(long, value_delimiter = ',', value_name = "RUN,…")]
    points: Vec<u64>,
    /// Bytes of each download
    #[arg(long, default_value_t = 50_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    bytes: u64,
    /// Only runs with this packet numbering [default: both]
    #[arg(long)]
    numbering: Option<Numbering>,
    /// Scheduler, instead of the default
    #[arg(long)]
    scheduler: Option<Scheduler>,
    /// Congestion controller, instead of the default
    #[arg(long)]
    congestion: Option<Congestion>,
    #[command(flatten)]
    acks: AckOptions,
    /// Print the packets of a single run to standard error
    #[arg(long)]
    trace: bool,
}

/// Result of one run.
struct Row {
    numbering: Numbering,
    point: u64,
    /// Fluid bounds in seconds: the first with the acknowledgments of each path on the same path, the second
    /// with all acknowledgments on the quickest path.
    bounds: [f64; 2],
    paths: usize,
    result: Result<Measured, String>,
}

impl Options {
    fn transport(&self) -> TransportConfig {
        let defaults = MultipathConfig::default();
        let max_paths = defaults.max_paths().max(design::MAX_PATHS as u32);
        let scheduler = self.scheduler.unwrap_or(defaults.scheduler());
        let recovery = Config::default();
        let congestion = self.congestion.unwrap_or(recovery.congestion());
        TransportConfig::default()
            .with_multipath(defaults.with_max_paths(max_paths).with_scheduler(scheduler))
            .with_recovery(recovery.with_congestion(congestion))
            .with_ack(self.acks.config())
    }

    /// Describes the source of the points.
    fn name(&self) -> String {
        let named = |file: &PathBuf| file.display().to_string();
        self.design.as_ref().map_or_else(|| format!("the generated points of {GENERATED}"), named)
    }

    fn chosen(&self) -> Result<Vec<Point>, Error> {
        let mut points = match &self.design {
            Some(file) => design::read(file)?,
            None => experiment::named(GENERATED, None)?.points,
        };
        for wanted in &self.points {
            if !points.iter().any(|point| point.run == *wanted) {
                return Err(format!("{}: there is no point {wanted}", self.name()).into());
            }
        }
        points.retain(|point| self.points.is_empty() || self.points.contains(&point.run));
        if self.trace && (points.len() != 1 || self.numbering.is_none()) {
            return Err("--trace needs a single run: --points N --numbering NAME".into());
        }
        Ok(points)
    }
}

pub(crate) fn run(options: &Options) -> Result<Report, Error> {
    measure(&options.chosen()?, options)
}

fn measure(points: &[Point], options: &Options) -> Result<Report, Error> {
    let transport = options.transport();
    let numberings = options.numbering.map_or(vec![Numbering::Multiple, Numbering::Single], |one| vec![one]);
    let runs: Vec<_> =
        numberings.iter().flat_map(|numbering| points.iter().map(|point| (*numbering, point))).collect();
    let run = |(numbering, point): &(Numbering, &Point)| Row::new(point, *numbering, &transport, options);
    let rows: Vec<Row> = runs.par_iter().map(run).collect();
    let config = config(&transport, &rows);
    let summaries: Vec<Summary> =
        numberings.iter().map(|numbering| Summary::new(*numbering, &rows)).collect();
    let failed: Vec<String> = rows.iter().filter_map(Row::failure).collect();
    if !failed.is_empty() {
        return Err(failed.join("; ").into());
    }
    let json = json!({
        "config": config,
        "summary": summaries.iter().map(Summary::json).collect::<Vec<_>>(),
        "rows": rows.iter().map(Row::json).collect::<Vec<_>>(),
    });
    Ok(Report {
        title: format!(
            "Downloads of {} bytes over all paths of {}, in virtual time\n\n{}\n{}",
            options.bytes,
            options.name(),
            described(&config),
            summaries.iter().map(Summary::line).collect::<String>()
        ),
        columns: COLUMNS.to_vec(),
        rows: rows.iter().map(Row::cells).collect(),
        json,
    })
}

/// Returns the configuration that all runs share.
fn config(transport: &TransportConfig, rows: &[Row]) -> Value {
    let recovery = transport.recovery();
    let mtu = recovery.mtu().initial();
    let window = recovery.initial_window().bytes(mtu);
    let packets = window.div_ceil(u64::from(mtu));
    let answered = rows.iter().all(|row| row.result.as_ref().is_ok_and(|run| run.closed.is_some()));
    let multipath = transport.multipath().cloned().unwrap_or_default();
    json!({
        "initial_window_packets": packets,
        "initial_window_bytes": window,
        "initial_window_allowed": packets <= 10 && window <= MAX_INITIAL_WINDOW,
        "growth_per_round_trip": growth(rows),
        "stored_path_state": false,
        "header_bytes_per_packet": 28,
        "mtu_bytes": design::MAX_UDP_PAYLOAD + 28,
        "queues": "drop-tail, packets, from the file",
        "one_configuration_for_all_points": true,
        "server_answers_close": answered,
        "congestion": recovery.congestion().name(),
        "scheduler": multipath.scheduler().name(),
        "stream_window_max": transport.streams().stream_window_max(),
        "connection_window_max": transport.streams().connection_window_max(),
        "acknowledgments": acks::described(transport.ack()),
    })
}

/// Returns the largest growth of a congestion window within one round trip of its path: the median over the
/// runs, and the maximum.
fn growth(rows: &[Row]) -> Value {
    let all: Vec<f64> = rows.iter().filter_map(Row::growth).collect();
    let largest = all.iter().copied().fold(f64::NAN, f64::max);
    json!({ "median": rounded(median(&all)), "largest": rounded(largest) })
}

fn described(config: &Value) -> String {
    let entries = config.as_object().into_iter().flatten();
    let lines = entries.map(|(name, value)| format!("    {name}: {}\n", value.to_string().trim_matches('"')));
    format!("config:\n{}", lines.collect::<String>())
}

const COLUMNS: [&str; 15] = [
    "point",
    "numbering",
    "time s",
    "bound s",
    "strict s",
    "ratio",
    "strict",
    "last byte s",
    "retr. %",
    "spurious",
    "overflow",
    "ACK kB",
    "opened ms",
    "MB by path",
    "max window kB",
];

impl Row {
    fn new(point: &Point, numbering: Numbering, transport: &TransportConfig, options: &Options) -> Self {
        let multipath = transport.multipath().cloned().map(|multipath| multipath.with_numbering(numbering));
        let transport = transport.clone().with_multipath(multipath);
        let transfer = Transfer {
            seed: point.run,
            links: point.links(),
            bytes: options.bytes,
            client: transport.clone(),
            server: transport,
        };
        Self {
            numbering,
            point: point.run,
            bounds: [Return::Same, Return::Quickest]
                .map(|acks| fluid::bound(&point.fluid(), options.bytes as f64, acks)),
            paths: point.paths.len(),
            result: transfer.run(options.trace),
        }
    }

    /// Describes the failure of the run; `None` if it succeeded.
    fn failure(&self) -> Option<String> {
        match &self.result {
            Ok(run) if run.opened.len() + 1 == self.paths => None,
            Ok(run) => Some(format!(
                "point {}, {}: {} of {} paths opened",
                self.point,
                self.numbering,
                run.opened.len() + 1,
                self.paths
            )),
            Err(error) => Some(format!("point {}: {error}", self.point)),
        }
    }

    /// Returns the seconds until the closing packet arrived, or until the last byte if no closing packet
    /// arrived. `config` states which one is measured.
    fn seconds(&self) -> f64 {
        self.result.as_ref().map_or(f64::NAN, |run| run.closed.unwrap_or(run.finished).as_secs_f64())
    }

    /// Returns the transfer time divided by each of the two bounds.
    fn ratios(&self) -> [f64; 2] {
        self.bounds.map(|bound| self.seconds() / bound)
    }

    /// Returns the largest growth of a path's congestion window within one of the path's round trips.
    fn growth(&self) -> Option<f64> {
        let paths = self.result.as_ref().ok()?.server.paths.values();
        paths.map(|path| path.growth.largest()).max_by(f64::total_cmp)
    }

    fn json(&self) -> Value {
        let Ok(run) = &self.result else { return Value::Null };
        let spurious: u64 = run.server.paths.values().map(|path| path.spurious_losses).sum();
        let lost: u64 = run.server.paths.values().map(|path| path.lost_packets).sum();
        let by_path = |value: &dyn Fn(&PathTotals) -> Value| {
            run.server.paths.values().map(value).collect::<Vec<Value>>()
        };
        let slow_start = |path: &PathTotals| {
            path.slow_start_ended.map_or(
                Value::Null,
                |(at, threshold)| json!({ "s": at.as_nanos() as f64 / 1e9, "window": threshold }),
            )
        };
        json!({
            "numbering": self.numbering.name(),
            "point": self.point,
            "transfer_time_s": self.seconds(),
            "bound_s": self.bounds[0],
            "strict_bound_s": self.bounds[1],
            "retransmitted_percent": run.retransmitted_percent,
            "ratio": rounded(self.ratios()[0]),
            "strict_ratio": rounded(self.ratios()[1]),
            "growth_per_round_trip": by_path(&|path| json!(rounded(path.growth.largest()))),
            "last_byte_s": run.finished.as_secs_f64(),
            "handshake_s": run.connected.as_secs_f64(),
            "paths_opened_s": run.opened.iter().map(std::time::Duration::as_secs_f64).collect::<Vec<_>>(),
            "lost_packets": lost,
            "spurious_losses": spurious,
            "queue_overflows": run.overflowed,
            "ack_bytes": run.client.ack_bytes,
            "ack_frames": run.client.ack_frames,
            "mean_ack_ranges": rounded(run.client.ack_ranges as f64 / run.client.ack_frames.max(1) as f64),
            "path_bytes": by_path(&|path| json!(path.stream_bytes)),
            "path_max_window": by_path(&|path| json!(path.max_window)),
            "path_first_stream_s": by_path(&|path| json!(path.first_stream.map(|at| at.as_nanos() as f64 / 1e9))),
            "path_last_stream_s": by_path(&|path| json!(path.last_stream.map(|at| at.as_nanos() as f64 / 1e9))),
            "path_slow_start_ended": by_path(&slow_start),
        })
    }

    fn cells(&self) -> Vec<String> {
        let Ok(run) = &self.result else { return Vec::new() };
        let paths = run.server.paths.values();
        let joined = |parts: Vec<String>| parts.join(" ");
        vec![
            self.point.to_string(),
            self.numbering.to_string(),
            format!("{:.3}", self.seconds()),
            format!("{:.3}", self.bounds[0]),
            format!("{:.3}", self.bounds[1]),
            format!("{:.3}", self.ratios()[0]),
            format!("{:.3}", self.ratios()[1]),
            format!("{:.3}", run.finished.as_secs_f64()),
            format!("{:.2}", run.retransmitted_percent),
            paths.clone().map(|path| path.spurious_losses).sum::<u64>().to_string(),
            run.overflowed.to_string(),
            format!("{:.0}", run.client.ack_bytes as f64 / 1e3),
            joined(run.opened.iter().map(|at| at.as_millis().to_string()).collect()),
            joined(paths.clone().map(|path| format!("{:.1}", path.stream_bytes as f64 / 1e6)).collect()),
            joined(paths.map(|path| format!("{:.0}", path.max_window as f64 / 1e3)).collect()),
        ]
    }
}

/// Summary of all runs with one packet numbering.
struct Summary {
    numbering: Numbering,
    runs: usize,
    /// Transfer times relative to each of the two bounds, as in [`Row::ratios`].
    over: [Over; 2],
    retransmitted: f64,
}

/// Transfer times as multiples of a bound.
struct Over {
    median: f64,
    worst: f64,
    worst_point: u64,
}

impl Over {
    fn new(rows: &[&Row], bound: usize) -> Self {
        let ratio = |row: &&Row| row.ratios()[bound];
        let worst = rows.iter().max_by(|one, other| ratio(one).total_cmp(&ratio(other)));
        Self {
            median: median(&rows.iter().map(ratio).collect::<Vec<_>>()),
            worst: worst.map_or(f64::NAN, ratio),
            worst_point: worst.map_or(0, |row| row.point),
        }
    }
}

impl Summary {
    fn new(numbering: Numbering, rows: &[Row]) -> Self {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.numbering == numbering).collect();
        let retransmitted: Vec<f64> =
            rows.iter().filter_map(|row| Some(row.result.as_ref().ok()?.retransmitted_percent)).collect();
        Self {
            numbering,
            runs: rows.len(),
            over: [0, 1].map(|bound| Over::new(&rows, bound)),
            retransmitted: median(&retransmitted),
        }
    }

    fn json(&self) -> Value {
        let [same, strict] = &self.over;
        json!({
            "numbering": self.numbering.name(),
            "runs": self.runs,
            "median_ratio": rounded(same.median),
            "worst_ratio": rounded(same.worst),
            "worst_point": same.worst_point,
            "median_strict_ratio": rounded(strict.median),
            "worst_strict_ratio": rounded(strict.worst),
            "worst_strict_point": strict.worst_point,
            "median_retransmitted_percent": rounded(self.retransmitted),
        })
    }

    fn line(&self) -> String {
        let Self { numbering, runs, over: [same, strict], retransmitted } = self;
        let over = |Over { median, worst, worst_point }: &Over| {
            format!("median {median:.3}, worst {worst:.3} (point {worst_point})")
        };
        format!(
            "numbering {numbering}: {runs} runs, time / bound: {}; time / strict bound: {}; \
             median {retransmitted:.2} % retransmitted\n",
            over(same),
            over(strict)
        )
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

    fn options(arguments: &[&str]) -> Options {
        Line::parse_from([&["aggregation", "--design", "design.csv"], arguments].concat()).options
    }

    const DESIGN: &str = "\
run,rate_mbps_0,owd_ms_0,queue_packets_0,rate_mbps_1,owd_ms_1,queue_packets_1
3,20,10,80,30,25,200
5,40,15,200,10,10,40
";

    #[test]
    fn every_point_has_a_row_with_what_scripts_read() {
        let points = design::parse("design.csv", DESIGN.as_bytes()).unwrap();
        let report = measure(&points, &options(&["--bytes", "5000000", "--congestion", "cubic"])).unwrap();
        assert_eq!((report.rows.len(), report.rows[0].len()), (4, report.columns.len()));
        let rows = report.json["rows"].as_array().unwrap();
        let labels: Vec<_> =
            rows.iter().map(|row| (row["numbering"].as_str(), row["point"].as_u64())).collect();
        let expected = [("multiple", 3), ("multiple", 5), ("single", 3), ("single", 5)];
        assert_eq!(labels, expected.map(|(numbering, point)| (Some(numbering), Some(point))));
        for row in rows {
            let [time, bound] = ["transfer_time_s", "bound_s"].map(|name| row[name].as_f64().unwrap());
            // 50 Mbit/s take at least 0.8 s for 5 MB. CUBIC is used because BBR takes longer for so little
            // data.
            assert!(bound > 0.8 && time > 0.8 && time < bound * 1.5, "{time} s, bound {bound} s");
            assert!((0.0..50.0).contains(&row["retransmitted_percent"].as_f64().unwrap()));
        }
        let summary = &report.json["summary"][0];
        let ratios = rows[..2].iter().map(|row| row["ratio"].as_f64().unwrap());
        assert_eq!(summary["worst_ratio"].as_f64().unwrap(), ratios.fold(0.0, f64::max));
        assert_eq!(report.json["config"]["initial_window_allowed"], true);
    }

    #[test]
    fn the_options_reach_the_transport() {
        let transport = options(&["--scheduler", "round-robin", "--congestion", "newreno"]).transport();
        assert_eq!(transport.multipath().unwrap().scheduler(), Scheduler::RoundRobin);
        assert_eq!(transport.recovery().congestion(), Congestion::NewReno);
        let Err(fault) = Line::try_parse_from(["aggregation", "--design", "d", "--scheduler", "x"]) else {
            panic!("`x` is no scheduler");
        };
        assert!(fault.to_string().contains("min-rtt"));
    }

    #[test]
    fn a_design_that_is_not_there_is_named() {
        let fault = run(&options(&[])).err().unwrap().to_string();
        assert!(fault.starts_with("design.csv: ") && fault.lines().count() == 1, "{fault}");
    }
}
