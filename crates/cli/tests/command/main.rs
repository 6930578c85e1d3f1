//! The command, as scripts see it: its exit statuses, its files, its output.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests are tests")]

mod awkward;
mod demo;
mod everyday;
mod randomness;
mod seen;
mod traces;

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use anabranch_testkit::certificates::Files;
use anabranch_testkit::pattern;
use tempfile::TempDir;

/// Runs the command in `dir`.
fn anabranch(dir: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_anabranch")).args(args).current_dir(dir).output().unwrap()
}

/// Runs `get` over hq-interop.
fn get(dir: &Path, args: &[&str]) -> Output {
    anabranch(dir, &[&["get", "--hq"], args].concat())
}

fn status(output: &Output) -> i32 {
    output.status.code().expect("ended by a signal")
}

fn json(output: &Output) -> Vec<serde_json::Value> {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A server in a separate process, with a directory of files and a certificate.
struct Server {
    child: Child,
    /// Kept open, because the server exits if it cannot write to its standard output.
    _stdout: BufReader<ChildStdout>,
    address: SocketAddr,
    dir: TempDir,
}

impl Server {
    fn start(command: &[&str], more: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        std::fs::create_dir_all(root.join("sub")).unwrap();
        std::fs::write(root.join("small"), "small file").unwrap();
        std::fs::write(root.join("sub/empty"), "").unwrap();
        std::fs::write(root.join("large"), pattern(3_000_000)).unwrap();
        std::fs::write(dir.path().join("secret"), "not served").unwrap();
        let identity = anabranch_identity(dir.path());
        let mut child = Command::new(env!("CARGO_BIN_EXE_anabranch"))
            .args(command)
            .args(["--listen", "127.0.0.1:0", "--root", root.to_str().unwrap()])
            .args(["--cert", &identity.0, "--key", &identity.1])
            .args(more)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening ").expect("not listening").parse().unwrap();
        Self { child, _stdout: stdout, address, dir }
    }

    fn serve() -> Self {
        Self::start(&["serve"], &[])
    }

    fn url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.address.port())
    }

    fn ca(&self) -> String {
        self.dir.path().join("cert.pem").to_str().unwrap().to_owned()
    }

    /// Runs a client of `perf` with this server's address and certificate.
    fn perf_client(&self, args: &[&str]) -> Output {
        let (address, ca) = (self.address.to_string(), self.ca());
        let mut all = vec!["perf", "client", "--json", "--connect", &address, "--ca", &ca];
        all.extend(args);
        anabranch(self.dir.path(), &all)
    }

    /// Sends the server SIGTERM and waits for its end.
    fn terminate(mut self) -> i32 {
        let kill = Command::new("kill").arg(self.child.id().to_string()).status().unwrap();
        assert!(kill.success());
        self.child.wait().unwrap().code().expect("ended by a signal")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Writes a certificate and its key. Returns their paths.
fn anabranch_identity(dir: &Path) -> (String, String) {
    let files = Files::new(dir, &["localhost", "127.0.0.1"]);
    (files.cert.to_str().unwrap().to_owned(), files.key.to_str().unwrap().to_owned())
}

/// Returns the names of all files in a directory.
fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn get_fetches_files() {
    let server = Server::serve();
    let here = tempfile::tempdir().unwrap();
    let (small, large, ca) = (server.url("/small"), server.url("/large"), server.ca());
    let output = get(here.path(), &[&small, &large, "--ca", &ca, "--json", "-", "-o", "."]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    assert_eq!(std::fs::read(here.path().join("small")).unwrap(), b"small file");
    assert!(std::fs::read(here.path().join("large")).unwrap() == pattern(3_000_000));
    assert_eq!(names(here.path()), ["large", "small"], "nothing else is left");
    let facts = &json(&output)[0];
    assert_eq!((&facts[0]["bytes"], &facts[1]["bytes"]), (&10.into(), &3_000_000.into()));

    let output = get(here.path(), &[&server.url("/sub/empty"), "--ca", &ca, "-o", "renamed"]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    assert_eq!(std::fs::read(here.path().join("renamed")).unwrap(), b"");
    let output = get(here.path(), &[&small, "--insecure", "-o", "-"]);
    assert_eq!(output.stdout, b"small file");
    assert_eq!(server.terminate(), 0);
}

#[test]
fn get_again_resumes_with_early_data() {
    let server = Server::serve();
    let here = tempfile::tempdir().unwrap();
    let args = [&server.url("/large"), "--ca", &server.ca(), "--repeat", "3", "--json", "-", "-o", "large"];
    let output = get(here.path(), &args);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let facts = json(&output).remove(0);
    let early = facts.as_array().unwrap().iter().map(|one| one["zero_rtt_accepted"] == true);
    assert_eq!(early.collect::<Vec<_>>(), [false, true, true]);
    assert!(std::fs::read(here.path().join("large")).unwrap() == pattern(3_000_000));
}

#[test]
fn failures_leave_nothing_and_have_their_status() {
    let server = Server::serve();
    let here = tempfile::tempdir().unwrap();
    let (small, missing, ca) = (server.url("/small"), server.url("/missing"), server.ca());
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let nobody = format!("https://127.0.0.1:{}/x", silent.local_addr().unwrap().port());
    let other_name = format!("https://127.0.0.2:{}/small", server.address.port());
    let escape = server.url("/../secret");
    let cases: [(&[&str], i32); 10] = [
        (&[&missing, "--ca", &ca], 6),
        (&[&escape, "--ca", &ca], 6),
        (&[&small], 5),
        (&[&nobody, "--insecure", "--timeout", "0.5"], 7),
        (&[&nobody, "--insecure", "--idle-ms", "300"], 7),
        (&["https://no-such-host.invalid/x", "--insecure"], 3),
        (&["http://localhost/x"], 2),
        (&[&small, "--ca", "missing.pem"], 2),
        (&[&small, "--ca", &ca, "-o", "no/such/directory"], 8),
        // No process listens at this address, and the system reports that.
        (&[&other_name, "--ca", &ca, "--timeout", "60"], 8),
    ];
    for (args, expected) in cases {
        let output = get(here.path(), args);
        let line = stderr(&output);
        assert_eq!(status(&output), expected, "{args:?}: {line}");
        assert!(line.starts_with("anabranch: ") && line.trim_end().lines().count() == 1, "{args:?}: {line}");
        assert_eq!(names(here.path()), [""; 0], "{args:?}");
    }
}

#[test]
fn usage_and_help() {
    let here = tempfile::tempdir().unwrap();
    for args in [&["nonsense"][..], &["get"], &["get", "https://localhost/x", "--congestion", "vegas"]] {
        assert_eq!(status(&anabranch(here.path(), args)), 2, "{args:?}");
    }
    let help = anabranch(here.path(), &["--help"]);
    assert_eq!(status(&help), 0);
    assert!(String::from_utf8(help.stdout).unwrap().contains("Exit status"));
}

/// A client opens two paths from one interface, on separate ports. A server may refuse them.
#[test]
fn get_uses_several_paths() {
    for (refused, paths) in [(&[][..], 2), (&["--no-multipath"], 1)] {
        let server = Server::start(&["serve"], refused);
        std::fs::write(server.dir.path().join("root/huge"), vec![7; 60_000_000]).unwrap();
        let here = tempfile::tempdir().unwrap();
        let (url, ca) = (format!("https://127.0.0.1:{}/huge", server.address.port()), server.ca());
        let args = ["get", &url, "--ca", &ca, "--path", "127.0.0.1,count=2", "--json", "-"];
        let output = anabranch(here.path(), &args);
        assert_eq!(status(&output), 0, "{}", stderr(&output));
        let facts = &json(&output)[0];
        assert_eq!(facts["paths"].as_array().unwrap().len(), paths, "{facts}");
        let known = |path: &serde_json::Value| path["state"].is_string() && path.get("idle").is_some();
        assert!(facts["paths"].as_array().unwrap().iter().all(known), "{facts}");
    }
    let here = tempfile::tempdir().unwrap();
    let bad = [["--path", "eth0,spare"], ["--max-paths", "65"], ["--numbering", "x"], ["--scheduler", "x"]];
    for args in bad {
        let output = anabranch(here.path(), &[&["get", "https://localhost/"], &args[..]].concat());
        assert_eq!(status(&output), 2, "{args:?}: {}", stderr(&output));
    }
}

#[test]
fn a_busy_port_has_its_status() {
    let server = Server::serve();
    let args = ["serve", "--listen", &server.address.to_string(), "--root", "."];
    let output = anabranch(server.dir.path(), &args);
    assert_eq!(status(&output), 9, "{}", stderr(&output));
}

#[test]
fn a_server_without_the_protocol_is_a_failed_handshake() {
    let server = Server::serve();
    let output = server.perf_client(&["--download", "1"]);
    assert_eq!(status(&output), 4, "{}", stderr(&output));
}

#[test]
fn perf_moves_bytes_both_ways() {
    let server = Server::start(&["perf", "server"], &[]);
    let output = server.perf_client(&["--download", "3000001", "--upload", "2000000", "--streams", "7"]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let report = &json(&output)[0];
    assert_eq!(report["bytes"], 5_000_001);
    assert!(report["goodput_mbps"].as_f64().unwrap() > 0.0 && report["cpu_seconds"].as_f64().unwrap() > 0.0);
    for congestion in ["newreno", "cubic", "bbr"] {
        let output = server.perf_client(&["--upload", "2000000", "--congestion", congestion]);
        assert_eq!(status(&output), 0, "{congestion}: {}", stderr(&output));
    }
    let output = server.perf_client(&["--handshakes", "20", "--concurrency", "4"]);
    assert_eq!(json(&output)[0]["handshakes"], 20);
}

/// Runs a case and returns its JSON results.
fn case(server: &Server, args: &[&str]) -> serde_json::Value {
    let output = server.perf_client(args);
    assert_eq!(status(&output), 0, "{args:?}: {}", stderr(&output));
    json(&output).remove(0)
}

#[test]
fn cases_over_perf() {
    let server = Server::start(&["perf", "server"], &["--v2"]);
    assert_eq!(case(&server, &["--case", "handshake"])["bytes"], 0);
    let work = ["--download", "4000000", "--upload", "1000000"];
    let with = |name: &str| case(&server, &[&["--case", name], &work[..]].concat());
    assert!(with("keyupdate")["key_updates"].as_u64().unwrap() >= 1);
    assert_eq!(with("chacha20")["bytes"], 5_000_000);
    assert_eq!(with("v2")["version"], "0x6b3343cf");
    assert_eq!(with("rebind")["rebindings"], 1);
    assert_eq!(with("migration")["migrations"], 1);
    assert_eq!(with("resumption")["resumed"], true);
    assert_eq!(with("zerortt")["zero_rtt_accepted"], true);
    let echoed = case(&server, &["--case", "datagram", "--datagrams", "20"]);
    assert_eq!(echoed["sent"], 20);
    assert!(echoed["echoed"].as_u64().unwrap() > 0);
    assert_eq!(with("ecn")["ecn_capable"], true);
    // The server supports version 2, so no version negotiation takes place.
    assert_eq!(status(&server.perf_client(&["--case", "versionnegotiation"])), 6);
}

#[test]
fn vreverso_is_for_whoever_asks_for_it() {
    let work = ["--download", "3000000", "--upload", "1000000"];
    let server = Server::start(&["perf", "server"], &[]);
    let with = |args: &[&str]| case(&server, &[args, &work[..]].concat());
    assert_eq!(with(&[])["version"], "0x00000001");
    assert_eq!(with(&["--wire", "reverso"])["version"], "0x00791097");
    assert_eq!(with(&["--wire", "reverso", "--case", "upgrade"])["version"], "0x00791097");
    assert_eq!(with(&["--wire", "reverso", "--case", "keyupdate"])["version"], "0x00791097");
    assert_eq!(with(&["--wire", "reverso", "--case", "zerortt"])["zero_rtt_accepted"], true);
    assert_eq!(with(&["--wire", "reverso", "--case", "migration"])["migrations"], 1);
    // A client never falls back to another version silently.
    let server = Server::start(&["perf", "server"], &["--wire", "v1"]);
    assert_ne!(status(&server.perf_client(&["--wire", "reverso"])), 0);
    assert_eq!(status(&server.perf_client(&["--wire", "reverso", "--case", "upgrade"])), 6);

    let here = tempfile::tempdir().unwrap();
    let args = ["demo", "--size", "3", "--wire", "reverso", "--json", "-"];
    let output = anabranch(here.path(), &args);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
}

#[test]
fn versions_are_negotiated() {
    let server = Server::start(&["perf", "server"], &[]);
    assert_eq!(case(&server, &["--case", "versionnegotiation"])["version_negotiation"], true);
    assert_eq!(status(&server.perf_client(&["--case", "v2"])), 6);
}

#[test]
fn cases_over_hq() {
    let server = Server::start(&["perf", "server"], &["--retry"]);
    let out = server.dir.path().join("out");
    std::fs::create_dir(&out).unwrap();
    let out_arg = out.to_str().unwrap().to_owned();
    case(&server, &["--alpn", "hq-interop", "--out", &out_arg, "/small", "/large"]);
    assert_eq!(names(&out), ["large", "small"]);
    assert!(std::fs::read(out.join("large")).unwrap() == pattern(3_000_000));
    std::fs::remove_file(out.join("small")).unwrap();
    let report = case(&server, &["--case", "zerortt", "--out", &out_arg, "/large", "/small"]);
    assert_eq!(report["zero_rtt_accepted"], true);
    assert_eq!(std::fs::read(out.join("small")).unwrap(), b"small file");
    std::os::unix::fs::symlink("../secret", server.dir.path().join("root/link")).unwrap();
    for bad in ["/missing", "/link", "/sub/../../secret", "/", "/sub"] {
        let output = server.perf_client(&["--alpn", "hq-interop", bad]);
        assert_eq!(status(&output), 6, "{bad}: {}", stderr(&output));
        assert!(stderr(&output).contains("it reset the stream: 4") || bad == "/sub", "{}", stderr(&output));
    }
    assert_eq!(status(&server.perf_client(&["--alpn", "perf", "/small"])), 2);
}

/// A `perf` server ends when standard input ends, and on SIGTERM, so that it never outlives its runner.
#[test]
fn perf_servers_end_with_their_runner() {
    let mut server = Server::start(&["perf", "server"], &[]);
    drop(server.child.stdin.take());
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
    assert_eq!(Server::start(&["perf", "server"], &["--one-core", "0"]).terminate(), 0);
}

/// A server that was killed and restarted with the same key resets its earlier connections at once.
#[test]
fn a_restarted_server_resets_connections() {
    let key = "0f".repeat(32);
    let mut server = Server::start(&["perf", "server"], &["--reset-key", &key]);
    let (address, ca) = (server.address.to_string(), server.ca());
    let here = tempfile::tempdir().unwrap();
    let secrets = here.path().join("secrets");
    let client = Command::new(env!("CARGO_BIN_EXE_anabranch"))
        .args(["perf", "client", "--connect", &address, "--ca", &ca, "--upload", "100000000000"])
        .env("SSLKEYLOGFILE", &secrets)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The client stores the reset token when it has 1-RTT keys. The server's handshake may be incomplete
    // then.
    for _ in 0..30_000 {
        let logged = std::fs::read_to_string(&secrets).unwrap_or_default();
        if logged.contains("CLIENT_TRAFFIC_SECRET_0") {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    let mut again = Command::new(env!("CARGO_BIN_EXE_anabranch"))
        .args(["perf", "server", "--listen", &address, "--reset-key", &key])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let output = client.wait_with_output().unwrap();
    assert_eq!(status(&output), 6, "{}", stderr(&output));
    assert!(stderr(&output).contains("reset by the peer"), "{}", stderr(&output));
    drop(again.stdin.take());
    assert_eq!(again.wait().unwrap().code(), Some(0));
}
