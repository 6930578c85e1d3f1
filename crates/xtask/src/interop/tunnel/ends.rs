//! Programs of a case, and the files that they need.

use std::fs;
use std::path::PathBuf;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::Receiver;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::super::field::Field;
use super::super::process::{Client, Ended, last_line};
use crate::child::{Reaped, collect, lines};

/// Maximum time of every wait.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);
/// Time that a program may take to end when it is told to.
const END: Duration = Duration::from_secs(5);

/// Name and secret of the proxy's only user.
pub(super) const TOKEN: &str = "alice.tea";
/// The user, with the argon2 hash of the secret.
const USERS: &str = "[[user]]\nname = \"alice\"\nsecret = \"$argon2id$v=19$m=19456,t=2,p=1$\
                     b1xRvvHA6h9m4WQGNvccpA$+veydJHuIxEw5mkU9ktSVS8ddQiu36/zeKJEIPVk/9A\"\n";
/// Configuration of a proxy that ends silent flows soon.
const IDLE: &str = "[limits]\nudp_idle = 1.0\n";

/// Folder with the files of one case.
pub(super) struct Files(TempDir);

impl Files {
    pub(super) fn write(field: &Field) -> Result<Self, String> {
        let files = Self(field.downloads()?);
        for (name, content) in [("users.toml", USERS), ("token", TOKEN), ("idle.toml", IDLE)] {
            fs::write(files.path(name), content).map_err(|error| format!("{name}: {error}"))?;
        }
        Ok(files)
    }

    /// Returns the path of a file.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

/// Running program, which is killed when this value is dropped.
pub(super) struct Running {
    child: Reaped,
    /// Kept open, because peers end when it ends.
    _stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    log: JoinHandle<String>,
}

impl Running {
    pub(super) fn start(mut command: Command) -> Result<Self, String> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = Reaped::spawn(&mut command);
        let mut child = child.map_err(|error| format!("{}: {error}", command.get_program().display()))?;
        let (stdin, lines) = (child.0.stdin.take(), lines(child.0.stdout.take()));
        let log = collect(child.0.stderr.take());
        Ok(Self { child, _stdin: stdin, lines, log })
    }

    /// Starts a program that says this first, and returns the rest of that line.
    pub(super) fn saying(command: Command, prefix: &str) -> Result<(Self, String), String> {
        let running = Self::start(command)?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            match running.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    if let Some(rest) = line.strip_prefix(prefix) {
                        return Ok((running, rest.to_owned()));
                    }
                }
                Err(_) => {
                    drop(running.child);
                    let log = running.log.join().unwrap_or_default();
                    return Err(format!("'{}' was not said: {}", prefix.trim(), last_line(&log)));
                }
            }
        }
    }

    /// Tells the program to end, and returns its log.
    pub(super) fn end(mut self) -> Result<String, String> {
        self.child.terminate()?;
        let status = self.child.wait_until(Instant::now() + END);
        drop(self.child);
        let log = self.log.join().unwrap_or_default();
        match status {
            Some(status) if status.success() => Ok(log),
            Some(status) => Err(format!("ended with {status}: {}", last_line(&log))),
            None => Err("did not end when it was told to".to_owned()),
        }
    }
}

/// Runs a peer's client, and returns its report.
pub(super) fn report(command: Command) -> Result<serde_json::Value, String> {
    let ended = Client::start(command)?.end(PATIENCE);
    match ended {
        Ended { timed_out: true, .. } => Err(format!("client took longer than {} s", PATIENCE.as_secs())),
        Ended { code: Some(0), output, .. } => {
            serde_json::from_str(last_line(&output)).map_err(|error| format!("client's report: {error}"))
        }
        Ended { log, .. } => Err(format!("client: {}", last_line(&log))),
    }
}
