//! An HTTP/3 server in this process. Its pages imitate failures of real servers.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use anabranch::http3::{Code, Config, Connection, RecvHalf, SendHalf};
use anabranch::{ConnectionError, Endpoint, Incoming, ServerConfig, TransportConfig, Version, config, tls};
use anabranch_testkit::certificates::Files;
use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// Length of `/large`.
pub const LARGE: usize = 3_000_000;

/// Range and If-Range of each request.
type Ranges = Arc<Mutex<Vec<[Option<String>; 2]>>>;
type Ends = Arc<Mutex<Vec<Option<ConnectionError>>>>;

pub struct Site {
    pub address: SocketAddr,
    pub dir: TempDir,
    /// For each connection, `true` if a token validated the client's address.
    connections: Arc<Mutex<Vec<bool>>>,
    /// Errors with which connections ended.
    ends: Ends,
    /// Range and If-Range of requests for `/flaky/…`.
    ranges: Ranges,
    _runtime: Runtime,
}

impl Site {
    pub fn start() -> Self {
        let runtime = Runtime::new().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let config = server_config(dir.path());
        let connections = Arc::new(Mutex::new(Vec::new()));
        let endpoint = {
            let _guard = runtime.enter();
            Endpoint::server(config, ([127, 0, 0, 1], 0).into()).unwrap()
        };
        let address = endpoint.local_addr().unwrap();
        let ends = Ends::default();
        let ranges = Ranges::default();
        let (seen, ended, asked) = (Arc::clone(&connections), Arc::clone(&ends), Arc::clone(&ranges));
        runtime.spawn(async move {
            while let Some(incoming) = endpoint.accept().await {
                seen.lock().unwrap().push(incoming.remote_address_validated());
                tokio::spawn(serve(incoming, Arc::clone(&ended), Arc::clone(&asked)));
            }
        });
        Self { address, dir, connections, ends, ranges, _runtime: runtime }
    }

    pub fn url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.address.port())
    }

    pub fn ca(&self) -> PathBuf {
        self.dir.path().join("cert.pem")
    }

    /// Returns whether a token validated the client, for each connection since the last call.
    pub fn connections(&self) -> Vec<bool> {
        std::mem::take(&mut *self.connections.lock().unwrap())
    }

    /// Returns Range and If-Range of the requests for `/flaky/…` since the last call.
    pub fn ranges(&self) -> Vec<[Option<String>; 2]> {
        std::mem::take(&mut *self.ranges.lock().unwrap())
    }

    /// Returns the errors with which connections ended, in order.
    pub fn ends(&self) -> Vec<Option<ConnectionError>> {
        self.ends.lock().unwrap().clone()
    }
}

fn server_config(dir: &Path) -> ServerConfig {
    let Files { cert, key } = Files::new(dir, &["localhost"]);
    let tls = tls::ServerConfig::builder()
        .certificate(config::certificates(&cert).unwrap(), config::private_key(&key).unwrap())
        .alpn(["h3"])
        .early_data(true)
        .build();
    let versions = vec![Version::REVERSO, Version::V1, Version::V2];
    let transport = TransportConfig::default().with_versions(versions);
    ServerConfig::new(tls.unwrap()).with_transport(Arc::new(transport))
}

async fn serve(incoming: Incoming, ends: Ends, ranges: Ranges) {
    // The server accepts early data, too.
    let Ok((quic, _)) = incoming.accept().unwrap().into_0rtt() else { return };
    let connection = Connection::new(quic, Config::default());
    while let Ok(Some((request, send, receive))) = connection.accept().await {
        if request.uri().path().starts_with("/flaky/") {
            tokio::spawn(flaky(request, send, connection.clone(), Arc::clone(&ranges)));
        } else {
            tokio::spawn(answer(request, send, receive));
        }
    }
    ends.lock().unwrap().push(connection.quic().close_reason());
}

async fn answer(request: Request<()>, mut send: SendHalf, mut receive: RecvHalf) {
    let redirect = |status: StatusCode, to: &str| {
        Response::builder().status(status).header(header::LOCATION, to).body(Bytes::new()).unwrap()
    };
    let path = request.uri().path().to_owned();
    let response = match path.as_str() {
        "/" | "/small" | "/sub/small" => Response::new(Bytes::from_static(b"small file")),
        "/large" => large(&request),
        "/whole" => Response::new(Bytes::from(super::pattern(LARGE))),
        "/told" => told(&request, &mut receive).await,
        "/moved" => redirect(StatusCode::FOUND, "sub/small"),
        "/see-told" => redirect(StatusCode::FOUND, "/told"),
        "/same-told" => redirect(StatusCode::TEMPORARY_REDIRECT, "/told"),
        "/loop" => redirect(StatusCode::FOUND, "/loop"),
        "/down" => redirect(StatusCode::MOVED_PERMANENTLY, "http://localhost/"),
        path if path.starts_with("/away/") => {
            let port = path.trim_start_matches("/away/");
            redirect(StatusCode::PERMANENT_REDIRECT, &format!("https://localhost:{port}/told"))
        }
        "/half" | "/cut" => return half(send, path == "/cut").await,
        "/silent" => std::future::pending().await,
        _ => Response::builder().status(StatusCode::NOT_FOUND).body(Bytes::from_static(b"no")).unwrap(),
    };
    let response = match request.method().as_str() {
        "HEAD" => response.map(|_| Bytes::new()),
        _ => response,
    };
    let _ = send.send_whole_response(response).await;
}

/// Responds with the request's own header fields.
async fn told(request: &Request<()>, receive: &mut RecvHalf) -> Response<Bytes> {
    let mut text = format!("{}\n", request.method());
    for (name, value) in request.headers() {
        text.push_str(&format!("{name}: {}\n", value.to_str().unwrap()));
    }
    let mut content = 0;
    while let Ok(Some(piece)) = receive.read_chunk(usize::MAX).await {
        content += piece.len();
        if piece.len() < 100 {
            text.push_str(&String::from_utf8_lossy(&piece));
        }
    }
    text.push_str(&format!("\n{content} bytes"));
    Response::builder().header("x-field", "of the response").body(Bytes::from(text)).unwrap()
}

/// Returns a file that supports range requests.
fn large(request: &Request<()>) -> Response<Bytes> {
    let content = Bytes::from(super::pattern(LARGE));
    let Some(range) = request.headers().get(header::RANGE) else { return Response::new(content) };
    let (from, to) = range.to_str().unwrap().strip_prefix("bytes=").unwrap().split_once('-').unwrap();
    let from: usize = from.parse().unwrap();
    let to = to.parse().map_or(LARGE, |last: usize| last + 1);
    if from >= LARGE {
        let builder = Response::builder().status(StatusCode::RANGE_NOT_SATISFIABLE);
        return builder.header(header::CONTENT_RANGE, format!("bytes */{LARGE}")).body(Bytes::new()).unwrap();
    }
    let range = format!("bytes {from}-{}/{LARGE}", to - 1);
    let builder = Response::builder().status(StatusCode::PARTIAL_CONTENT);
    builder.header(header::CONTENT_RANGE, range).body(content.slice(from..to)).unwrap()
}

/// Sends a third of the file and then resets the stream or closes the connection. From the second request on,
/// `/flaky/other` has a new file with a new entity tag, and `/flaky/liar` a new file with the old tag.
async fn flaky(request: Request<()>, mut send: SendHalf, connection: Connection, ranges: Ranges) {
    let field = |name| request.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
    let [range, condition] = [field(header::RANGE), field(header::IF_RANGE)];
    let number = {
        let mut ranges = ranges.lock().unwrap();
        ranges.push([range.clone(), condition.clone()]);
        ranges.len()
    };
    let how = request.uri().path().trim_start_matches("/flaky/").to_owned();
    let (mut content, mut tag) = (super::pattern(LARGE), "\"one\"".to_owned());
    if number > 1 && ["other", "liar"].contains(&how.as_str()) {
        content.reverse();
        tag = if how == "other" { "\"two\"".to_owned() } else { tag };
    }
    let from = range
        .filter(|_| condition.as_ref() == Some(&tag))
        .map(|range| range.strip_prefix("bytes=").unwrap().trim_end_matches('-').parse::<usize>().unwrap());
    let mut head = Response::builder().header(header::ETAG, tag);
    if let Some(from) = from {
        let range = format!("bytes {from}-{}/{LARGE}", LARGE - 1);
        head = head.status(StatusCode::PARTIAL_CONTENT).header(header::CONTENT_RANGE, range);
    }
    let rest = Bytes::from(content).slice(from.unwrap_or(0)..);
    send.send_response(head.header(header::CONTENT_LENGTH, rest.len()).body(()).unwrap()).unwrap();
    let is_last = rest.len() <= LARGE / 2 || number > 1 && how != "reset";
    let _ = send.write(if is_last { rest } else { rest.slice(..LARGE / 3) }).await;
    if is_last {
        let _ = send.finish();
        return;
    }
    // The client gets time to read the data.
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    match how.as_str() {
        "close" => connection.close_with(Code::INTERNAL_ERROR, "the server falls over"),
        _ => send.reset(Code::EXCESSIVE_LOAD),
    }
}

/// Announces a file, sends half of it, and then either stalls or resets the stream.
async fn half(mut send: SendHalf, cut: bool) {
    let head = Response::builder().header(header::CONTENT_LENGTH, LARGE).body(()).unwrap();
    send.send_response(head).unwrap();
    let _ = send.write(Bytes::from(super::pattern(LARGE / 2))).await;
    match cut {
        // The client gets time to read the data.
        true => tokio::time::sleep(std::time::Duration::from_secs(1)).await,
        false => std::future::pending().await,
    }
    send.reset(Code::INTERNAL_ERROR);
}
