//! All benchmarks in sequence, and the table of their results in docs/performance.md, measured at the current
//! commit.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use clap::{Args, Parser};
use serde_json::{Value, json};

use crate::report::{Report, table};
use crate::stacks::SETTINGS;
use crate::{Cli, Error, load, measure, stacks};

/// Lines of a document that enclose the latest results.
const BEGIN: &str = "<!-- measured: `cargo run --release -p anabranch-bench -- all --write` writes this -->";
const END: &str = "<!-- /measured -->";
/// Documents, relative to the project: one with all results, and one with the main figures only.
const TABLES: &str = "docs/performance.md";
const FIGURES: &str = "README.md";
/// Name of our own stack's row in comparisons.
const OURS: &str = "anabranch";

#[derive(Args)]
pub(crate) struct Options {
    /// Measure only briefly: the figures show that everything works and are otherwise meaningless, as the
    /// table states
    #[arg(long)]
    quick: bool,
    /// Write the tables into docs/performance.md and their main figures into README.md. Refuses to on a machine
    /// that other programs load, unless the run is brief, and if our command is not built with each allocator,
    /// unless --only selects benchmarks
    #[arg(long)]
    write: bool,
    /// Number of rounds of the benchmarks beside other stacks [default: that of each benchmark]
    #[arg(long, conflicts_with = "quick", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    /// Only these benchmarks; the table lists those that were left out
    #[arg(long, value_delimiter = ',', value_name = "NAME,…")]
    only: Vec<String>,
    /// The project's folder
    #[arg(long, default_value_os_t = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))]
    root: PathBuf,
}

/// Benchmarks that `--rounds` concerns.
const IN_ROUNDS: [&str; 5] = ["bulk", "requests", "handshakes", "receive", "send"];

/// Function that finds a number in a result.
type Find = fn(&Value) -> Option<f64>;

/// A benchmark, its arguments, and the figure that the summary reports.
struct Part {
    /// Arguments that select the benchmark.
    args: &'static [&'static str],
    /// Arguments that are added in a brief run.
    quick: &'static [&'static str],
    /// `true` if the table shows the rows of the result. Otherwise it shows only the title, which summarizes
    /// the result.
    rows: bool,
    /// Main figure: its label, the function that finds it in the JSON, and its number of decimals.
    figure: (&'static str, Find, usize),
}

/// Arguments of brief runs, the same for both allocators.
const BULK: &[&str] = &["--rounds", "1", "--bytes", "50000000", "--stacks", "anabranch", "--plain"];
const REQUESTS: &[&str] =
    &["--rounds", "1", "--requests", "5000", "--connections", "1", "--stacks", "anabranch"];
const HANDSHAKES: &[&str] = &["--rounds", "1", "--handshakes", "100", "--stacks", "anabranch"];

const ALL: &[Part] = &[
    Part {
        args: &["bulk", "--allocator", "system"],
        quick: BULK,
        rows: true,
        figure: ("CPU seconds of both ends per GB of a download", |json| ours(json, "cpu_s_per_gb"), 2),
    },
    Part {
        args: &["bulk", "--allocator", "mimalloc"],
        quick: BULK,
        rows: true,
        figure: ("CPU seconds of the same with mimalloc", |json| ours(json, "cpu_s_per_gb"), 2),
    },
    Part {
        args: &["requests", "--allocator", "system"],
        quick: REQUESTS,
        rows: true,
        figure: ("HTTP/3 requests per CPU second of the server", |json| ours(json, "requests_per_s_core"), 0),
    },
    Part {
        args: &["requests", "--allocator", "mimalloc"],
        quick: REQUESTS,
        rows: true,
        figure: ("HTTP/3 requests, with mimalloc", |json| ours(json, "requests_per_s_core"), 0),
    },
    Part {
        args: &["handshakes", "--allocator", "system"],
        quick: HANDSHAKES,
        rows: true,
        figure: ("Full handshakes per CPU second of the server", |json| ours(json, "server_per_s_core"), 0),
    },
    Part {
        args: &["handshakes", "--allocator", "mimalloc"],
        quick: HANDSHAKES,
        rows: true,
        figure: ("Full handshakes, with mimalloc", |json| ours(json, "server_per_s_core"), 0),
    },
    Part {
        args: &["receive"],
        quick: &["--rounds", "1", "--batch", "50", "--alone", "--no-http3"],
        rows: true,
        figure: ("Nanoseconds per received packet, batches of 50", received, 0),
    },
    Part {
        args: &["send"],
        quick: &["--rounds", "1", "--only", "v1"],
        rows: true,
        figure: ("Nanoseconds per sent packet", sent, 0),
    },
    Part {
        args: &["fetch"],
        quick: &["--rounds", "5"],
        rows: true,
        figure: ("Milliseconds of `get`'s own for a small file", |json| json["ours_ms"].as_f64(), 1),
    },
    Part {
        args: &["idle"],
        quick: &["--connections", "200"],
        rows: true,
        figure: ("Bytes of an idle server connection beyond TLS", idle, 0),
    },
    Part {
        args: &["simulate"],
        quick: &["--rounds", "2", "--bytes", "5000000"],
        rows: true,
        figure: ("CPU seconds of 50 MB over two simulated paths", |json| json["cpu_s_per_50mb"].as_f64(), 3),
    },
    Part {
        args: &["aggregation"],
        quick: &["--bytes", "5000000", "--points", "0,20,40"],
        rows: false,
        figure: (
            "Time of a download over two paths, of the fluid bound (median of the points)",
            aggregated,
            3,
        ),
    },
    Part {
        args: &["failover"],
        quick: &["--schedules", "40"],
        rows: false,
        figure: ("Milliseconds of the longest gap when a path dies", |json| json["max_gap_ms"].as_f64(), 1),
    },
    Part {
        args: &["failover", "--numbering", "single"],
        quick: &["--schedules", "40"],
        rows: false,
        figure: ("The same with a single packet number space", |json| json["max_gap_ms"].as_f64(), 1),
    },
];

fn row(json: &Value, wanted: impl Fn(&Value) -> bool) -> Option<&Value> {
    json["rows"].as_array()?.iter().find(|row| wanted(row))
}

fn ours(json: &Value, field: &str) -> Option<f64> {
    row(json, |row| row["name"] == OURS)?[field].as_f64()
}

fn received(json: &Value) -> Option<f64> {
    row(json, |row| row["name"] == "anabranch-v1" && row["batch"] == 50)?["ns_per_packet"].as_f64()
}

fn sent(json: &Value) -> Option<f64> {
    row(json, |row| row["name"] == "v1")?["ns_per_packet"].as_f64()
}

fn idle(json: &Value) -> Option<f64> {
    ours(json, "beyond_tls_bytes")
}

fn aggregated(json: &Value) -> Option<f64> {
    json["summary"][0]["median_ratio"].as_f64()
}

/// Result of a benchmark.
struct Measured {
    part: &'static Part,
    command: String,
    result: Result<Report, String>,
}

/// Runs all benchmarks, and writes the results into the documents if requested. If a benchmark fails, the
/// others still run. The tables then state the reason in place of its result, and the command fails at the
/// end. Figures that other programs may have disturbed are printed, and not written.
pub(crate) fn run(options: &Options) -> Result<Value, Error> {
    run_with(options, &mut load::average)
}

/// Runs all benchmarks. `average` returns the load average of the machine.
fn run_with(options: &Options, average: &mut dyn FnMut() -> Option<f64>) -> Result<Value, Error> {
    let unknown = options.only.iter().find(|name| !ALL.iter().any(|part| part.args[0] == **name));
    if let Some(unknown) = unknown {
        let mut known: Vec<&str> = ALL.iter().map(|part| part.args[0]).collect();
        known.dedup();
        return Err(
            format!("there is no benchmark `{unknown}` here: use some of {}", known.join(", ")).into()
        );
    }
    // Both documents are read before the long measurements begin.
    let documents = options.write.then(|| [TABLES, FIGURES].map(|name| Document::read(&options.root, name)));
    let documents = documents.map(|[tables, figures]| Ok::<_, Error>([tables?, figures?])).transpose()?;
    let must_be_quiet = options.write && !options.quick;
    let before = average();
    if must_be_quiet {
        load::check(before, 0.0, "before the measurement")?;
        if options.only.is_empty() {
            // Without them, the new tables would lack rows that the old ones have.
            stacks::check_ours()?;
        }
    }
    let watch = load::Watch::start();
    let all: Vec<Measured> = ALL.iter().map(|part| measured(part, options)).collect();
    let (after, own) = (average(), watch.end());
    let head = head(options, &Load { before, after, own })?;
    let tables = format!(
        "{head}\n\n{SETTINGS}\n\n{}\n{}",
        figures(&all),
        all.iter().map(Measured::section).collect::<String>()
    );
    let quiet = if must_be_quiet { load::check(after, own, "after the measurement") } else { Ok(()) };
    match documents {
        Some([performance, readme]) if quiet.is_ok() => {
            performance.write(&tables)?;
            readme.write(&format!("{head}\n\n{}", figures(&all)))?;
        }
        _ => print!("{tables}"),
    }
    quiet?;
    let failed: Vec<String> =
        all.iter().filter(|one| one.result.is_err()).map(|one| one.part.args.join(" ")).collect();
    if options.only.is_empty() && !failed.is_empty() {
        return Err(format!("not measured: {}", failed.join(", ")).into());
    }
    let json =
        all.iter().filter_map(|one| Some((one.part.args.join(" "), one.result.as_ref().ok()?.json.clone())));
    Ok(json!({ "head": head, "quick": options.quick, "benchmarks": json.collect::<serde_json::Map<_, _>>() }))
}

fn measured(part: &'static Part, options: &Options) -> Measured {
    let name = part.args[0];
    let mut args = [part.args, if options.quick { part.quick } else { &[] }].concat();
    let rounds = options.rounds.filter(|_| IN_ROUNDS.contains(&name)).map(|rounds| rounds.to_string());
    args.extend(rounds.iter().flat_map(|rounds| ["--rounds", rounds]));
    let command = format!("cargo run --release -p anabranch-bench -- {}", args.join(" "));
    if !options.only.is_empty() && !options.only.iter().any(|only| only == name) {
        return Measured { part, command, result: Err("left out".to_owned()) };
    }
    eprintln!("{name} …");
    let begin = Instant::now();
    let cli = Cli::try_parse_from(std::iter::once("anabranch-bench").chain(args));
    let result = cli.map_err(Error::from).and_then(|cli| measure(&cli.benchmark));
    let took = begin.elapsed();
    let result = result.map_err(|error| error.to_string().replace('\n', " "));
    match &result {
        Ok(_) => eprintln!("{name}: {:.0} s", took.as_secs_f64()),
        Err(error) => eprintln!("{name}: {error}"),
    }
    Measured { part, command, result }
}

impl Measured {
    /// Formats the benchmark's main figure as a line of a table.
    fn figure(&self) -> String {
        let (what, of, digits) = self.part.figure;
        let value = self.result.as_ref().ok().and_then(|report| of(&report.json));
        let told = value.map_or_else(|| "not measured".to_owned(), |value| format!("{value:.digits$}"));
        format!("| {what} | {told} |\n")
    }

    fn section(&self) -> String {
        let Self { part, command, result } = self;
        let told = match result {
            Ok(report) if part.rows => table(report),
            Ok(report) => format!("{}\n", summed_up(&report.title)),
            Err(error) => format!("Not measured: {error}\n"),
        };
        format!("\n`{command}`\n\n{told}")
    }
}

/// Returns the title without its last paragraph if that paragraph introduces the rows.
fn summed_up(title: &str) -> &str {
    match title.trim_end().rsplit_once("\n\n") {
        Some((before, last)) if last.ends_with(':') => before.trim_end(),
        _ => title.trim_end(),
    }
}

/// Formats the main figures as a table.
fn figures(all: &[Measured]) -> String {
    let lines: String = all.iter().map(Measured::figure).collect();
    format!("| what | figure |\n|---|---|\n{lines}")
}

/// Load averages before and after the measurements, and the part of the latter that they caused.
struct Load {
    before: Option<f64>,
    after: Option<f64>,
    own: f64,
}

impl std::fmt::Display for Load {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let words = |load: Option<f64>| load.map_or("unknown".to_owned(), |load| format!("{load:.2}"));
        let (before, after) = (words(self.before), words(self.after));
        write!(f, "load {before} before and {after} after, {:.2} of it by the benchmarks", self.own)
    }
}

/// Returns one line with the date, the commit, the machine and the load of the measurement.
fn head(options: &Options, load: &Load) -> Result<String, Error> {
    let commit = said(&options.root, "git", &["rev-parse", "--short=12", "HEAD"])?;
    let changed =
        said(&options.root, "git", &["status", "--porcelain", "--untracked-files=no"])?.lines().count();
    let state = match changed {
        0 => String::new(),
        1 => " with 1 file changed since".to_owned(),
        changed => format!(" with {changed} files changed since"),
    };
    let day = said(&options.root, "date", &["-u", "+%Y-%m-%d"])?;
    let short = if options.quick {
        " **A short run, which shows that everything works and little else.**"
    } else {
        ""
    };
    Ok(format!("Measured on {day}, commit {commit}{state}, {}, {load}.{short}", machine()))
}

/// Returns the output of a program.
fn said(folder: &Path, program: &str, args: &[&str]) -> Result<String, Error> {
    let output = Command::new(program).args(args).current_dir(folder).output()?;
    if !output.status.success() {
        return Err(format!("{program} {}: {}", args.join(" "), output.status).into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Describes the processor, its cores and the system.
fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let info = read("/proc/cpuinfo");
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("an unknown processor", |(_, model)| model.trim());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{cores} cores of {model}, Linux {}", read("/proc/sys/kernel/osrelease").trim())
}

/// Document with a place for the results.
struct Document {
    path: PathBuf,
    before: String,
    after: String,
}

impl Document {
    fn read(root: &Path, name: &str) -> Result<Self, Error> {
        let path = root.join(name);
        let text = std::fs::read_to_string(&path)?;
        let place = text.split_once(BEGIN).and_then(|(before, rest)| Some((before, rest.split_once(END)?.1)));
        let (before, after) = place.ok_or_else(|| format!("{name} has no lines `{BEGIN}` and `{END}`"))?;
        Ok(Self { path, before: before.to_owned(), after: after.to_owned() })
    }

    fn write(&self, measured: &str) -> Result<(), Error> {
        let text = format!("{}{BEGIN}\n\n{}\n\n{END}{}", self.before, measured.trim(), self.after);
        // The file is replaced in one step, so that no reader sees half of it.
        let beside = self.path.with_extension("md.new");
        std::fs::write(&beside, text)?;
        Ok(std::fs::rename(beside, &self.path)?)
    }
}

#[cfg(test)]
mod tests;
