//! The proxy, its client, a target, and downloads of programs from the target.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anabranch_testkit::byte_at;
use anabranch_testkit::certificates::Files;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::network::{NAME, SERVER, SERVER_V6, listen_at_server, program_at_server};

/// Port of the proxy.
const PORT: u16 = 4433;
/// Maximum time of each wait.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The proxy, a client, a target, and their files.
pub(crate) struct Ends {
    folder: TempDir,
    proxy: Option<Process>,
    pub(crate) client: Option<Process>,
    pub(crate) socks: SocketAddr,
    pub(crate) http: SocketAddr,
    target: SocketAddr,
    /// Host in the proxy's URL.
    host: String,
    /// `true` if the proxy accepts TCP as well.
    pub(crate) over_tcp: bool,
    /// Further options of the proxy.
    more: Vec<&'static str>,
    /// Variables of both ends.
    variables: Vec<(&'static str, PathBuf)>,
}

impl Ends {
    /// Starts the target, the proxy and the client, which gets the options in `more`.
    pub(crate) fn start(more: &[&str], ipv6: bool) -> Self {
        let mut ends = Self::prepare(if ipv6 { SERVER_V6 } else { SERVER }, &[]);
        ends.start_proxy();
        ends.start_client(more);
        ends
    }

    /// Starts the target. `host` is the proxy's in the client's URL, and `more` are further options of the proxy.
    pub(crate) fn prepare(host: &str, more: &[&'static str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Files::new(folder.path(), &["localhost", NAME, SERVER, SERVER_V6]);
        let write = |name: &str, content: String| std::fs::write(folder.path().join(name), content).unwrap();
        write("token", "alice.tea\n".to_owned());
        write("users.toml", format!("[[user]]\nname = \"alice\"\nsecret = \"{}\"\n", hash("tea")));
        let listener = listen_at_server();
        let target = listener.local_addr().unwrap();
        thread::spawn(move || serve(&listener));
        let any: SocketAddr = ([127, 0, 0, 1], 0).into();
        let (host, more) = (host.to_owned(), more.to_vec());
        let variables = Vec::new();
        let (proxy, client, over_tcp) = (None, None, false);
        Self { folder, proxy, client, socks: any, http: any, target, host, over_tcp, more, variables }
    }

    /// Has both ends see another time of day by a library: the system's plus the seconds in a file. Time that only goes
    /// forward stays as it is.
    pub(crate) fn see_clock(&mut self, library: &Path, file: &Path) {
        self.variables = vec![
            ("LD_PRELOAD", library.to_owned()),
            ("FAKETIME_TIMESTAMP_FILE", file.to_owned()),
            ("FAKETIME_NO_CACHE", "1".into()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".into()),
        ];
    }

    pub(crate) fn start_proxy(&mut self) {
        let mut command = program_at_server(env!("CARGO_BIN_EXE_anabranch"));
        command.args(["proxy", "serve", "--listen", &format!("[::]:{PORT}"), "--users", "users.toml"]);
        command.args(["--cert", "cert.pem", "--key", "key.pem", "--allow", "127.0.0.0/8"]);
        command.args(["--max-paths", "8", "--no-status"]).args(&self.more);
        if !self.over_tcp {
            command.arg("--no-tcp");
        }
        command.envs(self.variables.iter().cloned());
        let mut proxy = Process::start(command, self.file("proxy.log"));
        proxy.said("listening ");
        self.proxy = Some(proxy);
    }

    pub(crate) fn start_client(&mut self, more: &[&str]) {
        let (socks, http) = (self.socks.to_string(), self.http.to_string());
        let mut command = self.by_way(&["proxy", "connect"]);
        command.args(["--socks", &socks, "--http", &http]).args(more);
        let mut client = Process::start(command, self.file("client.log"));
        self.socks = client.said("listening socks ").parse().unwrap();
        self.http = client.said("listening http ").parse().unwrap();
        self.client = Some(client);
    }

    /// Returns a command of the program that reaches the proxy.
    pub(crate) fn by_way(&self, words: &[&str]) -> Command {
        let url = match self.host.parse::<IpAddr>() {
            Ok(address) => format!("https://{}", SocketAddr::new(address, PORT)),
            Err(_) => format!("https://{}:{PORT}", self.host),
        };
        let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
        command.args(words).args([url.as_str(), "--token-file", "token", "--ca", "cert.pem"]);
        // Nothing is left in the directories of this host.
        command.env("RUNTIME_DIRECTORY", self.file("run")).envs(self.variables.iter().cloned());
        command
    }

    /// Starts a program in the folder of the files, until the value that is returned is dropped.
    pub(crate) fn run(&self, command: Command, log: &str) -> Process {
        Process::start(command, self.file(log))
    }

    pub(crate) fn kill_proxy(&mut self) {
        self.proxy = None;
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the standard error of a process, which is in the file `name`.
    pub(crate) fn log(&self, name: &str) -> String {
        std::fs::read_to_string(self.file(name)).unwrap()
    }

    /// Begins a download through the tunnel.
    pub(crate) fn download(&self) -> std::io::Result<Flow> {
        let mut stream = TcpStream::connect(self.socks)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut request = vec![5, 1, 0, 5, 1, 0, 1, 127, 0, 0, 1];
        request.extend(self.target.port().to_be_bytes());
        stream.write_all(&request)?;
        let mut reply = [0; 12];
        stream.read_exact(&mut reply)?;
        match reply[3] {
            0 => Ok(Flow::read(stream)),
            code => Err(std::io::Error::other(format!("SOCKS replied {code}"))),
        }
    }

    /// Returns the time until a new tunnel carries bytes.
    pub(crate) fn works_again(&self) -> Duration {
        let begin = Instant::now();
        let flow = eventually("a new tunnel", || self.download().ok());
        flow.advances(100_000);
        begin.elapsed()
    }
}

/// Sends an endless pattern.
pub(crate) fn write(mut stream: TcpStream) {
    let mut at = 0;
    loop {
        let piece: Vec<u8> = (at..at + 16_384).map(byte_at).collect();
        if stream.write_all(&piece).is_err() {
            return;
        }
        at += piece.len();
    }
}

/// Serves each connection.
fn serve(listener: &TcpListener) {
    while let Ok((stream, _)) = listener.accept() {
        thread::spawn(move || write(stream));
    }
}

/// A download that goes on until it is dropped or its connection fails.
pub(crate) struct Flow {
    received: Arc<AtomicU64>,
    longest: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
    reading: Option<JoinHandle<Option<std::io::Error>>>,
}

impl Flow {
    /// Reads the pattern from a connection.
    pub(crate) fn read(mut stream: TcpStream) -> Self {
        let (received, longest, over) = (Arc::<AtomicU64>::default(), Arc::default(), Arc::default());
        let of = (Arc::clone(&received), Arc::<AtomicU64>::clone(&longest), Arc::<AtomicBool>::clone(&over));
        let reading = thread::spawn(move || {
            let (received, longest, over) = of;
            let (mut buffer, mut at, mut last) = (vec![0; 65_536], 0_usize, Instant::now());
            while !over.load(Ordering::Relaxed) {
                let len = match stream.read(&mut buffer) {
                    Ok(0) => return Some(std::io::ErrorKind::UnexpectedEof.into()),
                    Ok(len) => len,
                    Err(error) => return Some(error),
                };
                assert!(buffer[..len].iter().zip(at..).all(|(byte, at)| *byte == byte_at(at)), "wrong bytes");
                at += len;
                let gap = u64::try_from(last.elapsed().as_millis()).unwrap();
                longest.fetch_max(gap, Ordering::Relaxed);
                last = Instant::now();
                received.store(at as u64, Ordering::Relaxed);
            }
            None
        });
        Self { received, longest, over, reading: Some(reading) }
    }

    /// Waits until further bytes have arrived.
    pub(crate) fn advances(&self, bytes: u64) {
        let until = self.received.load(Ordering::Relaxed) + bytes;
        eventually("progress", || (self.received.load(Ordering::Relaxed) >= until).then_some(()));
    }

    /// Returns the longest time without a byte since the last call.
    pub(crate) fn longest_gap(&self) -> Duration {
        Duration::from_millis(self.longest.swap(0, Ordering::Relaxed))
    }

    /// Waits until the connection fails, and returns the error.
    pub(crate) fn breaks(mut self) -> std::io::Error {
        self.reading.take().unwrap().join().unwrap().expect("nobody else ends it")
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(reading) = self.reading.take()
            && !thread::panicking()
        {
            let broken = reading.join().expect("the right bytes");
            assert!(broken.is_none(), "{broken:?}");
        }
    }
}

/// A process that is killed when dropped.
pub(crate) struct Process {
    child: Child,
    /// Standard output, which stays open because a program that cannot print ends.
    stdout: BufReader<ChildStdout>,
    log: PathBuf,
}

impl Process {
    fn start(mut command: Command, log: PathBuf) -> Self {
        command.current_dir(log.parent().unwrap()).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.stderr(File::create(&log).unwrap()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { child, stdout, log }
    }

    /// Returns the rest of the next line that begins with `prefix`.
    pub(crate) fn said(&mut self, prefix: &str) -> String {
        loop {
            let mut line = String::new();
            self.stdout.read_line(&mut line).unwrap();
            if let Some(rest) = line.trim_end().strip_prefix(prefix) {
                return rest.to_owned();
            }
            assert_ne!(line, "", "'{prefix}' was not said: {}", std::fs::read_to_string(&self.log).unwrap());
        }
    }
}

impl Process {
    /// Asks the process to end, and waits until it has.
    pub(crate) fn ends(&mut self) {
        let id = i32::try_from(self.child.id()).unwrap();
        kill(Pid::from_raw(id), Signal::SIGTERM).unwrap();
        let mut ended = || self.child.try_wait().unwrap();
        assert!(eventually("the end of a process", &mut ended).success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // SIGKILL
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn hash(secret: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
    let mut child =
        command.args(["proxy", "hash"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(secret.as_bytes()).unwrap();
    String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap().trim().to_owned()
}

/// Calls `look` until it returns a value.
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(begin.elapsed() < PATIENCE, "{what} did not happen");
        thread::sleep(Duration::from_millis(20));
    }
}
