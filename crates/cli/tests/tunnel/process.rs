//! Support: processes of a test, which are the proxy, its clients and links.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use anabranch_testkit::certificates::Files;
use tempfile::TempDir;

/// Maximum time of each wait.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Name and secret of the proxy's only user.
const USER: &str = "alice";
const SECRET: &str = "tea-at-five";

/// A directory with the proxy's certificate and users.
pub struct Field(TempDir);

impl Field {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Files::new(dir.path(), &["localhost", "127.0.0.1"]);
        let write = |name: &str, content: String| std::fs::write(dir.path().join(name), content).unwrap();
        write("token", format!("{USER}.{SECRET}\n"));
        write("wrong", format!("{USER}.coffee\n"));
        write("login", format!("{USER}:{SECRET}\n"));
        write("users.toml", format!("[[user]]\nname = \"{USER}\"\nsecret = \"{}\"\n", hash()));
        Self(dir)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Returns a command of the program that runs in the directory.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
        command.current_dir(self.0.path()).args(args).stdin(Stdio::null());
        // Directory of the sockets on which processes publish their state.
        command.env("RUNTIME_DIRECTORY", self.path("run"));
        command
    }

    /// Starts a command whose standard error goes to the file `name`.
    pub fn start(&self, name: &str, args: &[&str]) -> Process {
        let mut command = self.command(args);
        command.stdout(Stdio::piped()).stderr(File::create(self.path(name)).unwrap());
        let mut child = command.spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Process { child, stdout, log: self.path(name) }
    }

    /// Runs a command that must end by itself.
    pub fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Starts the proxy. Targets on this host are allowed.
    pub fn proxy(&self, listen: &str, more: &[&str]) -> (Process, SocketAddr) {
        let args = ["proxy", "serve", "--listen", listen, "--cert", "cert.pem", "--key", "key.pem"];
        let rules = ["--users", "users.toml", "--allow", "127.0.0.0/8"];
        let mut process = self.start("proxy.log", &[&args[..], &rules, more].concat());
        let address = process.said("listening ").parse().unwrap();
        (process, address)
    }

    /// Returns the arguments of a client of the proxy at `address`.
    pub fn client<'a>(&self, command: &[&'a str], url: &'a str, more: &[&'a str]) -> Vec<&'a str> {
        let common = ["--token-file", "token", "--ca", "cert.pem", "--path", "lo"];
        [command, &[url], &common[..], more].concat()
    }

    /// Starts `proxy connect` with a SOCKS5 and an HTTP port.
    pub fn connect(&self, proxy: SocketAddr, more: &[&str]) -> Client {
        let url = format!("https://localhost:{}", proxy.port());
        let ports = ["--socks", "127.0.0.1:0", "--http", "127.0.0.1:0"];
        let args = self.client(&["proxy", "connect"], &url, &[&ports[..], more].concat());
        let mut process = self.start("client.log", &args);
        let socks = process.said("listening socks ").parse().unwrap();
        let http = process.said("listening http ").parse().unwrap();
        Client { process, socks, http }
    }
}

/// Returns the hash of the user's secret, which is computed once per process.
fn hash() -> &'static str {
    static HASH: OnceLock<String> = OnceLock::new();
    HASH.get_or_init(|| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
        let hashing = command.args(["proxy", "hash"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut hashing = hashing.unwrap();
        hashing.stdin.take().unwrap().write_all(SECRET.as_bytes()).unwrap();
        String::from_utf8(hashing.wait_with_output().unwrap().stdout).unwrap().trim().to_owned()
    })
}

/// A running `proxy connect`.
pub struct Client {
    pub process: Process,
    pub socks: SocketAddr,
    pub http: SocketAddr,
}

/// A process that is killed when dropped.
pub struct Process {
    child: Child,
    /// Standard output, which stays open because a program that cannot print ends.
    stdout: BufReader<ChildStdout>,
    log: PathBuf,
}

impl Process {
    /// Returns the next line on standard output that begins with `prefix`, without the prefix.
    pub fn said(&mut self, prefix: &str) -> String {
        loop {
            let mut line = String::new();
            self.stdout.read_line(&mut line).unwrap();
            if let Some(rest) = line.trim_end().strip_prefix(prefix) {
                return rest.to_owned();
            }
            assert_ne!(line, "", "'{prefix}' was not said: {}", self.log());
        }
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Sends SIGTERM, and waits until the process has ended.
    pub fn terminate(&mut self) -> ExitStatus {
        self.signal("-TERM");
        eventually("the end of a process", || self.child.try_wait().unwrap())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Calls `look` until it returns a value.
pub fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(begin.elapsed() < PATIENCE, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}
