//! A guest that is a child process.
//!
//! Simulated time stands still while a guest computes its answer. A watchdog limits the real time of an
//! answer, and kills the process that exceeds it.

use core::time::Duration;
use std::io::{BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anabranch_guest::{Answer, Hello, Step, VERSION, Welcome, read, write};
use rustix::process::{Pid, Signal, kill_process_group};

use super::{Guest, locate};

/// Maximum number of bytes at the end of a guest's standard error that are kept.
const MAX_STDERR: usize = 4096;
/// Maximum time from the end of a process's output to the end of the process.
const ENDING: Duration = Duration::from_secs(1);
/// Size in bytes of the buffer for a guest's output.
const BUFFER: usize = 1 << 18;

/// Limits of a guest in real time.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Time for a single answer. A guest is killed when an answer has taken between one and two times as
    /// long.
    pub step: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { step: Duration::from_secs(20) }
    }
}

/// A child process and the pipes to it.
pub struct Process {
    name: String,
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    watched: Arc<Watched>,
    /// Receiver of the end of the guest's standard error, which arrives once the guest has closed it.
    stderr: Receiver<Vec<u8>>,
    /// Sender whose drop ends the watchdog.
    _watchdog: Sender<()>,
    message: Vec<u8>,
    answer: Vec<u8>,
}

/// State that a process shares with its watchdog.
#[derive(Default)]
struct Watched {
    /// Number of answers so far.
    answers: AtomicU64,
    /// `true` while an answer is awaited.
    waiting: AtomicBool,
    /// `true` once the watchdog has ended the process.
    hung: AtomicBool,
    /// Process group; `None` once the process has been reaped, since another process may then get its ID.
    group: Mutex<Option<Pid>>,
}

impl Watched {
    /// Kills the process and all processes that it has started.
    fn kill(&self) {
        if let Some(group) = *self.group.lock().unwrap_or_else(PoisonError::into_inner) {
            // Errors do not matter: the process may have ended already.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

impl Process {
    /// Starts `command`, sends it `hello`, and reads its [`Welcome`].
    ///
    /// # Errors
    /// Fails if the program cannot be started, or if its answer violates the protocol.
    pub fn start(command: &[String], hello: &Hello, limits: Limits) -> Result<Self, String> {
        let (program, arguments) = command.split_first().ok_or("guest: there is no program")?;
        let file = locate(program).ok_or_else(|| format!("guest `{program}`: there is no such program"))?;
        let failed =
            |error: &dyn core::fmt::Display| format!("guest `{program}`: cannot be started: {error}");
        let mut child = Command::new(file)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A process group of its own can be killed with all processes that the guest starts.
            .process_group(0)
            .spawn()
            .map_err(|error| failed(&error))?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(to), Some(from), Some(stderr)) = pipes else { return Err(failed(&"it has no pipes")) };
        let watched = Arc::new(Watched {
            group: Mutex::new(i32::try_from(child.id()).ok().and_then(Pid::from_raw)),
            ..Watched::default()
        });
        let mut process = Self {
            name: program.clone(),
            child,
            to,
            from: BufReader::with_capacity(BUFFER, from),
            stderr: keep(stderr),
            _watchdog: watch(Arc::clone(&watched), limits.step),
            watched,
            message: Vec::new(),
            answer: Vec::new(),
        };
        hello.encode(&mut process.message);
        process.exchange()?;
        let welcome = Welcome::decode(&process.answer).map_err(|fault| process.fault(&fault))?;
        if welcome.version != VERSION {
            let fault = format!("speaks version {} of the protocol, not {VERSION}", welcome.version);
            return Err(process.fault(&fault));
        }
        Ok(process)
    }

    fn fault(&self, what: &dyn core::fmt::Display) -> String {
        format!("guest `{}`: {what}", self.name)
    }

    /// Sends the message and reads the answer to it.
    fn exchange(&mut self) -> Result<(), String> {
        self.watched.waiting.store(true, Ordering::Relaxed);
        let written = write(&mut self.to, &self.message).and_then(|()| self.to.flush());
        let answered = written.and_then(|()| read(&mut self.from, &mut self.answer));
        self.watched.waiting.store(false, Ordering::Relaxed);
        self.watched.answers.fetch_add(1, Ordering::Relaxed);
        match answered {
            Ok(true) => Ok(()),
            Err(error) if error.kind() == std::io::ErrorKind::InvalidData => Err(self.fault(&error)),
            Ok(false) | Err(_) => Err(self.ended()),
        }
    }

    /// Waits for the process to end, for a limited time, and describes how it ended.
    fn ended(&mut self) -> String {
        let tries = 50;
        let mut status = None;
        for _ in 0..tries {
            status = self.child.try_wait().ok().flatten();
            if status.is_some() {
                break;
            }
            thread::sleep(ENDING / tries);
        }
        if self.watched.hung.load(Ordering::Relaxed) {
            return self.fault(&"gave no answer in time and was ended");
        }
        let how = match status {
            Some(status) => format!("ended with {status}"),
            None => "closed its output".to_owned(),
        };
        self.watched.kill();
        let said = self.stderr.recv_timeout(ENDING).unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        match said.lines().rfind(|line| !line.trim().is_empty()) {
            Some(last) => self.fault(&format!("{how}: {}", last.trim())),
            None => self.fault(&how),
        }
    }
}

impl Guest for Process {
    fn step(&mut self, step: &Step<'_>) -> Result<Answer<'_>, String> {
        self.message.clear();
        step.encode(&mut self.message);
        self.exchange()?;
        let answer = Answer::decode(&self.answer).map_err(|fault| self.fault(&fault))?;
        if answer.number != step.number {
            let fault = format!("answered step {} when it was asked {}", answer.number, step.number);
            return Err(self.fault(&fault));
        }
        Ok(answer)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.watched.kill();
        let _ = self.child.wait();
        *self.watched.group.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Starts the watchdog of a process. It checks the process once per `limit`, and kills it if the same answer
/// is awaited at two consecutive checks.
fn watch(watched: Arc<Watched>, limit: Duration) -> Sender<()> {
    let (stop, stopped) = mpsc::channel();
    thread::spawn(move || {
        let mut seen = None;
        while stopped.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
            let answers = watched.answers.load(Ordering::Relaxed);
            let waiting = watched.waiting.load(Ordering::Relaxed).then_some(answers);
            if waiting.is_some() && waiting == seen {
                watched.hung.store(true, Ordering::Relaxed);
                watched.kill();
                return;
            }
            seen = waiting;
        }
    });
    stop
}

/// Reads `stderr` to its end on a thread, and sends the last [`MAX_STDERR`] bytes to the returned receiver.
fn keep(mut stderr: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        let (mut kept, mut piece) = (Vec::new(), [0; MAX_STDERR]);
        while let Ok(read @ 1..) = stderr.read(&mut piece) {
            kept.extend_from_slice(&piece[..read]);
            kept.drain(..kept.len().saturating_sub(MAX_STDERR));
        }
        // Errors do not matter: after a successful run nobody receives the bytes.
        let _ = tell.send(kept);
    });
    told
}

#[cfg(test)]
mod tests;
