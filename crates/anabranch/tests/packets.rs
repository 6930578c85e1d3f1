//! IP packets through the proxy (RFC 9484), between its client, its service and a network.
#![cfg(feature = "proxy")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests are tests")]

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anabranch::http3::{Code, Config, Connection, Error, Protocol, RecvHalf, SendHalf, Server};
use anabranch::proxy::client::{
    Credentials, IpEvent, IpReceiver, IpSender, Proxy, ProxyConfig, SendPacketError, TunnelError,
};
use anabranch::proxy::ip::PacketHeader;
use anabranch::proxy::server::{
    self, Access, IpNetwork, Nothing, PacketSink, ProxyOptions, ProxyService, User, UserLimits, Users,
    hash_secret,
};
use anabranch::{Endpoint, SelfSigned, config};
use anabranch_testkit::endpoints::{loopback, server_config, within};
use bytes::Bytes;
use http::Request;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Destination that the access list denies and, below, one that it allows.
const PRIVATE: &str = "10.66.0.1";
const PUBLIC: &str = "198.41.0.4";

struct Sink(UnboundedSender<Vec<u8>>);

impl PacketSink for Sink {
    fn send(&self, packet: &[u8]) -> bool {
        self.0.send(packet.to_vec()).is_ok()
    }
}

/// A proxy with a network.
struct Site {
    identity: SelfSigned,
    address: SocketAddr,
    proxy: server::Proxy,
    network: IpNetwork,
    /// Packets that clients send to the network.
    sent: UnboundedReceiver<Vec<u8>>,
    _endpoint: Endpoint,
}

impl Site {
    fn start(pools: &[&str]) -> Self {
        let (sink, sent) = unbounded_channel();
        let pools = pools.iter().map(|pool| pool.parse().unwrap());
        let network = IpNetwork::new(pools, Sink(sink)).unwrap();
        Self::with(Some(network.clone()), network, sent)
    }

    fn with(carried: Option<IpNetwork>, network: IpNetwork, sent: UnboundedReceiver<Vec<u8>>) -> Self {
        let identity = SelfSigned::new(["localhost"]).unwrap();
        let endpoint = Endpoint::server(server_config(&identity, "h3"), loopback()).unwrap();
        let address = endpoint.local_addr().unwrap();
        let users = Users::new().with_anyone(UserLimits::default());
        let mut proxy = server::Proxy::new(ProxyOptions::default(), users, Access::default()).unwrap();
        if let Some(carried) = carried {
            proxy = proxy.with_network(carried);
        }
        tokio::spawn(Server::new(endpoint.clone(), ProxyService::new(proxy.clone(), Nothing)).serve());
        Self { identity, address, proxy, network, sent, _endpoint: endpoint }
    }

    fn client(&self) -> Proxy {
        Proxy::new(self.config())
    }

    fn config(&self) -> ProxyConfig {
        let quic = config::client(self.identity.roots().unwrap(), ["h3"]).unwrap();
        let url = format!("https://localhost:{}/", self.address.port());
        ProxyConfig::new(&url, quic).unwrap().with_addresses([self.address])
    }

    /// Returns the next packet that arrives on the network.
    async fn sent(&mut self) -> Vec<u8> {
        within(self.sent.recv()).await.unwrap()
    }
}

/// A client's tunnel.
struct Tunnel {
    sender: IpSender,
    receiver: IpReceiver,
    /// Client that keeps the connection open.
    _proxy: Proxy,
}

impl Tunnel {
    async fn open(site: &Site) -> Self {
        Self::of(site.client()).await
    }

    async fn of(proxy: Proxy) -> Self {
        let (sender, receiver) = within(proxy.ip()).await.unwrap().split();
        Self { sender, receiver, _proxy: proxy }
    }

    /// Opens a tunnel, and requests these addresses. Returns those that are assigned.
    async fn assigned(site: &Site, wanted: &[&str]) -> (Self, Vec<String>) {
        let mut tunnel = Self::open(site).await;
        let addresses = tunnel.request(wanted).await;
        (tunnel, addresses)
    }

    /// Requests these addresses. Returns those that are assigned.
    async fn request(&mut self, wanted: &[&str]) -> Vec<String> {
        let prefixes: Vec<_> = wanted.iter().map(|prefix| prefix.parse().unwrap()).collect();
        self.sender.request(&prefixes).unwrap();
        self.addresses().await
    }

    async fn addresses(&mut self) -> Vec<String> {
        loop {
            if let IpEvent::Addresses(addresses) = self.event().await {
                return addresses.iter().map(|one| one.prefix.to_string()).collect();
            }
        }
    }

    async fn packet(&mut self) -> Bytes {
        match self.event().await {
            IpEvent::Packet(packet) => packet,
            event => panic!("{event:?}"),
        }
    }

    async fn event(&mut self) -> IpEvent {
        within(self.receiver.recv()).await.unwrap().unwrap()
    }
}

/// Builds a UDP packet of `len` bytes.
fn udp(from: &str, to: &str, len: usize, dont_fragment: bool) -> Vec<u8> {
    let (from, to): (IpAddr, IpAddr) = (from.parse().unwrap(), to.parse().unwrap());
    let mut packet = match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let mut head = vec![0x45, 0, 0, 0, 0, 0, if dont_fragment { 0x40 } else { 0 }, 0, 64, 17, 0, 0];
            head[2..4].copy_from_slice(&(len as u16).to_be_bytes());
            [head, from.octets().to_vec(), to.octets().to_vec()].concat()
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let mut head = vec![0x60, 0, 0, 0, 0, 0, 17, 64];
            head[4..6].copy_from_slice(&(len as u16 - 40).to_be_bytes());
            [head, from.octets().to_vec(), to.octets().to_vec()].concat()
        }
        _ => panic!("two families"),
    };
    packet.extend([0, 9, 0, 53]);
    packet.resize(len, 7);
    packet
}

#[tokio::test]
async fn packets_pass_between_a_client_and_the_network() {
    let mut site = Site::start(&["10.9.0.0/24", "fd00:9::/64"]);
    assert_eq!(
        site.network.gateways().iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["10.9.0.1/24", "fd00:9::1/64"]
    );
    let (mut tunnel, addresses) = Tunnel::assigned(&site, &["0.0.0.0/32", "::/128"]).await;
    assert_eq!(addresses, ["10.9.0.2/32", "fd00:9::2/128"]);
    for (own, other) in [("10.9.0.2", PUBLIC), ("fd00:9::2", "2600::1")] {
        let up = udp(own, other, 100, true);
        tunnel.sender.send(&up).unwrap();
        assert_eq!(site.sent().await, up);
        let down = udp(other, own, 100, true);
        site.network.deliver(&down);
        assert_eq!(tunnel.packet().await, down);
    }
    // A destination that no client has.
    site.network.deliver(&udp(PUBLIC, "10.9.0.3", 100, true));
    site.network.deliver(b"no packet");
    assert_eq!(site.network.drops().unassigned, 2);
    let totals = site.proxy.totals()["*"];
    assert_eq!((totals.flows, totals.sent, totals.received), (1, 200, 200));
}

#[tokio::test]
async fn a_client_that_requests_nothing_is_told_addresses_and_routes() {
    let site = Site::start(&["10.9.0.0/24"]);
    let mut tunnel = Tunnel::open(&site).await;
    let IpEvent::Routes(routes) = tunnel.event().await else { panic!("routes come first") };
    let networks: Vec<_> = routes.iter().flat_map(|range| range.networks()).collect();
    assert_eq!(networks.iter().map(ToString::to_string).collect::<Vec<_>>(), ["0.0.0.0/0"]);
    assert_eq!(tunnel.addresses().await, ["10.9.0.2/32"]);
}

#[tokio::test]
async fn foreign_sources_and_denied_destinations_are_dropped_and_counted() {
    let mut site = Site::start(&["10.9.0.0/24", "fd00:9::/64"]);
    let (mut tunnel, _) = Tunnel::assigned(&site, &["0.0.0.0/32", "::/128"]).await;
    for (from, to) in [("10.9.0.3", PUBLIC), ("192.0.2.1", PUBLIC), ("fd00:9::3", "2600::1")] {
        tunnel.sender.send(&udp(from, to, 100, true)).unwrap();
    }
    let denied = udp("10.9.0.2", PRIVATE, 100, true);
    tunnel.sender.send(&denied).unwrap();
    let report = tunnel.packet().await;
    assert_eq!(report[20..22], [3, 13], "administratively prohibited");
    assert_eq!(report[28..], denied[..]);
    let allowed = udp("10.9.0.2", PUBLIC, 100, true);
    tunnel.sender.send(&allowed).unwrap();
    // This is the first packet that arrives, so the others were dropped.
    assert_eq!(site.sent().await, allowed);
    let drops = site.network.drops();
    assert_eq!((drops.foreign, drops.denied), (3, 1));
    assert_eq!(site.proxy.totals()["*"].dropped, 4);
    // A replaced access list also holds for open tunnels.
    let access = Access::default().with_allow(["10.66.0.0/16".parse().unwrap()]);
    site.proxy.replace(Users::new().with_anyone(UserLimits::default()), access);
    tunnel.sender.send(&denied).unwrap();
    assert_eq!(site.sent().await, denied);
}

#[tokio::test]
async fn senders_learn_that_packets_are_too_big() {
    let mut site = Site::start(&["10.9.0.0/24", "fd00:9::/64"]);
    let (mut tunnel, _) = Tunnel::assigned(&site, &["0.0.0.0/32", "::/128"]).await;
    // From the network: the ICMP message is sent back to it, with a length that fits.
    for (own, other, kind) in [("10.9.0.2", PUBLIC, [3, 4]), ("fd00:9::2", "2600::1", [2, 0])] {
        site.network.deliver(&udp(other, own, 2_000, true));
        let report = site.sent().await;
        let header = PacketHeader::parse(&report).unwrap();
        assert_eq!(header.destination.to_string(), other);
        assert_eq!(report[header.transport..header.transport + 2], kind);
        let mtu = &report[header.transport + 6..header.transport + 8];
        let mtu = usize::from(u16::from_be_bytes([mtu[0], mtu[1]]));
        assert!((1_280..1_500).contains(&mtu), "{mtu}");
        let fitting = udp(other, own, mtu, true);
        site.network.deliver(&fitting);
        assert_eq!(tunnel.packet().await, fitting);
    }
    assert_eq!(site.network.drops().too_big, 2);
    // From the client.
    let SendPacketError::TooLarge { mtu } =
        tunnel.sender.send(&udp("10.9.0.2", PUBLIC, 2_000, true)).unwrap_err()
    else {
        panic!("it does not fit");
    };
    assert!((1_280..1_500).contains(&mtu), "{mtu}");
    assert!(matches!(tunnel.sender.send(b"no packet"), Err(SendPacketError::Invalid)));
    // Packets that routers may fragment pass as capsules, both ways.
    let up = udp("10.9.0.2", PUBLIC, 9_000, false);
    tunnel.sender.send(&up).unwrap();
    assert_eq!(site.sent().await, up);
    let down = udp(PUBLIC, "10.9.0.2", 9_000, false);
    site.network.deliver(&down);
    assert_eq!(tunnel.packet().await, down);
}

#[tokio::test]
async fn a_user_takes_an_address_to_the_next_tunnel() {
    let site = Site::start(&["10.9.0.0/24"]);
    let mut users = Users::new().with_anyone(UserLimits::default());
    users.add(User::new("alice", &hash_secret(b"tea").unwrap()).unwrap()).unwrap();
    site.proxy.replace(users, Access::default());
    let alice = || Proxy::new(site.config().with_credentials(Credentials::bearer("alice.tea").unwrap()));
    let mut first = Tunnel::of(alice()).await;
    assert_eq!(first.request(&["0.0.0.0/32"]).await, ["10.9.0.2/32"]);
    // Clients without credentials get other addresses.
    let (_nobody, addresses) = Tunnel::assigned(&site, &["10.9.0.2/32"]).await;
    assert_eq!(addresses, ["10.9.0.3/32"]);
    let (_other, addresses) = Tunnel::assigned(&site, &["10.9.0.3/32"]).await;
    assert_eq!(addresses, ["10.9.0.4/32"]);
    let mut second = Tunnel::of(alice()).await;
    assert_eq!(second.request(&["10.9.0.2/32"]).await, ["10.9.0.2/32"]);
    assert_eq!(first.addresses().await, Vec::<String>::new());
    let down = udp(PUBLIC, "10.9.0.2", 100, true);
    site.network.deliver(&down);
    assert_eq!(second.packet().await, down);
    // The first tunnel can no longer use the address.
    first.sender.send(&udp("10.9.0.2", PUBLIC, 100, true)).unwrap();
    drop(second);
    let wait = async {
        while site.proxy.totals()["alice"].flows > 1 || site.network.drops().foreign == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    within(wait).await;
    // The address is free again.
    site.network.deliver(&down);
    assert_eq!(site.network.drops().unassigned, 1);
}

#[tokio::test]
async fn pools_and_tunnels_have_limits() {
    // The pool has one address for clients, so a second tunnel gets none.
    let site = Site::start(&["10.9.0.0/30"]);
    let (_first, addresses) = Tunnel::assigned(&site, &["0.0.0.0/32", "::/128"]).await;
    assert_eq!(addresses, ["10.9.0.2/32", "::/128"], "there are no IPv6 addresses");
    let (_second, addresses) = Tunnel::assigned(&site, &["0.0.0.0/32"]).await;
    assert_eq!(addresses, ["0.0.0.0/32"]);
    // Of two pools, the one with the requested address assigns it.
    let site = Site::start(&["10.9.0.0/24", "10.10.0.0/24"]);
    let (_tunnel, addresses) = Tunnel::assigned(&site, &["10.10.0.7/32", "10.11.0.7/32"]).await;
    assert_eq!(addresses, ["10.10.0.7/32", "10.9.0.2/32"]);
    // A tunnel has at most MAX_ADDRESSES addresses.
    let site = Site::start(&["fd00:9::/64"]);
    let (_tunnel, addresses) = Tunnel::assigned(&site, &["::/128"; 12]).await;
    let assigned = addresses.iter().filter(|address| *address != "::/128").count();
    assert_eq!((assigned, addresses.len()), (8, 12));
}

#[tokio::test]
async fn requests_have_different_identifiers() {
    let site = Site::start(&["10.9.0.0/24"]);
    let mut tunnel = Tunnel::open(&site).await;
    for (prefixes, expected) in [(vec!["0.0.0.0/32"; 2], vec![1, 2]), (vec!["0.0.0.0/32"], vec![3, 0, 0])] {
        let prefixes: Vec<_> = prefixes.iter().map(|prefix| prefix.parse().unwrap()).collect();
        tunnel.sender.request(&prefixes).unwrap();
        let requests: Vec<_> = loop {
            if let IpEvent::Addresses(addresses) = tunnel.event().await {
                break addresses.iter().map(|address| address.request).collect();
            }
        };
        assert_eq!(requests, expected);
    }
}

#[tokio::test]
async fn packets_do_not_keep_capsules_from_being_received() {
    let site = Site::start(&["10.9.0.0/24"]);
    let (mut tunnel, _) = Tunnel::assigned(&site, &["0.0.0.0/32"]).await;
    let packet = udp(PUBLIC, "10.9.0.2", 100, true);
    for _ in 0..400 {
        site.network.deliver(&packet);
    }
    tunnel.sender.request(&["0.0.0.0/32".parse().unwrap()]).unwrap();
    // The packets and the capsule arrive while the client does not read.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let mut packets = 0;
    while let IpEvent::Packet(_) = tunnel.event().await {
        packets += 1;
    }
    // MAX_BURST in crates/anabranch/src/proxy/client/ip.rs.
    assert!(packets <= 64, "{packets}");
}

#[tokio::test]
async fn requests_that_the_stream_has_no_room_for_are_refused() {
    let site = Site::start(&["fd00:9::/64"]);
    let tunnel = Tunnel::open(&site).await;
    let prefixes = vec!["::/128".parse().unwrap(); 1_000];
    // No task runs meanwhile: MAX_WAITING_CAPSULES wait behind those that the stream's send buffer has taken.
    let sent = (0..10_000).take_while(|_| tunnel.sender.request(&prefixes).is_ok()).count();
    assert!((16..10_000).contains(&sent), "{sent}");
    assert!(matches!(tunnel.sender.request(&prefixes), Err(SendPacketError::Full)));
    assert!(matches!(tunnel.sender.request(&[]), Err(SendPacketError::Invalid)));
}

#[tokio::test]
async fn a_proxy_without_a_network_carries_no_packets() {
    let (sink, sent) = unbounded_channel();
    let network = IpNetwork::new([], Sink(sink)).unwrap();
    let site = Site::with(None, network, sent);
    let error = within(site.client().ip()).await.unwrap_err();
    assert!(matches!(error, TunnelError::NoIp), "{error}");
}

/// Opens a tunnel without the client, and sends these bytes on its stream.
async fn send_raw(site: &Site, bytes: &'static [u8]) -> (SendHalf, RecvHalf) {
    let mut endpoint = Endpoint::client(loopback()).unwrap();
    endpoint.set_default_client_config(config::client(site.identity.roots().unwrap(), ["h3"]).unwrap());
    let quic = within(endpoint.connect(site.address, "localhost").unwrap()).await.unwrap();
    let connection = Connection::new(quic, Config::default());
    let request = Request::connect("https://localhost/.well-known/masque/ip/*/*/");
    let request = request.extension(Protocol::CONNECT_IP).body(()).unwrap();
    let (mut send, mut receive) = within(connection.request(request)).await.unwrap();
    let response = within(receive.response()).await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["capsule-protocol"], "?1");
    send.write(Bytes::from_static(bytes)).await.unwrap();
    (send, receive)
}

#[tokio::test]
async fn malformed_capsules_abort_the_tunnel() {
    let site = Site::start(&["10.9.0.0/24"]);
    for bad in [
        // No request, a request with the ID 0, an IP version that does not exist, a truncated address.
        &[2, 0][..],
        &[2, 7, 0, 4, 0, 0, 0, 0, 32],
        &[2, 7, 1, 5, 0, 0, 0, 0, 32],
        &[2, 3, 1, 4, 0],
        // A range that ends before it begins.
        &[3, 10, 4, 9, 0, 0, 0, 8, 0, 0, 0, 0],
    ] {
        let (_send, mut receive) = send_raw(&site, bad).await;
        let aborted = async {
            loop {
                match receive.read_chunk(1_000).await {
                    Ok(Some(_)) => {}
                    Ok(None) => panic!("{bad:?} is accepted"),
                    Err(error) => return error,
                }
            }
        };
        let error = within(aborted).await;
        assert!(matches!(error, Error::Reset(Code::MESSAGE_ERROR)), "{bad:?}: {error:?}");
    }
    assert_eq!(site.network.drops().foreign, 0);
    let gone = async {
        while site.proxy.totals()["*"].flows > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    within(gone).await;
}
