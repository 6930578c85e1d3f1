//! A proxy on a thread of its own, whose allocations are counted, and its clients.

use std::net::SocketAddr;
use std::time::Duration;

use anabranch::http3::{Config, Connection, Limits, Protocol, RecvHalf, SendHalf, Server};
use anabranch::proxy::server::{Access, Nothing, Proxy, ProxyOptions, ProxyService, UserLimits, Users};
use anabranch::{Endpoint, SelfSigned, StreamsConfig, TransportConfig, config};
use anabranch_testkit::endpoints::{loopback, server_config, within};
use http::Request;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::sync::{mpsc, oneshot};

use crate::counting::live;
use crate::{EACH, HALF_OPEN};

/// Both halves of a tunnel.
pub(crate) type Tunnel = (SendHalf, RecvHalf);

pub(crate) struct Site {
    identity: SelfSigned,
    address: SocketAddr,
    proxy: Proxy,
    ask: mpsc::UnboundedSender<oneshot::Sender<isize>>,
}

impl Site {
    pub(crate) fn start() -> Self {
        let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap();
        let identity = SelfSigned::new(["localhost"]).unwrap();
        let streams = StreamsConfig::default().with_max_bidi(EACH as u64);
        let transport = TransportConfig::default().with_streams(streams);
        let config = server_config(&identity, "h3").with_transport(transport);
        let users = Users::new().with_anyone(UserLimits::default().with_max_flows(2 * HALF_OPEN));
        let access = Access::default().with_allow(["127.0.0.0/8".parse().unwrap()]);
        let options = ProxyOptions::default().with_connect_timeout(Duration::from_secs(600));
        let proxy = Proxy::new(options, users, access).unwrap();
        let service = ProxyService::new(proxy.clone(), Nothing);
        let (ask, mut asked) = mpsc::unbounded_channel::<oneshot::Sender<isize>>();
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let endpoint = Endpoint::server(config, loopback()).unwrap();
                tell.send(endpoint.local_addr().unwrap()).unwrap();
                let limits = Limits::default().with_max_handlers(EACH);
                tokio::spawn(Server::new(endpoint, service).limits(limits).serve());
                while let Some(answer) = asked.recv().await {
                    let _ = answer.send(live());
                }
            });
        });
        Self { identity, address: told.recv().unwrap(), proxy, ask }
    }

    /// Returns the number of open tunnels.
    pub(crate) fn flows(&self) -> usize {
        self.proxy.totals().get("*").map_or(0, |user| user.flows)
    }

    /// Waits until the memory of the proxy's thread changes by less than 1 KiB within 100 ms. Returns its
    /// size, in bytes.
    pub(crate) async fn settled(&self) -> isize {
        let mut last: Option<isize> = None;
        for _ in 0..100 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let (answer, answered) = oneshot::channel();
            self.ask.send(answer).unwrap();
            let held = within(answered).await.unwrap();
            if last.is_some_and(|last| (held - last).abs() < 1_024) {
                return held;
            }
            last = Some(held);
        }
        panic!("the memory changes all the time: {last:?}");
    }

    pub(crate) async fn connect(&self) -> Connection {
        let mut endpoint = Endpoint::client(loopback()).unwrap();
        endpoint.set_default_client_config(config::client(self.identity.roots().unwrap(), ["h3"]).unwrap());
        let quic = within(endpoint.connect(self.address, "localhost").unwrap()).await.unwrap();
        Connection::new(quic, Config::default())
    }
}

/// Opens a tunnel for TCP.
pub(crate) async fn tcp(connection: &Connection, target: SocketAddr) -> Tunnel {
    opened(ask(connection, target).await).await
}

/// Opens a tunnel for UDP.
pub(crate) async fn udp(connection: &Connection, target: SocketAddr) -> Tunnel {
    let path = format!("/.well-known/masque/udp/{}/{}/", target.ip(), target.port());
    let request = Request::connect(format!("https://localhost{path}")).extension(Protocol::CONNECT_UDP);
    opened(within(connection.request(request.body(()).unwrap())).await.unwrap()).await
}

/// Requests a tunnel for TCP, and does not wait for the response.
pub(crate) async fn ask(connection: &Connection, target: SocketAddr) -> Tunnel {
    within(connection.request(Request::connect(target.to_string()).body(()).unwrap())).await.unwrap()
}

async fn opened((send, mut receive): Tunnel) -> Tunnel {
    assert_eq!(within(receive.response()).await.unwrap().status(), 200);
    (send, receive)
}
