//! Support: a proxy on the loopback interface, its clients and its targets.
#![allow(unreachable_pub, reason = "other files of the test use it")]

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anabranch::http3::{Config, Connection, Protocol, RecvHalf, SendHalf, Server};
use anabranch::proxy::client::ProxyConfig;
use anabranch::proxy::server::{
    Access, Nothing, Observer, Proxy, ProxyOptions, ProxyService, Record, Resolve, Resolving, UserLimits,
    Users,
};
use anabranch::{Endpoint, SelfSigned, TransportConfig, config};
pub use anabranch_testkit::endpoints::within;
use anabranch_testkit::endpoints::{loopback, server_config};
use http::{HeaderMap, Request, Response};
use tokio::net::{TcpListener, TcpStream};

/// Resolver with the addresses of some names.
#[derive(Clone, Debug, Default)]
pub struct Names(pub HashMap<String, Vec<IpAddr>>);

impl Resolve for Names {
    fn resolve(&self, host: &str) -> Resolving {
        let found = self.0.get(host).cloned();
        let missing = || std::io::Error::new(std::io::ErrorKind::NotFound, "no such name");
        Box::pin(async move { found.ok_or_else(missing) })
    }
}

#[derive(Default)]
struct Records(Mutex<Vec<Record>>);

impl Observer for Records {
    fn ended(&self, record: &Record) {
        self.0.lock().unwrap().push(record.clone());
    }
}

/// Settings of a proxy.
pub struct Plan {
    pub options: ProxyOptions,
    pub users: Users,
    pub access: Access,
    pub names: Names,
    pub transport: TransportConfig,
}

impl Plan {
    /// Returns the settings of a proxy that also connects clients without credentials to the loopback
    /// interface.
    pub fn open() -> Self {
        let loopback = ["127.0.0.0/8".parse().unwrap(), "[::1]".parse().unwrap()];
        Self { access: Access::default().with_allow(loopback), ..Self::strict() }
    }

    /// Returns the settings of a proxy that connects clients without credentials to the targets of the
    /// default access list.
    pub fn strict() -> Self {
        Self {
            options: ProxyOptions::default().with_connect_timeout(Duration::from_secs(2)),
            users: Users::new().with_anyone(UserLimits::default()),
            access: Access::default(),
            names: Names::default(),
            transport: TransportConfig::default(),
        }
    }

    pub fn serve(self) -> Site {
        let identity = SelfSigned::new(["localhost"]).unwrap();
        let config = server_config(&identity, "h3").with_transport(self.transport);
        let endpoint = Endpoint::server(config, loopback()).unwrap();
        let address = endpoint.local_addr().unwrap();
        let records = Arc::new(Records::default());
        let proxy = Proxy::new(self.options, self.users, self.access).unwrap();
        let observer: Arc<dyn Observer> = Arc::clone(&records) as _;
        let proxy = proxy.with_resolver(Arc::new(self.names)).with_observer(observer);
        tokio::spawn(Server::new(endpoint.clone(), ProxyService::new(proxy.clone(), Nothing)).serve());
        Site { identity, address, proxy, records, _endpoint: endpoint }
    }
}

/// A running proxy.
pub struct Site {
    identity: SelfSigned,
    pub address: SocketAddr,
    pub proxy: Proxy,
    records: Arc<Records>,
    _endpoint: Endpoint,
}

impl Site {
    /// Returns the settings of a client of this proxy.
    pub fn config(&self, transport: TransportConfig) -> ProxyConfig {
        let quic = config::client(self.identity.roots().unwrap(), ["h3"]).unwrap().with_transport(transport);
        let url = format!("https://localhost:{}", self.address.port());
        ProxyConfig::new(&url, quic).unwrap().with_addresses([self.address])
    }

    pub async fn connect(&self) -> Connection {
        self.connect_with(TransportConfig::default()).await
    }

    pub async fn connect_with(&self, transport: TransportConfig) -> Connection {
        let mut endpoint = Endpoint::client(loopback()).unwrap();
        let client =
            config::client(self.identity.roots().unwrap(), ["h3"]).unwrap().with_transport(transport);
        endpoint.set_default_client_config(client);
        let quic = within(endpoint.connect(self.address, "localhost").unwrap()).await.unwrap();
        Connection::new(quic, Config::default())
    }

    /// Waits for the records of `count` tunnels, and returns all records.
    pub async fn records(&self, count: usize) -> Vec<Record> {
        let wait = async {
            loop {
                let records = self.records.0.lock().unwrap().clone();
                if records.len() >= count {
                    return records;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        within(wait).await
    }
}

/// Both halves of a tunnel, and the response that began it.
pub struct Tunnel {
    pub send: SendHalf,
    pub receive: RecvHalf,
    pub response: Response<()>,
}

/// Requests a tunnel for TCP.
pub async fn tcp(connection: &Connection, target: &str, fields: &[(&'static str, &str)]) -> Tunnel {
    open(connection, Request::connect(target), fields, None).await
}

/// Requests a tunnel for UDP.
pub async fn udp(connection: &Connection, target: &str, fields: &[(&'static str, &str)]) -> Tunnel {
    let (host, port) = target.rsplit_once(':').unwrap();
    let host = host.trim_matches(['[', ']']).replace(':', "%3A");
    let url = format!("https://localhost/.well-known/masque/udp/{host}/{port}/");
    open(connection, Request::connect(url), fields, Some(Protocol::CONNECT_UDP)).await
}

async fn open(
    connection: &Connection,
    mut request: http::request::Builder,
    fields: &[(&'static str, &str)],
    protocol: Option<Protocol>,
) -> Tunnel {
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    if let Some(protocol) = protocol {
        request = request.extension(protocol);
    }
    let (send, mut receive) = within(connection.request(request.body(()).unwrap())).await.unwrap();
    let response = within(receive.response()).await.unwrap();
    Tunnel { send, receive, response }
}

/// Returns the error type in a response's `Proxy-Status`; an empty text if there is none.
pub fn proxy_status(fields: &HeaderMap) -> String {
    let value = fields.get("proxy-status").map_or("", |value| value.to_str().unwrap());
    let error = value.split(';').find_map(|parameter| parameter.trim().strip_prefix("error="));
    error.unwrap_or_default().to_owned()
}

/// Opens a tunnel to a new listener. Returns the tunnel, and the connection that the listener accepts.
pub async fn joined(site: &Site, connection: &Connection) -> (Tunnel, TcpStream) {
    let listener = TcpListener::bind(loopback()).await.unwrap();
    let target = listener.local_addr().unwrap().to_string();
    let accepted = async { listener.accept().await.unwrap().0 };
    let (tunnel, stream) = within(async { tokio::join!(tcp(connection, &target, &[]), accepted) }).await;
    assert_eq!(tunnel.response.status(), 200, "{:?}", site.address);
    (tunnel, stream)
}
