//! Fuzzing with coverage by the ordinary compiler: builds the targets of `fuzz/`, runs each for its share of the time, and minimizes
//! their corpora.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use clap::Args;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;

use crate::ours;

/// Flags that have the compiler count edges and report comparisons, as libFuzzer reads them. Assertions and overflow checks are on.
const COVERAGE: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Cdebug-assertions -Coverflow-checks -Ccodegen-units=1";
/// Maximum length of an input, in bytes. Longer ones find no more and take longer.
const MAX_LEN: usize = 4096;
/// Maximum resident memory of a target, in MiB, and maximum time for one input, in seconds. Beyond is a fault.
const MAX_MEMORY: usize = 1024;
const MAX_SECONDS: usize = 20;

/// Options of `cargo xtask fuzz`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Targets to run, or all
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
    /// Time in minutes, shared by the targets
    #[arg(long, default_value_t = 34.0)]
    minutes: f64,
    /// Instead of fuzzing, add to fuzz/corpus the fewest inputs of earlier runs that reach what all of them reach
    #[arg(long)]
    minimize: bool,
    /// Build with AddressSanitizer, which an ordinary compiler has only with RUSTC_BOOTSTRAP=1
    #[arg(long)]
    address: bool,
}

/// Outcome of a target's run.
struct Outcome {
    target: String,
    executions: u64,
    seconds: f64,
    /// Time on a processor, in seconds.
    busy: f64,
    /// Number of edges that the corpus reaches.
    coverage: u64,
    passed: bool,
}

/// Builds and runs the targets. Returns whether none has found a fault.
pub(crate) fn run(root: &Path, arguments: &Arguments) -> Result<bool, String> {
    let all = targets(root)?;
    let targets = if arguments.targets.is_empty() { all.clone() } else { arguments.targets.clone() };
    if let Some(unknown) = targets.iter().find(|target| !all.contains(target)) {
        return Err(format!("there is no target {unknown}: {}", all.join(", ")));
    }
    let programs = build(root, arguments.address)?;
    if arguments.minimize {
        return targets.iter().try_for_each(|target| minimize(root, &programs, target)).map(|()| true);
    }
    let share = arguments.minutes * 60.0 / targets.len() as f64;
    let share = Duration::try_from_secs_f64(share).map_err(|error| format!("--minutes: {error}"))?;
    let mut outcomes = Vec::new();
    for target in &targets {
        let outcome = fuzz(root, &programs, target, share)?;
        println!("{}", row(&outcome));
        outcomes.push(outcome);
    }
    let busy: f64 = outcomes.iter().map(|outcome| outcome.busy).sum();
    let executions: u64 = outcomes.iter().map(|outcome| outcome.executions).sum();
    let faults = outcomes.iter().filter(|outcome| !outcome.passed).count();
    let hours = busy / 3_600.0;
    println!(
        "{} targets, {executions} inputs, {hours:.2} hours of a processor, {faults} with a fault",
        targets.len()
    );
    Ok(faults == 0)
}

/// Returns the names of all targets.
fn targets(root: &Path) -> Result<Vec<String>, String> {
    let folder = root.join("fuzz/fuzz_targets");
    let entries = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let name = |entry: fs::DirEntry| Some(entry.path().file_stem()?.to_str()?.to_owned());
    let mut names: Vec<_> = entries.filter_map(Result::ok).filter_map(name).collect();
    names.sort();
    Ok(names)
}

/// Builds all targets with coverage, apart from other builds. Returns the folder of the programs.
fn build(root: &Path, address: bool) -> Result<PathBuf, String> {
    let host = host()?;
    let folder = ours::target(root).join(if address { "fuzz-address" } else { "fuzz" });
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    // With a named target, build scripts and macros are built without these flags.
    build.args(["build", "--release", "--locked", "--manifest-path", "fuzz/Cargo.toml", "--target", &host]);
    build.arg("--target-dir").arg(&folder).current_dir(root);
    if address {
        build.env("RUSTFLAGS", format!("{COVERAGE} -Zsanitizer=address")).env("RUSTC_BOOTSTRAP", "1");
    } else {
        build.env("RUSTFLAGS", COVERAGE);
    }
    match build.status() {
        Ok(status) if status.success() => Ok(folder.join(host).join("release")),
        Ok(_) => Err("the targets cannot be built".to_owned()),
        Err(error) => Err(format!("cargo: {error}")),
    }
}

/// Returns the compiler's own platform.
fn host() -> Result<String, String> {
    let output = Command::new("rustc").arg("-vV").output().map_err(|error| format!("rustc: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "rustc names no host".to_owned())
}

/// Returns the folders of a target's inputs: those that runs found, and those of the repository.
fn corpora(root: &Path, target: &str) -> Result<[PathBuf; 2], String> {
    let found = ours::target(root).join("fuzz-corpus").join(target);
    fs::create_dir_all(&found).map_err(|error| format!("{}: {error}", found.display()))?;
    Ok([found, root.join("fuzz/corpus").join(target)])
}

/// Returns the command that runs a target, without its inputs. A fault's input is written below the target folder.
fn command(root: &Path, programs: &Path, target: &str) -> Result<Command, String> {
    let faults = ours::target(root).join("fuzz-faults").join(target);
    fs::create_dir_all(&faults).map_err(|error| format!("{}: {error}", faults.display()))?;
    let mut command = Command::new(programs.join(target));
    command.arg(format!("-artifact_prefix={}/", faults.display()));
    command.args([format!("-rss_limit_mb={MAX_MEMORY}"), format!("-timeout={MAX_SECONDS}")]);
    command.arg(format!("-max_len={MAX_LEN}"));
    Ok(command)
}

/// Runs a target for `share`. What it prints about a fault is printed.
fn fuzz(root: &Path, programs: &Path, target: &str, share: Duration) -> Result<Outcome, String> {
    let mut command = command(root, programs, target)?;
    command.args([format!("-max_total_time={}", share.as_secs().max(1)), "-print_final_stats=1".to_owned()]);
    command.args(corpora(root, target)?).stdin(Stdio::null());
    let (begin, busy) = (Instant::now(), children()?);
    let output = command.output().map_err(|error| format!("{target}: {error}"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        print!("{}{text}", String::from_utf8_lossy(&output.stdout));
    }
    Ok(Outcome {
        target: target.to_owned(),
        executions: last_number(&text, "stat::number_of_executed_units:"),
        seconds: begin.elapsed().as_secs_f64(),
        busy: (children()? - busy).as_secs_f64(),
        coverage: last_number(&text, " cov:"),
        passed: output.status.success(),
    })
}

/// Returns the time that this process's children, those that have ended, have spent on a processor.
fn children() -> Result<Duration, String> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).map_err(|error| error.to_string())?;
    let micros = [usage.user_time(), usage.system_time()].map(|time| time.num_microseconds());
    Ok(Duration::from_micros(micros.iter().sum::<i64>().unsigned_abs()))
}

/// Adds to a target's corpus the fewest inputs that together reach each edge which it and the inputs of earlier runs reach. Inputs of
/// earlier minimizations are replaced; those with a name of their own stay.
fn minimize(root: &Path, programs: &Path, target: &str) -> Result<(), String> {
    let [found, kept] = corpora(root, target)?;
    let merged = found.with_extension("merged");
    let io = |error: std::io::Error| format!("{target}: {error}");
    let _ = fs::remove_dir_all(&merged);
    fs::create_dir_all(&merged).map_err(io)?;
    let mut command = command(root, programs, target)?;
    // Without counters, an edge that an input takes more often is no new one: that leaves a tenth of the inputs.
    let status = command.args(["-set_cover_merge=1", "-use_counters=0"]).args([&merged, &kept, &found]);
    let status = status.stderr(Stdio::null()).status().map_err(io)?;
    if !status.success() {
        return Err(format!("{target}: its corpus cannot be merged"));
    }
    let count = |folder: &Path| fs::read_dir(folder).map_or(0, Iterator::count);
    let before = count(&kept);
    for entry in
        fs::read_dir(&kept).map_err(io)?.filter_map(Result::ok).filter(|entry| is_digest(&entry.file_name()))
    {
        fs::remove_file(entry.path()).map_err(io)?;
    }
    for entry in fs::read_dir(&merged).map_err(io)? {
        let entry = entry.map_err(io)?;
        fs::copy(entry.path(), kept.join(entry.file_name())).map_err(io)?;
    }
    println!("{target}: {} inputs of {before} and {} that runs found", count(&kept), count(&found));
    fs::remove_dir_all(&merged).map_err(io)
}

/// Returns whether a name is the digest by which libFuzzer names an input: SHA-1 in hexadecimal.
fn is_digest(name: &OsStr) -> bool {
    name.len() == 40 && name.to_str().is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Returns the number after the last `mark` of a text, or 0.
fn last_number(text: &str, mark: &str) -> u64 {
    let after = text.rsplit_once(mark).map_or("", |(_, after)| after).trim_start();
    let digits = after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    after[..digits].parse().unwrap_or(0)
}

/// Describes an outcome in a line.
fn row(outcome: &Outcome) -> String {
    let mut row = format!("{:<16}", outcome.target);
    let rate = outcome.executions as f64 / outcome.busy.max(0.001);
    let verdict = if outcome.passed { "no fault" } else { "FAULT" };
    // Writing into a string does not fail.
    let _ = write!(row, " {:>10} inputs in {:>5.0} s", outcome.executions, outcome.seconds);
    let _ = write!(row, " ({:>5.0} s of a processor, {rate:>7.0} each)", outcome.busy);
    let _ = write!(row, ", {:>6} edges, {verdict}", outcome.coverage);
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_numbers_of_a_log_are_read() {
        let log = "#12 NEW cov: 7 ft: 9\n#99 DONE   cov: 812 ft: 900\nstat::number_of_executed_units: 99\n";
        assert_eq!(last_number(log, " cov:"), 812);
        assert_eq!(last_number(log, "stat::number_of_executed_units:"), 99);
        assert_eq!(last_number("no target", " cov:"), 0);
    }

    #[test]
    fn inputs_with_a_name_of_their_own_stay() {
        assert!(is_digest("05405428ea8ac5c3d6b13157420ceaff18106bc1".as_ref()));
        for name in ["experiment-with-a-line-break", "0540", "x5405428ea8ac5c3d6b13157420ceaff18106bc1"] {
            assert!(!is_digest(name.as_ref()), "{name}");
        }
    }
}
