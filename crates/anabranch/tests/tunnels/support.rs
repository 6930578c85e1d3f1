//! A small proxy that itself responds for targets with certain names, and clients that trust it.
#![allow(unreachable_pub, reason = "other files of the test use it")]

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anabranch::http3::{Code, Config, Connection, Protocol, RecvHalf, SendHalf};
use anabranch::proxy::client::{Credentials, Proxy, ProxyConfig, Target};
use anabranch::{Endpoint, SelfSigned, StreamsConfig, TransportConfig, config};
pub use anabranch_testkit::endpoints::within;
use anabranch_testkit::endpoints::{loopback, server_config};
use bytes::Bytes;
use http::{Request, Response};
use tokio::sync::{Notify, mpsc};

/// Number of requests for `lost.test:7`. The proxy closes the connection of each.
pub static LOST: AtomicU32 = AtomicU32::new(0);

/// Permission for `enough.test:7` to respond.
pub static ENOUGH: Notify = Notify::const_new();

/// A running proxy.
pub struct Site {
    pub identity: SelfSigned,
    pub endpoint: Endpoint,
    pub address: SocketAddr,
}

/// Settings of a proxy.
#[derive(Clone, Default)]
pub struct Setting {
    pub http3: Config,
    /// Maximum number of streams of a client at the same time.
    pub streams: Option<u64>,
}

impl Site {
    pub fn start() -> Self {
        Self::with(Setting::default())
    }

    pub fn with(setting: Setting) -> Self {
        Self::at(loopback(), SelfSigned::new(["localhost"]).unwrap(), setting)
    }

    pub fn at(address: SocketAddr, identity: SelfSigned, setting: Setting) -> Self {
        let mut transport = TransportConfig::default();
        if let Some(streams) = setting.streams {
            transport = transport.with_streams(StreamsConfig::default().with_max_bidi(streams));
        }
        let server = server_config(&identity, "h3").with_transport(transport);
        let endpoint = Endpoint::server(server, address).unwrap();
        let address = endpoint.local_addr().unwrap();
        tokio::spawn(serve(endpoint.clone(), setting.http3));
        Self { identity, endpoint, address }
    }

    pub fn config(&self) -> ProxyConfig {
        client_config(&self.identity, self.address)
    }

    pub fn proxy(&self) -> Proxy {
        Proxy::new(self.config())
    }

    /// Closes all connections, and stops the proxy. Returns its address and identity.
    pub async fn kill(self) -> (SocketAddr, SelfSigned) {
        self.endpoint.close(Code::INTERNAL_ERROR.into(), b"killed");
        self.endpoint.wait_close_sent().await;
        (self.address, self.identity)
    }
}

/// Returns the configuration of a client that trusts the proxy at `address`.
pub fn client_config(identity: &SelfSigned, address: SocketAddr) -> ProxyConfig {
    let quic = config::client(identity.roots().unwrap(), ["h3"]).unwrap();
    let url = format!("https://localhost:{}/", address.port());
    let config = ProxyConfig::new(&url, quic).unwrap().with_addresses([address]);
    config.with_credentials(Credentials::bearer("secret").unwrap()).with_patience(Duration::from_secs(60))
}

/// Request that a proxy has received.
pub type Received = (Request<()>, SendHalf, RecvHalf);

/// Starts a proxy whose requests the test itself answers. Returns its client.
pub fn by_hand(http3: Config) -> (Proxy, mpsc::UnboundedReceiver<Received>) {
    let identity = SelfSigned::new(["localhost"]).unwrap();
    let endpoint = Endpoint::server(server_config(&identity, "h3"), loopback()).unwrap();
    let proxy = Proxy::new(client_config(&identity, endpoint.local_addr().unwrap()));
    let (requests, received) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(incoming) = endpoint.accept().await {
            let connection = Connection::new(incoming.await.unwrap(), http3.clone());
            while let Ok(Some(request)) = connection.accept().await {
                if requests.send(request).is_err() {
                    return;
                }
            }
        }
    });
    (proxy, received)
}

pub fn target(name: &str) -> Target {
    name.parse().unwrap()
}

async fn serve(endpoint: Endpoint, config: Config) {
    while let Some(incoming) = endpoint.accept().await {
        let config = config.clone();
        tokio::spawn(async move {
            let Ok(quic) = incoming.await else { return };
            let connection = Connection::new(quic, config.clone());
            while let Ok(Some((request, send, receive))) = connection.accept().await {
                if request.uri().authority().is_some_and(|authority| authority == "lost.test:7") {
                    LOST.fetch_add(1, Ordering::Relaxed);
                    connection.close();
                }
                tokio::spawn(answer(request, send, receive, config.h3_datagram()));
            }
        });
    }
}

async fn answer(
    request: Request<()>,
    mut send: SendHalf,
    mut receive: RecvHalf,
    datagrams: bool,
) -> Option<()> {
    let is_udp = request.extensions().get::<Protocol>() == Some(&Protocol::CONNECT_UDP);
    let shown = request.headers().get("proxy-authorization").map(|value| value.to_str().unwrap().to_owned());
    if shown.as_deref() != Some("Bearer secret") {
        return refuse(send, 407, "test; error=http_request_denied").await;
    }
    let target = match is_udp {
        true => request.uri().path().to_owned(),
        false => request.uri().authority()?.to_string(),
    };
    match target.as_str() {
        "echo.test:7" => {
            send.send_response(Response::new(())).ok()?;
            while let Some(chunk) = receive.read_chunk(usize::MAX).await.ok()? {
                send.write(chunk).await.ok()?;
            }
            send.finish().ok()
        }
        // Reads no bytes.
        "deaf.test:7" => {
            send.send_response(Response::new(())).ok()?;
            send.stopped().await;
            Some(())
        }
        // Sends bytes only after the client has ended its direction.
        "late.test:7" => {
            send.send_response(Response::new(())).ok()?;
            let mut total = 0;
            while let Some(chunk) = receive.read_chunk(usize::MAX).await.ok()? {
                total += chunk.len();
            }
            send.write(Bytes::from(format!("{total} bytes"))).await.ok()?;
            send.finish().ok()
        }
        // Needs no bytes, and responds once the test permits it.
        "enough.test:7" => {
            send.send_response(Response::new(())).ok()?;
            receive.stop(Code::NO_ERROR);
            ENOUGH.notified().await;
            send.write(Bytes::from_static(b"enough")).await.ok()?;
            send.finish().ok()
        }
        "reset.test:7" => {
            send.send_response(Response::new(())).ok()?;
            receive.read_chunk(1).await.ok()?;
            receive.stop(Code::CONNECT_ERROR);
            send.reset(Code::CONNECT_ERROR);
            Some(())
        }
        "/.well-known/masque/udp/echo.test/7/" if datagrams => {
            assert_eq!(request.headers().get("capsule-protocol").unwrap(), "?1");
            assert_eq!(request.headers().get("authorization").unwrap(), "Bearer secret");
            send.send_response(Response::new(())).ok()?;
            let datagrams = send.datagrams();
            while let Ok(datagram) = datagrams.recv().await {
                if &datagram[..] == b"\0end" {
                    return send.finish().ok();
                }
                // A datagram with an unknown context ID is sent before each.
                let _ = datagrams.send(b"\x02unknown");
                let _ = datagrams.send(&datagram);
            }
            Some(())
        }
        // Sends the bytes of all capsules back.
        "/.well-known/masque/udp/echo.test/7/" => {
            send.send_response(Response::new(())).ok()?;
            while let Some(chunk) = receive.read_chunk(usize::MAX).await.ok()? {
                send.write(chunk).await.ok()?;
            }
            send.finish().ok()
        }
        "/.well-known/masque/udp/none.test/7/" => refuse(send, 501, "test; error=http_upgrade_failed").await,
        _ => refuse(send, 502, "near, test; error=connection_refused; details=\"port 1\"").await,
    }
}

async fn refuse(mut send: SendHalf, status: u16, cause: &str) -> Option<()> {
    let response =
        Response::builder().status(status).header("proxy-status", cause).body(Bytes::new()).unwrap();
    send.send_whole_response(response).await.ok()
}
