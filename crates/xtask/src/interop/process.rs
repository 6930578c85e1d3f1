//! Child processes that never outlive their case.

use std::net::SocketAddr;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::Receiver;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::child::{Reaped, collect, lines};

/// Time that a server may take until it listens.
const START: Duration = Duration::from_secs(10);
/// Time that a server may take to exit after its standard input has ended.
const END: Duration = Duration::from_secs(5);
/// Exit status of a program for a case that it does not support (the interop runner's contract).
pub(super) const UNSUPPORTED: i32 = 127;

/// Returns the last line of a log that is not blank.
pub(super) fn last_line(log: &str) -> &str {
    log.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("no message")
}

/// Returns the unsupported feature that a program's log names.
pub(super) fn missing(log: &str) -> &str {
    let line = last_line(log);
    line.strip_prefix("unsupported: ").unwrap_or(line)
}

/// Reason why a server did not start.
#[derive(Debug)]
pub(super) enum NoServer {
    /// The program does not support the case.
    Unsupported(String),
    /// The program failed.
    Failed(String),
}

/// Running server.
pub(super) struct Server {
    child: Reaped,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    log: Option<JoinHandle<String>>,
    /// Address on which the server listens.
    pub(super) address: SocketAddr,
}

impl Server {
    /// Starts `command` and waits for its `listening IP:PORT`.
    pub(super) fn start(mut command: Command) -> Result<Self, NoServer> {
        let failed = |what: String| NoServer::Failed(format!("server: {what}"));
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map(Reaped)
            .map_err(|error| failed(error.to_string()))?;
        let stdin = child.0.stdin.take();
        let log = collect(child.0.stderr.take());
        let lines = lines(child.0.stdout.take());
        let deadline = Instant::now() + START;
        let address = loop {
            match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    if let Some(address) = line.strip_prefix("listening ").and_then(|text| text.parse().ok())
                    {
                        break address;
                    }
                }
                Err(_) => {
                    let status = child.wait_until(Instant::now() + Duration::from_secs(1));
                    drop(child);
                    let log = log.join().unwrap_or_default();
                    return Err(match status.and_then(|status| status.code()) {
                        Some(UNSUPPORTED) => NoServer::Unsupported(missing(&log).to_owned()),
                        _ => failed(format!("does not listen: {}", last_line(&log))),
                    });
                }
            }
        };
        Ok(Self { child, stdin, lines, log: Some(log), address })
    }

    /// Kills the server, as a crash of its machine would.
    pub(super) fn kill(self) {
        drop(self);
    }

    /// Stops the server by closing its standard input. Returns the lines that it printed after it began to
    /// listen, or its error message.
    pub(super) fn end(mut self) -> Result<Vec<String>, String> {
        drop(self.stdin.take());
        self.ended()
    }

    /// Stops the server with SIGTERM, as a container is stopped.
    pub(super) fn terminate(self) -> Result<Vec<String>, String> {
        self.child.terminate()?;
        self.ended()
    }

    fn ended(mut self) -> Result<Vec<String>, String> {
        match self.child.wait_until(Instant::now() + END) {
            Some(status) if status.success() => Ok(self.lines.iter().collect()),
            Some(status) => Err(format!("server ended with {status}: {}", self.complaint())),
            None => Err("server did not end when it was told to".to_owned()),
        }
    }

    fn complaint(mut self) -> String {
        let log = self.log.take();
        drop(self);
        log.and_then(|log| log.join().ok()).map_or_else(String::new, |log| last_line(&log).to_owned())
    }
}

/// Result of a client's run.
#[derive(Debug)]
pub(super) struct Ended {
    /// Exit status; `None` after a signal or a timeout.
    pub(super) code: Option<i32>,
    /// `true` if the client had to be killed.
    pub(super) timed_out: bool,
    /// All of stdout.
    pub(super) output: String,
    /// All of stderr.
    pub(super) log: String,
    /// Time from the client's start to its end.
    pub(super) elapsed: Duration,
}

/// Running client.
pub(super) struct Client {
    child: Reaped,
    output: JoinHandle<String>,
    log: JoinHandle<String>,
    started: Instant,
}

impl Client {
    pub(super) fn start(mut command: Command) -> Result<Self, String> {
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = child.map(Reaped).map_err(|error| format!("client: {error}"))?;
        let (output, log) = (collect(child.0.stdout.take()), collect(child.0.stderr.take()));
        Ok(Self { child, output, log, started: Instant::now() })
    }

    /// Waits for the client's end. Kills it if it runs longer than `patience`.
    pub(super) fn end(mut self, patience: Duration) -> Ended {
        let status = self.child.wait_until(self.started + patience);
        let elapsed = self.started.elapsed();
        drop(self.child);
        Ended {
            code: status.and_then(|status| status.code()),
            timed_out: status.is_none(),
            output: self.output.join().unwrap_or_default(),
            log: self.log.join().unwrap_or_default(),
            elapsed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_server_lives_until_its_stdin_ends() {
        let server = Server::start(shell("echo hello; echo listening 127.0.0.1:4433; cat; exit 0")).unwrap();
        assert_eq!(server.address, "127.0.0.1:4433".parse().unwrap());
        assert_eq!(server.end(), Ok(vec![]));
        let server = Server::start(shell("echo listening [::1]:1; cat; echo over; echo out")).unwrap();
        assert_eq!(server.end(), Ok(vec!["over".to_owned(), "out".to_owned()]));
        let script = "trap 'echo told; exit 0' TERM; echo listening [::1]:1; while :; do sleep 0.01; done";
        assert_eq!(Server::start(shell(script)).unwrap().terminate(), Ok(vec!["told".to_owned()]));
        let server = Server::start(shell("echo listening [::1]:1; cat; echo broken >&2; exit 3")).unwrap();
        let complaint = server.end().unwrap_err();
        assert!(complaint.contains("broken") && complaint.contains('3'), "{complaint}");
    }

    #[test]
    fn a_server_that_cannot_start_says_why() {
        let unsupported = Server::start(shell("echo unsupported: no such feature >&2; exit 127"));
        assert!(matches!(unsupported, Err(NoServer::Unsupported(why)) if why == "no such feature"));
        let failed = Server::start(shell("echo port is busy >&2; exit 1"));
        assert!(matches!(failed, Err(NoServer::Failed(why)) if why.contains("port is busy")));
    }

    #[test]
    fn a_client_that_hangs_is_killed() {
        let ended = Client::start(shell("echo '{}'; exec sleep 60")).unwrap().end(Duration::from_millis(200));
        assert!(ended.timed_out && ended.code.is_none() && ended.elapsed < Duration::from_secs(30));
        assert_eq!(ended.output, "{}\n");
        let ended = Client::start(shell("echo no >&2; exit 7")).unwrap().end(Duration::from_secs(30));
        assert_eq!((ended.code, ended.log.as_str()), (Some(7), "no\n"));
    }
}
