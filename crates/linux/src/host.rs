//! The host: boots a guest for an order, within limits of time and output, and reads its report.

use core::time::Duration;
use std::ffi::OsString;
use std::fs;
use std::io::{self, PipeReader, Read};
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::order::{MARK, Order, Report};

/// Maximum number of bytes that a guest may write to its console. A report has a few kilobytes.
pub const MAX_OUTPUT: u64 = 4 << 20;
/// Maximum wall time of a boot, even on a slow host.
pub const MAX_WALL: Duration = Duration::from_secs(600);
/// Folder whose files are in memory.
const MEMORY_FILES: &str = "/dev/shm";
/// Paths of the order and of the first process as the guest opens them. As long as `/proc` is the host's,
/// they lead to the folder in which the guest's kernel was started.
const ORDER: &str = "/proc/self/cwd/order.json";
const INIT: &str = "/proc/self/cwd/init";
/// Memory of a guest in MiB, enough for the largest buffers of all paths and for the kernel.
const MEMORY: u32 = 256;
/// Wall time of the guest at its start, in nanoseconds since 1970: 2023-11-14, as in the lab's simulations.
const EPOCH_NS: u64 = 1_700_000_000_000_000_000;
/// Maximum length of a console line that a failure quotes, in characters.
const MAX_QUOTE: usize = 160;

/// Programs and limits for booting guests.
#[derive(Clone, Debug)]
pub struct Host {
    /// File of the kernel.
    pub kernel: PathBuf,
    /// File of the program that is the guest's first process.
    pub program: PathBuf,
    /// Arguments of the program before the order's file.
    pub arguments: Vec<String>,
    /// Command that is put before the kernel's command; may be empty. The command must end when the process
    /// that started it ends.
    pub before: Vec<OsString>,
    /// Maximum wall time of a boot.
    pub limit: Duration,
}

/// Reason that a boot gave no report, formatted in one line.
#[derive(Debug, thiserror::Error)]
pub enum BootError {
    /// The kernel cannot be started.
    #[error("the guest cannot be started: {0}")]
    Start(io::Error),
    /// The guest's files cannot be written.
    #[error("the guest's files cannot be written: {0}")]
    Files(io::Error),
    /// The guest did not end in time.
    #[error("the guest did not end within {} s and was stopped", .0.as_secs())]
    Hung(Duration),
    /// The guest wrote more than [`MAX_OUTPUT`] bytes.
    #[error("the guest wrote more than {MAX_OUTPUT} bytes and was stopped")]
    Flood,
    /// The guest ended without a report.
    #[error("the guest ended without a report; its last words: {0}")]
    Died(String),
    /// The guest's report cannot be parsed.
    #[error("the guest's report cannot be read: {0}")]
    Nonsense(serde_json::Error),
}

impl Host {
    /// Boots a guest that carries out `order`.
    ///
    /// # Errors
    /// Fails if the guest does not start, ends without a report, or has to be stopped.
    pub fn boot(&self, order: &Order) -> Result<Report, BootError> {
        let dir = tempfile::Builder::new()
            .prefix("anabranch-guest-")
            .tempdir_in(visible())
            .map_err(BootError::Files)?;
        let file = dir.path().join("order.json");
        let text = serde_json::to_vec(order).map_err(BootError::Nonsense)?;
        fs::write(&file, text).map_err(BootError::Files)?;
        symlink(&self.program, dir.path().join("init")).map_err(BootError::Files)?;
        let (reader, child) = self.start(dir.path(), order.seed).map_err(BootError::Start)?;
        let guest = Guest { child };
        let (told, heard) = mpsc::channel();
        thread::spawn(move || told.send(listen(reader)));
        let output = match heard.recv_timeout(self.limit) {
            Ok(output) => output,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                return Err(BootError::Hung(self.limit));
            }
        };
        drop(guest);
        report(&output)
    }

    /// Starts the kernel in a process group of its own.
    fn start(&self, dir: &Path, seed: u64) -> io::Result<(PipeReader, Child)> {
        let (reader, writer) = io::pipe()?;
        let mut words = self.before.clone();
        words.push(self.kernel.clone().into());
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).args(arguments(seed)).arg("--").args(&self.arguments).arg(ORDER);
        // The host's environment must not reach the guest. Nothing remains after the guest's end: its files
        // are removed with the directory, and the file that holds its memory has no name.
        let memory = Path::new(MEMORY_FILES);
        let memory = if memory.is_dir() { memory } else { dir };
        command.env_clear().env("HOME", dir).env("TMPDIR", memory).current_dir(dir).process_group(0);
        command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
        let child = command.spawn()?;
        Ok((reader, child))
    }
}

/// Returns the kernel's arguments. The kernel's randomness depends on all of them, so they differ only in the
/// seed. They contain neither the path of the program nor that of the order.
fn arguments(seed: u64) -> Vec<String> {
    // A seed of 0 would select the host's randomness.
    let seed = (seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5bf0_3635).max(1);
    let words = format!(
        "mem={MEMORY}M time-travel=inf-cpu time-travel-start={EPOCH_NS} um-seed={seed} norandmaps root=/dev/root \
         rootfstype=hostfs rootflags=/ ro quiet loglevel=3 con=null con0=null,fd:1 con1=null ssl=null init={INIT}"
    );
    words.split_whitespace().map(str::to_owned).collect()
}

/// Returns a folder for temporary files that the guest sees. It is the usual one, unless that is in `/dev`,
/// `/proc` or `/sys`: the guest has its own versions of these. Then it is `/var/tmp`.
fn visible() -> PathBuf {
    let usual = std::env::temp_dir();
    let is_hidden = ["/dev", "/proc", "/sys"].iter().any(|hidden| usual.starts_with(hidden));
    if is_hidden { PathBuf::from("/var/tmp") } else { usual }
}

/// Running guest, whose processes are killed when this value is dropped.
struct Guest {
    child: Child,
}

impl Drop for Guest {
    fn drop(&mut self) {
        if let Ok(group) = i32::try_from(self.child.id()) {
            // Errors do not matter: the guest may have ended already.
            let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
        }
        let _ = self.child.wait();
    }
}

/// Reads the console until the report is complete, the output ends, or it exceeds [`MAX_OUTPUT`].
fn listen(mut reader: PipeReader) -> Vec<u8> {
    let mut output = Vec::new();
    let mut chunk = [0; 4096];
    let mark = MARK.as_bytes();
    let mut begins = None;
    while output.len() as u64 <= MAX_OUTPUT {
        let before = output.len();
        match reader.read(&mut chunk) {
            Ok(0) | Err(_) => break,
            Ok(n) => output.extend_from_slice(&chunk[..n]),
        }
        // Only new output is searched, and the end of the old one, in which a mark may have begun.
        begins = begins.or_else(|| {
            let from = before.saturating_sub(mark.len() - 1);
            output[from..].windows(mark.len()).position(|window| window == mark).map(|at| from + at)
        });
        if begins.is_some_and(|at| output[at.max(before)..].contains(&b'\n')) {
            break;
        }
    }
    output
}

/// Finds the report in the output of a guest.
fn report(output: &[u8]) -> Result<Report, BootError> {
    if output.len() as u64 > MAX_OUTPUT {
        return Err(BootError::Flood);
    }
    let text = String::from_utf8_lossy(output);
    match text.lines().find_map(|line| line.trim_end().strip_prefix(MARK)) {
        Some(report) => serde_json::from_str(report).map_err(BootError::Nonsense),
        None => Err(BootError::Died(last_words(&text))),
    }
}

/// Returns the line with the reason of a panic, or the last line, without control characters.
fn last_words(text: &str) -> String {
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    let line = lines().find(|line| line.contains("panic")).or_else(|| lines().next_back()).unwrap_or("none");
    line.chars().filter(|c| !c.is_control()).take(MAX_QUOTE).collect()
}

/// Replaces this process by the kernel of `command`. The kernel is killed when the parent of this process
/// ends. Its memory has the same layout in each run. Returns only if the replacement fails.
pub fn enter(command: &[OsString]) -> io::Error {
    use nix::sys::personality::{self, Persona};
    let Some((program, arguments)) = command.split_first() else { return io::ErrorKind::InvalidInput.into() };
    if let Err(error) = nix::sys::prctl::set_pdeathsig(Signal::SIGKILL) {
        return error.into();
    }
    // Some sandboxes forbid this call. The results are the same without it.
    let _ = personality::get().and_then(|now| personality::set(now | Persona::ADDR_NO_RANDOMIZE));
    Command::new(program).args(arguments).exec()
}

#[cfg(test)]
mod tests;
