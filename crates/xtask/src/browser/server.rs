//! Process of `anabranch serve` that the browser visits, and its access log.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::Receiver;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::child::{Reaped, collect, lines};

/// Time that the server may take to print its address, and to exit.
const PATIENCE: Duration = Duration::from_secs(10);

/// Server of a folder's files.
pub(super) struct Server {
    child: Reaped,
    log: JoinHandle<String>,
    /// URL that the server prints for browsers.
    pub(super) url: String,
    /// SHA-256 of the server's public key, in the form that Chromium accepts.
    pub(super) pin: String,
}

/// Line of the access log.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Request {
    pub(super) peer: String,
    pub(super) protocol: String,
    pub(super) path: String,
    pub(super) status: Option<u16>,
    pub(super) bytes: usize,
    pub(super) seconds: f64,
}

impl Server {
    /// Starts the server with the folder `files`. It writes qlog to `traces`.
    pub(super) fn start(program: &Path, files: &Path, traces: &Path) -> Result<Self, String> {
        let mut command = Command::new(program);
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--log", "json", "--drain", "1", "--root"])
            .arg(files);
        command.env("QLOGDIR", traces).env_remove("SSLKEYLOGFILE");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = Reaped::spawn(&mut command);
        let mut child = child.map_err(|error| format!("{}: {error}", program.display()))?;
        let log = collect(child.0.stderr.take());
        let said = lines(child.0.stdout.take());
        match announced(&said) {
            Some((url, pin)) => Ok(Self { child, log, url, pin }),
            None => {
                drop(child);
                Err(format!("the server did not start: {}", log.join().unwrap_or_default().trim()))
            }
        }
    }

    /// Returns the server's IP address and port, as in its URL.
    pub(super) fn authority(&self) -> &str {
        self.url.trim_start_matches("https://").trim_end_matches('/')
    }

    /// Stops the server. Returns the requests that it has answered, in order of completion.
    pub(super) fn end(mut self) -> Result<Vec<Request>, String> {
        self.child.terminate()?;
        let status = self.child.wait_until(Instant::now() + PATIENCE);
        drop(self.child);
        let log = self.log.join().unwrap_or_default();
        match status {
            Some(status) if status.success() => requests(&log),
            Some(status) => Err(format!("the server ended with {status}: {}", log.trim())),
            None => Err("the server did not end when it was told to".to_owned()),
        }
    }
}

/// Returns the URL and the hash of the server's key, which the server prints when it starts.
fn announced(said: &Receiver<String>) -> Option<(String, String)> {
    let deadline = Instant::now() + PATIENCE;
    let mut url = None;
    loop {
        let line = said.recv_timeout(deadline.saturating_duration_since(Instant::now())).ok()?;
        if let Some(open) = line.strip_prefix("open ") {
            url = Some(open.to_owned());
        }
        if let Some((_, pin)) = line.split_once("SPKI SHA-256 ") {
            return Some((url?, pin.to_owned()));
        }
    }
}

/// Parses the access log. Fails if it contains any other line.
fn requests(log: &str) -> Result<Vec<Request>, String> {
    log.lines()
        .map(|line| serde_json::from_str(line).map_err(|_| format!("the server said: {line}")))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn the_first_lines_say_what_to_open() {
        let said = |lines: &[&str]| {
            let (tell, told) = channel();
            lines.iter().for_each(|line| tell.send((*line).to_owned()).unwrap());
            told
        };
        let lines =
            ["listening 127.0.0.1:1", "open https://127.0.0.1:1/", "certificate made up, SPKI SHA-256 X="];
        assert_eq!(announced(&said(&lines)), Some(("https://127.0.0.1:1/".to_owned(), "X=".to_owned())));
        assert_eq!(announced(&said(&lines[..2])), None);
    }

    #[test]
    fn logs_hold_requests_and_nothing_else() {
        let line = r#"{"peer":"127.0.0.1:9","protocol":"h3","method":"GET","path":"/","status":200,"bytes":3,"seconds":0.5}"#;
        let two = requests(&format!("{line}\n{line}\n")).unwrap();
        assert_eq!((two.len(), two[1].protocol.as_str(), two[1].status), (2, "h3", Some(200)));
        let complaint = requests(&format!("{line}\nthread panicked\n")).unwrap_err();
        assert!(complaint.ends_with("thread panicked"), "{complaint}");
    }
}
