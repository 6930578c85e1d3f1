//! The small proxy of these tests over HTTP/2, at a port whose UDP is silent until it is given up.
#![allow(unreachable_pub, reason = "other files of the test use it")]

use std::future::poll_fn;
use std::net::{SocketAddr, TcpListener as StdTcpListener, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anabranch::SelfSigned;
use anabranch::rustls::{self, crypto::aws_lc_rs::default_provider};
use bytes::Bytes;
use h2::ext::Protocol;
use h2::server::{self, SendResponse};
use h2::{Reason, RecvStream, SendStream};
use http::{Request, Response};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;

/// The proxy over TCP, while it runs.
pub struct TcpSite {
    pub identity: SelfSigned,
    pub address: SocketAddr,
    pub seen: Arc<Mutex<Seen>>,
    /// Socket that receives what is sent over QUIC, and reads nothing.
    pub silent: UdpSocket,
}

/// Counts of the proxy over TCP.
#[derive(Default)]
pub struct Seen {
    pub connections: usize,
    pub ended: usize,
    /// Codes of the client's RST_STREAM frames.
    pub resets: Vec<Reason>,
}

impl TcpSite {
    pub fn start() -> Self {
        let identity = SelfSigned::new(["localhost"]).unwrap();
        let (listener, silent) = free_port();
        let address = silent.local_addr().unwrap();
        let tls = rustls::ServerConfig::builder_with_provider(Arc::new(default_provider()));
        let tls = tls.with_protocol_versions(&[&rustls::version::TLS13]).unwrap().with_no_client_auth();
        let mut tls = tls.with_single_cert(vec![identity.certificate().clone()], identity.key()).unwrap();
        tls.alpn_protocols = vec![b"h2".to_vec()];
        let seen = Arc::default();
        tokio::spawn(accept(listener, TlsAcceptor::from(Arc::new(tls)), Arc::clone(&seen)));
        Self { identity, address, seen, silent }
    }

    pub fn connections(&self) -> usize {
        self.seen.lock().unwrap().connections
    }

    pub fn ended(&self) -> usize {
        self.seen.lock().unwrap().ended
    }

    /// Returns the last reset by the client.
    pub fn reset(&self) -> Option<Reason> {
        self.seen.lock().unwrap().resets.last().copied()
    }
}

/// Returns a listener, and a UDP socket at the same port.
fn free_port() -> (TcpListener, UdpSocket) {
    loop {
        let listener = StdTcpListener::bind("127.0.0.1:0").unwrap();
        if let Ok(silent) = UdpSocket::bind(listener.local_addr().unwrap()) {
            listener.set_nonblocking(true).unwrap();
            return (TcpListener::from_std(listener).unwrap(), silent);
        }
    }
}

async fn accept(listener: TcpListener, tls: TlsAcceptor, seen: Arc<Mutex<Seen>>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        seen.lock().unwrap().connections += 1;
        let (tls, seen) = (tls.clone(), Arc::clone(&seen));
        tokio::spawn(async move {
            serve(tls, stream, &seen).await;
            seen.lock().unwrap().ended += 1;
        });
    }
}

async fn serve(tls: TlsAcceptor, stream: TcpStream, seen: &Arc<Mutex<Seen>>) -> Option<()> {
    let stream = tls.accept(stream).await.ok()?;
    let mut builder = server::Builder::new();
    let mut connection = builder.enable_connect_protocol().handshake::<_, Bytes>(stream).await.ok()?;
    let kill = Arc::new(Notify::new());
    loop {
        let accepted = tokio::select! {
            accepted = connection.accept() => accepted?,
            () = kill.notified() => return None,
        };
        let (request, respond) = accepted.ok()?;
        if request.uri().authority().is_some_and(|authority| authority == "close.test:7") {
            let kill = Arc::clone(&kill);
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(100)).await;
                kill.notify_one();
            });
        }
        tokio::spawn(answer(request, respond, Arc::clone(seen)));
    }
}

async fn answer(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    seen: Arc<Mutex<Seen>>,
) -> Option<()> {
    let protocol = request.extensions().get::<Protocol>().map(|protocol| protocol.as_str().to_owned());
    let name = match protocol.as_deref() {
        None => request.uri().authority()?.to_string(),
        Some(protocol) => {
            assert_eq!(request.headers().get("capsule-protocol").unwrap(), "?1");
            assert_eq!(request.headers().get("authorization").unwrap(), "Bearer secret");
            format!("{protocol} {}", request.uri().path())
        }
    };
    assert_eq!(request.headers().get("proxy-authorization").unwrap(), "Bearer secret");
    let status = if name == "refused.test:7" { 502 } else { 200 };
    let response = Response::builder().status(status).body(()).unwrap();
    let mut send = respond.send_response(response, status != 200).ok()?;
    let mut receive = request.into_body();
    match name.as_str() {
        "echo.test:7"
        | "connect-udp /.well-known/masque/udp/echo.test/7/"
        | "connect-ip /.well-known/masque/ip/*/*/" => {
            while let Some(piece) = read(&mut receive, &seen).await? {
                write(&mut send, piece).await?;
            }
            send.send_data(Bytes::new(), true).ok()
        }
        // Responds only after the end of the request.
        "late.test:7" => {
            let mut total = 0;
            while let Some(piece) = read(&mut receive, &seen).await? {
                total += piece.len();
            }
            send.send_data(Bytes::from(format!("{total} bytes")), true).ok()
        }
        "reset.test:7" => {
            read(&mut receive, &seen).await?;
            send.send_reset(Reason::CONNECT_ERROR);
            Some(())
        }
        // Sends without an end.
        "flood.test:7" => loop {
            write(&mut send, Bytes::from_static(&[7; 16_384])).await?;
        },
        // Reads nothing. The connection of the other one is closed soon.
        "deaf.test:7" | "close.test:7" => {
            let reason = poll_fn(|cx| send.poll_reset(cx)).await.ok()?;
            seen.lock().unwrap().resets.push(reason);
            Some(())
        }
        _ => Some(()),
    }
}

/// Returns the next piece of a request. Takes a note of a reset.
async fn read(receive: &mut RecvStream, seen: &Mutex<Seen>) -> Option<Option<Bytes>> {
    match receive.data().await {
        Some(Ok(piece)) => {
            receive.flow_control().release_capacity(piece.len()).ok()?;
            Some(Some(piece))
        }
        Some(Err(error)) => {
            seen.lock().unwrap().resets.extend(error.reason());
            None
        }
        None => Some(None),
    }
}

async fn write(send: &mut SendStream<Bytes>, mut piece: Bytes) -> Option<()> {
    while !piece.is_empty() {
        send.reserve_capacity(piece.len());
        let room = poll_fn(|cx| send.poll_capacity(cx)).await?.ok()?;
        send.send_data(piece.split_to(room.min(piece.len())), false).ok()?;
    }
    Some(())
}
