//! Downloads that continue after a failure.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Stdio};
use std::time::Duration;

use super::*;

/// Maximum duration of any test here, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

#[test]
fn a_stream_that_was_reset_goes_on() {
    let (site, here) = (Site::start(), tempfile::tempdir().unwrap());
    let url = site.url("/flaky/reset");
    let output = get(&site, here.path(), &[&url, "-o", "file", "--json", "facts"]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(std::fs::read(here.path().join("file")).unwrap() == pattern(LARGE));
    let facts: Value = serde_json::from_slice(&std::fs::read(here.path().join("facts")).unwrap()).unwrap();
    assert_eq!((&facts["sha256"], &facts["bytes"]), (&sha256(&pattern(LARGE)).into(), &LARGE.into()));
    // Each third was requested separately, over the same connection.
    assert!(facts["continued"].as_u64() >= Some(1), "{facts}");
    let ranges = site.ranges();
    assert_eq!(ranges[0], [None, None]);
    for [range, condition] in &ranges[1..] {
        assert!(range.as_ref().unwrap().ends_with('-'), "{ranges:?}");
        assert_eq!(condition.as_deref(), Some("\"one\""));
    }
    assert_eq!(site.connections().len(), 1);
    // The messages name the failure and the progress.
    let lines: Vec<_> = said.lines().collect();
    assert!(
        lines[0].starts_with(&format!("anabranch: {url}: reset by the peer: H3_EXCESSIVE_LOAD; ")),
        "{said}"
    );
    // The pause is at most half a second, printed in tenths of a second.
    let again = lines[0].rsplit_once(&format!(" of {LARGE} bytes are here; trying again in 0.")).unwrap().1;
    assert!(["2", "3", "4", "5"].iter().any(|tenths| again == format!("{tenths} s (1 of 8)")), "{said}");
    assert!(lines[1].starts_with(&format!("anabranch: {url}: goes on, ")), "{said}");
}

#[test]
fn a_connection_that_was_lost_is_made_again() {
    let (site, here) = (Site::start(), tempfile::tempdir().unwrap());
    let output = get(&site, here.path(), &[&site.url("/flaky/close"), &site.url("/small"), "-o", "."]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(std::fs::read(here.path().join("close")).unwrap() == pattern(LARGE));
    assert_eq!(names(here.path()), ["close", "small"]);
    assert_eq!(site.connections().len(), 2);
    assert!(stderr(&output).contains(", continued once"), "{}", stderr(&output));
    let output = get(&site, here.path(), &["-o", "-", "--quiet", &site.url("/flaky/close")]);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
    assert!(output.stdout == pattern(LARGE));
}

#[test]
fn another_file_is_not_joined() {
    let (site, here) = (Site::start(), tempfile::tempdir().unwrap());
    let mut other = pattern(LARGE);
    other.reverse();
    let url = site.url("/flaky/other");
    let output = get(&site, here.path(), &[&url]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stderr(&output).contains("begins anew"), "{}", stderr(&output));
    assert!(std::fs::read(here.path().join("other")).unwrap() == other);
    site.ranges();
    // Bytes written to a pipe cannot be taken back.
    let output = get(&site, here.path(), &[&url, "-o", "-"]);
    assert_eq!(output.status.code(), Some(6), "{}", stderr(&output));
    assert!(stderr(&output).contains("the file on the server is another one now"), "{}", stderr(&output));
    assert!(pattern(LARGE).starts_with(&output.stdout));
    // A server that sends another file with the same validator is detected.
    std::fs::remove_file(here.path().join("other")).unwrap();
    site.ranges();
    let output = get(&site, here.path(), &[&site.url("/flaky/liar")]);
    assert_eq!(output.status.code(), Some(11), "{}", stderr(&output));
    assert!(stderr(&output).contains("does not fit what is there"), "{}", stderr(&output));
    assert_eq!(names(here.path()), [""; 0]);
}

#[test]
fn tries_are_bounded_and_can_be_forbidden() {
    let (site, here) = (Site::start(), tempfile::tempdir().unwrap());
    let url = site.url("/flaky/reset");
    let output = get(&site, here.path(), &[&url, "--retry", "0"]);
    assert_eq!(output.status.code(), Some(6));
    assert_eq!(stderr(&output), format!("anabranch: {url}: reset by the peer: H3_EXCESSIVE_LOAD\n"));
    assert_eq!(site.ranges().len(), 1);
    // Without a validator each retry begins anew, and makes no progress.
    let url = site.url("/cut");
    let output = get(&site, here.path(), &[&url, "--retry", "1"]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(6), "{said}");
    let last = format!("anabranch: {url}: reset by the peer: H3_INTERNAL_ERROR (tried again once)");
    assert_eq!(said.lines().last(), Some(last.as_str()), "{said}");
    assert_eq!(names(here.path()), [""; 0]);
    // Unsafe methods are not retried, nor is a server that has never responded.
    for args in [&[url.as_str(), "-d", "x", "-o", "-"][..], &[&site.url("/silent"), "--timeout", "1"]] {
        let said = stderr(&get(&site, here.path(), args));
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

/// `serve` in a separate process.
struct Served {
    child: Child,
    /// Kept open, because the server exits if it cannot write to its standard output.
    _stdout: BufReader<ChildStdout>,
    port: u16,
}

impl Served {
    fn start(site: &Site, root: &Path, port: u16, options: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
        command.arg("serve").arg("--root").arg(root).arg("--listen").arg(format!("127.0.0.1:{port}"));
        command.arg("--cert").arg(site.ca()).arg("--key").arg(site.dir.path().join("key.pem"));
        command.args(["--no-tcp", "--log", "none"]).args(options).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        let port = line.trim().rsplit_once(':').unwrap_or_else(|| panic!("not listening: {line}")).1;
        Self { child, _stdout: stdout, port: port.parse().unwrap() }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a download to standard output, which the test reads at its own speed. The window is so small that
/// the server has to wait for the test.
fn download(site: &Site, here: &Path, url: &str) -> Child {
    let args = [url, "-o", "-", "--window", "100000", "--idle-ms", "2000"];
    command(site, here, &args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Reads the rest of a download, which must be the end of `content`. Returns standard error.
fn finish(mut child: Child, content: &[u8], begun: usize) -> String {
    let mut stdout = child.stdout.take().unwrap();
    let reading = std::thread::spawn(move || {
        let mut rest = Vec::new();
        stdout.read_to_end(&mut rest).unwrap();
        rest
    });
    let start = std::time::Instant::now();
    while !reading.is_finished() {
        if start.elapsed() > PATIENCE {
            let _ = child.kill();
            panic!("it takes too long");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let rest = reading.join().unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(rest == content[begun..], "{} bytes and not {}", rest.len(), content.len() - begun);
    stderr(&output)
}

/// The server is killed during a download and restarted on the same port. With stored ticket keys, the client
/// resumes the TLS session.
#[test]
fn a_server_may_be_started_again() {
    for kept in [false, true] {
        let (site, here) = (Site::start(), tempfile::tempdir().unwrap());
        let (root, content) = (tempfile::tempdir().unwrap(), pattern(30_000_000));
        std::fs::write(root.path().join("file"), &content).unwrap();
        let key = site.dir.path().join("tickets").to_str().unwrap().to_owned();
        let serve = move |site: &Site, root: &Path, port, key: &str| {
            Served::start(site, root, port, &["--ticket-key", key][..if kept { 2 } else { 0 }])
        };
        let served = serve(&site, root.path(), 0, &key);
        let port = served.port;
        let mut child = download(&site, here.path(), &format!("https://localhost:{port}/file"));
        let mut first = vec![0; 1_000_000];
        child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
        assert!(first == content[..first.len()]);
        drop(served);
        let again = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_secs(3));
            (serve(&site, root.path(), port, &key), site, root)
        });
        let said = finish(child, &content, first.len());
        assert!(said.contains("trying again in") && said.contains("goes on, "), "{said}");
        assert_eq!(said.contains(", resumed, continued once"), kept, "{said}");
        drop(again.join().unwrap());
    }
}

/// A restarted server with stored keys resets earlier connections, so that clients do not wait for their idle
/// timeout.
#[test]
fn a_server_with_kept_keys_resets_connections_of_before() {
    let (site, here) = (Site::start(), tempfile::tempdir().unwrap());
    let (root, content) = (tempfile::tempdir().unwrap(), pattern(30_000_000));
    std::fs::write(root.path().join("file"), &content).unwrap();
    let key = site.dir.path().join("tickets");
    let options = ["--ticket-key", key.to_str().unwrap()];
    let served = Served::start(&site, root.path(), 0, &options);
    let port = served.port;
    let args =
        [&format!("https://localhost:{port}/file"), "-o", "-", "--window", "100000", "--idle-ms", "600000"];
    let mut child =
        command(&site, here.path(), &args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = vec![0; 1_000_000];
    child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    drop(served);
    let _again = Served::start(&site, root.path(), port, &options);
    let said = finish(child, &content, first.len());
    assert!(said.contains("no longer knows the connection") && said.contains("goes on, "), "{said}");
}

/// The client sleeps longer than the idle timeout, as with a closed lid.
#[test]
fn a_client_may_sleep() {
    let (site, here) = (Site::start(), tempfile::tempdir().unwrap());
    let (root, content) = (tempfile::tempdir().unwrap(), pattern(30_000_000));
    std::fs::write(root.path().join("file"), &content).unwrap();
    let served = Served::start(&site, root.path(), 0, &[]);
    let mut child = download(&site, here.path(), &format!("https://localhost:{}/file", served.port));
    let mut first = vec![0; 1_000_000];
    child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    let signal = |name: &str| {
        let sent = Command::new("kill").args([name, &child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    };
    signal("-STOP");
    std::thread::sleep(Duration::from_secs(5));
    signal("-CONT");
    let said = finish(child, &content, first.len());
    assert!(said.contains("trying again in") && said.contains("goes on, "), "{said}");
}

/// Interruptions of a download are reported as they happen.
#[test]
fn interruptions_have_events() {
    let (site, here) = (Site::start(), tempfile::tempdir().unwrap());
    let told = |page: &str| -> Vec<Value> {
        site.ranges();
        let url = site.url(page);
        let output = get(&site, here.path(), &[&url, "-o", "file", "--events", "-", "-q"]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let lines = String::from_utf8(output.stdout).unwrap();
        let events = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let of_files = ["answer", "retry", "resumed", "restarted", "file_done"];
        let events: Vec<_> =
            events.filter(|event| of_files.iter().any(|name| event["event"] == *name)).collect();
        assert!(events.iter().all(|event| event["url"] == url), "{events:?}");
        events
    };
    let names = |events: &[Value]| -> Vec<String> {
        events.iter().map(|event| event["event"].as_str().unwrap().to_owned()).collect()
    };
    let events = told("/flaky/close");
    assert_eq!(names(&events), ["answer", "retry", "resumed", "answer", "file_done"], "{events:?}");
    let retry = &events[1];
    assert_eq!((&retry["of"], &retry["number"], &retry["allowed"]), (&LARGE.into(), &1.into(), &8.into()));
    assert!(retry["reason"].is_string() && retry["bytes"].as_u64() > Some(0), "{retry}");
    // Randomness shortens the pause by up to a half.
    assert!(matches!(retry["pause_s"].as_f64(), Some(0.25..=0.5)), "{retry}");
    assert_eq!(events[2]["bytes"], retry["bytes"]);
    assert_ne!(events[2]["connection"], events[0]["connection"], "another one");
    assert_eq!((&events[4]["bytes"], &events[4]["continued"]), (&LARGE.into(), &1.into()));
    let events = told("/flaky/other");
    assert_eq!(names(&events), ["answer", "retry", "restarted", "answer", "file_done"], "{events:?}");
}
