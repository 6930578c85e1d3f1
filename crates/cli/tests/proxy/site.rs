//! Support: a proxy in a process of its own, and its clients.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anabranch::http3::{Config, Connection, RecvHalf, SendHalf};
use anabranch::rustls::pki_types::ServerName;
use anabranch::rustls::{ClientConfig, version};
use anabranch::{Endpoint, TransportConfig, config};
use anabranch_testkit::certificates::Files;
use http::Request;
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Maximum time of each wait.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// Token of the user `alice`.
pub const TOKEN: &str = "Bearer alice.tea";

pub fn anabranch(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
    command.args(args);
    command
}

/// Hashes a secret with `anabranch proxy hash`.
pub fn hash(secret: &str) -> Output {
    let mut command = anabranch(&["proxy", "hash"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(secret.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

/// A directory with a certificate and the file `users.toml`, whose user `alice` has the secret `tea`.
pub struct Field(TempDir);

impl Field {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Files::new(dir.path(), &["localhost", "127.0.0.1"]);
        let field = Self(dir);
        field.write_users(&[("alice", "tea")]);
        field
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn write_users(&self, users: &[(&str, &str)]) {
        let user = |(name, secret): &(&str, &str)| {
            let hash = String::from_utf8(hash(secret).stdout).unwrap();
            format!("[[user]]\nname = \"{name}\"\nsecret = \"{}\"\nflows = 5000\n", hash.trim())
        };
        std::fs::write(self.path("users.toml"), users.iter().map(user).collect::<String>()).unwrap();
    }

    /// Returns the command of a proxy, whose standard error is written to the file `log`.
    pub fn serve(&self, more: &[&str]) -> Command {
        let mut command = anabranch(&["proxy", "serve"]);
        command.current_dir(self.0.path()).args(more);
        // Directory of the socket on which the proxy publishes its state.
        command.env("RUNTIME_DIRECTORY", self.path("run"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(File::create(self.path("log")).unwrap());
        command
    }
}

/// A proxy that is killed when dropped.
pub struct Site {
    pub field: Field,
    pub child: Child,
    /// Standard output, which stays open because a server that cannot print ends.
    stdout: BufReader<ChildStdout>,
    pub address: SocketAddr,
}

/// Options of a proxy whose users may reach the loopback interface.
pub const OPEN: [&str; 10] = [
    "--listen",
    "127.0.0.1:0",
    "--cert",
    "cert.pem",
    "--key",
    "key.pem",
    "--users",
    "users.toml",
    "--allow",
    "127.0.0.0/8",
];

impl Site {
    pub fn open(more: &[&str]) -> Self {
        Self::start(Field::new(), &[&OPEN[..], more].concat())
    }

    pub fn start(field: Field, args: &[&str]) -> Self {
        let mut child = field.serve(args).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let line = line(&mut stdout);
        let log = || std::fs::read_to_string(field.path("log")).unwrap();
        let address =
            line.strip_prefix("listening ").unwrap_or_else(|| panic!("not listening: {line}{}", log()));
        Self { address: address.parse().unwrap(), field, child, stdout }
    }

    /// Returns the next line on standard output that begins with `prefix`, without the prefix.
    pub fn said(&mut self, prefix: &str) -> String {
        loop {
            let line = line(&mut self.stdout);
            if let Some(rest) = line.strip_prefix(prefix) {
                return rest.to_owned();
            }
            assert_ne!(line, "", "{prefix} was not said");
        }
    }

    /// Waits until the log contains `text`, and returns the log.
    pub fn log_with(&self, text: &str) -> String {
        eventually(text, || {
            let log = std::fs::read_to_string(self.field.path("log")).unwrap();
            log.contains(text).then_some(log)
        })
    }

    pub fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    pub fn wait(&mut self) -> ExitStatus {
        eventually("the server's end", || self.child.try_wait().unwrap())
    }

    pub async fn http3(&self, transport: TransportConfig) -> Connection {
        let mut endpoint = Endpoint::client(([127, 0, 0, 1], 0).into()).unwrap();
        let roots = config::roots(&self.field.path("cert.pem")).unwrap();
        endpoint.set_default_client_config(config::client(roots, ["h3"]).unwrap().with_transport(transport));
        let quic = within(endpoint.connect(self.address, "localhost").unwrap()).await.unwrap();
        Connection::new(quic, Config::default())
    }

    /// Opens a TLS connection with the application protocol `alpn`.
    pub async fn tls(&self, alpn: &str) -> TlsStream<TcpStream> {
        let provider = anabranch::rustls::crypto::aws_lc_rs::default_provider();
        let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[&version::TLS13])
            .unwrap()
            .with_root_certificates(config::roots(&self.field.path("cert.pem")).unwrap())
            .with_no_client_auth();
        config.alpn_protocols = vec![alpn.as_bytes().to_vec()];
        let stream = TcpStream::connect(self.address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Requests a tunnel over HTTP/3. Returns its halves and the status.
pub async fn connect(connection: &Connection, target: &str, token: &str) -> (SendHalf, RecvHalf, u16) {
    let request = Request::connect(target).header("proxy-authorization", token).body(()).unwrap();
    let (send, mut receive) = within(connection.request(request)).await.unwrap();
    let status = within(receive.response()).await.unwrap().status().as_u16();
    (send, receive, status)
}

pub async fn within<T>(wait: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, wait).await.expect("in time")
}

fn line(from: &mut impl BufRead) -> String {
    let mut line = String::new();
    from.read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

/// Calls `look` until it returns a value.
pub fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(begin.elapsed() < PATIENCE, "{what} did not come");
        std::thread::sleep(Duration::from_millis(10));
    }
}
