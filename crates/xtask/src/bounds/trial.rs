//! Runs of one test, with limits on time and memory.

use std::fmt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::driver;
use super::workspace::VARIABLE;
use crate::child::{Reaped, collect};

/// Maximum address space of a test, in KiB.
const MAX_MEMORY: u64 = 6 << 20;
/// Limits on the time of a test: of the processor, which finds a loop without an end, and of the clock, which finds a test that
/// waits for ever. The second is long, because others may use the machine too.
#[derive(Clone, Copy, Debug)]
struct Time {
    processor: Duration,
    clock: Duration,
}

/// Limits for a test with all bounds in place.
const INTACT: Time = Time { processor: Duration::from_secs(300), clock: Duration::from_secs(900) };
/// Limits without a bound: these, and a multiple of the usual time.
const WITHOUT: Time = Time { processor: Duration::from_secs(20), clock: Duration::from_secs(200) };
/// Multiple of its usual time that a test may take without a bound.
const FACTOR: u32 = 4;

/// Test that can be run.
#[derive(Debug)]
pub(super) struct Trial {
    /// `file#test`
    pub(super) test: String,
    full: String,
    program: PathBuf,
    current: PathBuf,
    /// Time that it takes with all bounds in place.
    usual: OnceLock<Duration>,
}

/// Result of a run.
#[derive(Clone, Debug)]
pub(super) enum Outcome {
    Passed,
    /// With what the test said.
    Failed(String),
    Endless,
    /// Memory ran out.
    Exhausted,
    /// Ended by a signal.
    Killed(i32),
}

impl Outcome {
    pub(super) fn has_failed(&self) -> bool {
        !matches!(self, Self::Passed)
    }
}

impl Outcome {
    /// Describes the kind of result.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Passed => "**passes**",
            Self::Failed(_) => "fails",
            Self::Endless => "does not end",
            Self::Exhausted => "runs out of memory",
            Self::Killed(_) => "is ended by a signal",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passed => f.write_str("passes"),
            Self::Failed(said) => f.write_str(said),
            Self::Endless => f.write_str("does not end"),
            Self::Exhausted => f.write_str("runs out of memory"),
            Self::Killed(signal) => write!(f, "is ended by signal {signal}"),
        }
    }
}

impl Trial {
    pub(super) fn new(test: String, full: String, program: PathBuf, current: PathBuf) -> Self {
        Self { test, full, program, current, usual: OnceLock::new() }
    }

    /// Runs the test with all bounds in place.
    pub(super) fn intact(&self) -> Outcome {
        let begun = Instant::now();
        let outcome = self.run(None, INTACT);
        self.usual.get_or_init(|| begun.elapsed());
        outcome
    }

    /// Runs the test with a bound taken out.
    pub(super) fn without(&self, switch: &str) -> Outcome {
        let usual = self.usual.get().copied().unwrap_or_default();
        let Time { processor, clock } = WITHOUT;
        self.run(Some(switch), Time { processor: processor + usual * FACTOR, clock: clock + usual * FACTOR })
    }

    fn run(&self, switch: Option<&str>, limit: Time) -> Outcome {
        let mut command = Command::new("sh");
        let limits = format!("ulimit -c 0; ulimit -v {MAX_MEMORY}; ulimit -t {}", limit.processor.as_secs());
        command.args(["-c", &format!("{limits}; exec \"$0\" \"$@\"")]).arg(&self.program);
        command.args([&self.full, "--exact", "--include-ignored", "--test-threads=1"]);
        command.current_dir(&self.current).env("CARGO_MANIFEST_DIR", &self.current);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        command.env("RUST_BACKTRACE", "0");
        if std::env::var_os(driver::VARIABLE).is_none() {
            command.env(driver::VARIABLE, driver::INTERLEAVINGS);
        }
        match switch {
            Some(switch) => command.env(VARIABLE, switch),
            None => command.env_remove(VARIABLE),
        };
        let mut child = match Reaped::spawn(&mut command) {
            Ok(child) => child,
            Err(error) => return Outcome::Failed(error.to_string()),
        };
        let said = [collect(child.0.stdout.take()), collect(child.0.stderr.take())];
        let status = child.wait_until(Instant::now() + limit.clock);
        // Programs that the test has started belong to its group.
        if let Ok(group) = i32::try_from(child.0.id()) {
            let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
        }
        drop(child);
        let said: String = said.into_iter().filter_map(|said| said.join().ok()).collect();
        let Some(status) = status else { return Outcome::Endless };
        if status.success() && said.contains("1 passed") {
            return Outcome::Passed;
        }
        if said.contains("memory allocation of") || said.contains("capacity overflow") {
            return Outcome::Exhausted;
        }
        match status.signal() {
            Some(signal) if signal == Signal::SIGXCPU as i32 || signal == Signal::SIGKILL as i32 => {
                Outcome::Endless
            }
            Some(signal) => Outcome::Killed(signal),
            None => Outcome::Failed(message(&said)),
        }
    }
}

/// Returns the message of the panic, shortened.
fn message(said: &str) -> String {
    let mut lines = said.lines().skip_while(|line| !line.contains("panicked at"));
    let place = lines.next().and_then(|line| line.split("panicked at ").nth(1)).unwrap_or("no panic");
    let place = place.trim_end_matches(':').rsplit("crates/").next().unwrap_or_default();
    let text: Vec<&str> = lines.take_while(|line| !line.starts_with("note:") && !line.is_empty()).collect();
    let text: String = text.join(" ").chars().take(MAX_MESSAGE).collect();
    format!("{place}: {text}")
}

/// Maximum length of a panic's message that is shown.
const MAX_MESSAGE: usize = 160;
