//! A server in a separate process, and clients for all its protocols.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anabranch::rustls::pki_types::ServerName;
use anabranch::rustls::{ClientConfig, version};
use anabranch::{Endpoint, config, http3};
use anabranch_testkit::certificates::Files;
use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Maximum time of every wait.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A directory with a root, a certificate, and files outside the root.
pub(crate) struct Field(pub(crate) TempDir);

impl Field {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("root/sub")).unwrap();
        std::fs::write(dir.path().join("root/small.txt"), "small file").unwrap();
        std::fs::write(dir.path().join("root/sub/page.html"), "<p>page").unwrap();
        std::fs::write(dir.path().join("secret"), "not served").unwrap();
        Files::new(dir.path(), &["localhost", "127.0.0.1"]);
        Self(dir)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Returns the command that serves the root. Its log is written to the file `log`.
    pub(crate) fn serve(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
        command.current_dir(self.0.path()).args(["serve", "--root", "root"]);
        command.args(["--cert", "cert.pem", "--key", "key.pem"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        command.stderr(File::create(self.path("log")).unwrap());
        command
    }
}

/// A server that is killed when dropped.
pub(crate) struct Server {
    pub(crate) field: Field,
    pub(crate) child: Child,
    /// Kept open, because the server exits if it cannot write to its standard output.
    pub(crate) stdout: BufReader<ChildStdout>,
    pub(crate) address: SocketAddr,
}

impl Server {
    pub(crate) fn start(more: &[&str]) -> Self {
        let field = Field::new();
        let mut command = field.serve();
        command.args(["--listen", "127.0.0.1:0"]).args(more);
        Self::run(field, command)
    }

    pub(crate) fn run(field: Field, mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let line = line(&mut stdout);
        let address = line.strip_prefix("listening ").unwrap_or_else(|| panic!("not listening: {line}"));
        Self { address: address.parse().unwrap(), field, child, stdout }
    }

    /// Returns the next line on standard output that begins with `prefix`, without the prefix.
    pub(crate) fn said(&mut self, prefix: &str) -> String {
        loop {
            let line = line(&mut self.stdout);
            if let Some(rest) = line.strip_prefix(prefix) {
                return rest.to_owned();
            }
            assert_ne!(line, "", "{prefix} was not said");
        }
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.field.path("log")).unwrap()
    }

    /// Returns the log when it has `lines` lines.
    pub(crate) fn log_of(&self, lines: usize) -> Vec<String> {
        eventually("the log", || {
            let log = self.log();
            (log.lines().count() >= lines).then(|| log.lines().map(str::to_owned).collect())
        })
    }

    pub(crate) fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        eventually("the server's end", || self.child.try_wait().unwrap())
    }

    pub(crate) fn get(&self, over: Over, path: &str) -> Answer {
        self.ask(over, "GET", path, &[])
    }

    pub(crate) fn ask(&self, over: Over, method: &str, path: &str, fields: &[(&str, &str)]) -> Answer {
        runtime().block_on(async {
            let answered = exchange(self.address, &self.field.0, over, method, path, fields);
            tokio::time::timeout(PATIENCE, answered).await.expect("no answer")
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn line(from: &mut impl BufRead) -> String {
    let mut line = String::new();
    from.read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

/// Calls `look` until it returns a value.
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(begin.elapsed() < PATIENCE, "{what} did not come");
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// Protocol of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    Http1,
    Http2,
    Http3,
}

pub(crate) const ALL: [Over; 3] = [Over::Http1, Over::Http2, Over::Http3];

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }
}

async fn exchange(
    address: SocketAddr,
    dir: &TempDir,
    over: Over,
    method: &str,
    path: &str,
    fields: &[(&str, &str)],
) -> Answer {
    let mut request = Request::builder().method(method);
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    let authority = format!("localhost:{}", address.port());
    request = match over {
        Over::Http1 => request.uri(path).header("host", &authority),
        _ => request.uri(format!("https://{authority}{path}")),
    };
    let request = request.body(Empty::<Bytes>::new()).unwrap();
    let ca = dir.path().join("cert.pem");
    if over == Over::Http3 {
        let (head, body) = client(address, &ca).request(request).await.unwrap().into_parts();
        let body = body.collect().await.unwrap().to_bytes().to_vec();
        return Answer { status: head.status.as_u16(), headers: head.headers, body };
    }
    let (head, body) = send(address, &ca, over, request).await.into_parts();
    let body = body.collect().await.unwrap().to_bytes().to_vec();
    Answer { status: head.status.as_u16(), headers: head.headers, body }
}

/// Returns an HTTP/3 client that resolves `localhost` to `address`.
pub(crate) fn client(address: SocketAddr, ca: &Path) -> http3::Client {
    let endpoint = Endpoint::client(([127, 0, 0, 1], 0).into()).unwrap();
    let config = config::client(config::roots(ca).unwrap(), ["h3"]).unwrap();
    http3::Client::builder(endpoint, config).resolve("localhost", address).build()
}

/// Sends one request on its own connection over TCP.
pub(crate) async fn send(
    address: SocketAddr,
    ca: &Path,
    over: Over,
    request: Request<Empty<Bytes>>,
) -> Response<Incoming> {
    let stream = TokioIo::new(tls(address, ca, if over == Over::Http2 { "h2" } else { "http/1.1" }).await);
    if over == Over::Http2 {
        let (mut sender, connection) = http2::handshake(TokioExecutor::new(), stream).await.unwrap();
        tokio::spawn(connection);
        sender.send_request(request).await.unwrap()
    } else {
        let (mut sender, connection) = http1::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        sender.send_request(request).await.unwrap()
    }
}

/// Opens a TLS connection with the application protocol `alpn`.
pub(crate) async fn tls(address: SocketAddr, ca: &Path, alpn: &str) -> TlsStream<TcpStream> {
    let provider = anabranch::rustls::crypto::aws_lc_rs::default_provider();
    let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[&version::TLS13])
        .unwrap()
        .with_root_certificates(config::roots(ca).unwrap())
        .with_no_client_auth();
    config.alpn_protocols = vec![alpn.as_bytes().to_vec()];
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
}
