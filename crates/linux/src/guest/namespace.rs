//! Network namespaces. Each serves as a host or a router.

use std::fs::{self, File};
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;
use nix::sched::{CloneFlags, setns, unshare};

use super::generic::Family;
use super::netlink::Netlink;

/// Index of the loopback interface in every namespace.
const LOOPBACK: u32 = 1;

/// A network namespace.
pub(super) struct Namespace {
    file: File,
    pub(super) route: Netlink,
}

/// One end of a veth pair.
pub(super) struct End<'a> {
    pub(super) namespace: &'a mut Namespace,
    pub(super) name: &'a str,
    pub(super) index: u32,
    pub(super) address: Ipv4Addr,
}

impl Namespace {
    /// Creates a namespace and moves this thread into it. Its loopback interface is up, and IPv6 is disabled,
    /// so that the kernel sends no packets of its own.
    pub(super) fn create() -> io::Result<Self> {
        unshare(CloneFlags::CLONE_NEWNET)?;
        let file = File::open("/proc/thread-self/ns/net")?;
        let mut route = Netlink::open(NETLINK_ROUTE)?;
        for conf in ["all", "default"] {
            set(&format!("ipv6/conf/{conf}/disable_ipv6"), "1").or_else(absent)?;
        }
        up(&mut route, LOOPBACK)?;
        Ok(Self { file, route })
    }

    /// Moves this thread into the namespace.
    pub(super) fn enter(&self) -> io::Result<()> {
        setns(&self.file, CloneFlags::CLONE_NEWNET).map_err(io::Error::from)
    }

    /// Adds `address` to the device `index`.
    pub(super) fn add_address(&mut self, index: u32, address: Ipv4Addr, prefix: u8) -> io::Result<()> {
        let mut message = AddressMessage::default();
        message.header.family = AddressFamily::Inet;
        message.header.prefix_len = prefix;
        message.header.index = index;
        message.attributes =
            vec![AddressAttribute::Local(address.into()), AddressAttribute::Address(address.into())];
        self.route.change(RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Adds `address` to the loopback interface.
    pub(super) fn own(&mut self, address: Ipv4Addr) -> io::Result<()> {
        self.add_address(LOOPBACK, address, 32)
    }

    /// Adds a route to `destination` through the device `index`. Of several routes, the one with the lowest
    /// `priority` applies.
    pub(super) fn add_route(
        &mut self,
        (destination, prefix): (Ipv4Addr, u8),
        gateway: Ipv4Addr,
        index: u32,
        priority: u32,
    ) -> io::Result<()> {
        let mut message = RouteMessage::default();
        message.header = RouteHeader {
            address_family: AddressFamily::Inet,
            destination_prefix_length: prefix,
            table: RouteHeader::RT_TABLE_MAIN,
            protocol: RouteProtocol::Static,
            scope: RouteScope::Universe,
            kind: RouteType::Unicast,
            ..RouteHeader::default()
        };
        message.attributes = vec![
            RouteAttribute::Destination(RouteAddress::Inet(destination)),
            RouteAttribute::Gateway(RouteAddress::Inet(gateway)),
            RouteAttribute::Oif(index),
            RouteAttribute::Priority(priority),
        ];
        self.route.change(RouteNetlinkMessage::NewRoute(message), NLM_F_CREATE | NLM_F_EXCL)
    }
}

/// Connects two namespaces. Each end knows the hardware address of the other and sends segments one by one.
pub(super) fn connect(one: End<'_>, other: End<'_>) -> io::Result<()> {
    let mut peer = LinkMessage::default();
    peer.header.index = other.index;
    peer.attributes = vec![
        LinkAttribute::IfName(other.name.to_owned()),
        LinkAttribute::Address(hardware(other.address)),
        LinkAttribute::NetNsFd(other.namespace.file.as_raw_fd()),
    ];
    let mut message = LinkMessage::default();
    message.header.index = one.index;
    message.attributes = vec![
        LinkAttribute::IfName(one.name.to_owned()),
        LinkAttribute::Address(hardware(one.address)),
        LinkAttribute::NumTxQueues(1),
        LinkAttribute::NumRxQueues(1),
        LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::Veth),
            LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(peer))),
        ]),
    ];
    one.namespace.route.change(RouteNetlinkMessage::NewLink(message), NLM_F_CREATE | NLM_F_EXCL)?;
    let ends = [(one.address, other.address), (other.address, one.address)];
    for (end, (own, peer)) in [one, other].into_iter().zip(ends) {
        end.namespace.enter()?;
        Family::ethtool()?.segment(end.name)?;
        up(&mut end.namespace.route, end.index)?;
        end.namespace.add_address(end.index, own, 24)?;
        know(&mut end.namespace.route, end.index, peer)?;
    }
    Ok(())
}

/// Writes a network setting of this thread's namespace.
pub(super) fn set(name: &str, value: &str) -> io::Result<()> {
    let path = format!("/proc/sys/net/{name}");
    fs::write(&path, value).map_err(|error| io::Error::new(error.kind(), format!("{path}: {error}")))
}

/// Returns success for the error of a setting that does not exist.
fn absent(error: io::Error) -> io::Result<()> {
    match error.kind() {
        io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    }
}

/// Returns the hardware address of the device with this IP address. The address is locally administered and
/// follows from the IP address, so no host needs ARP to find it.
fn hardware(address: Ipv4Addr) -> Vec<u8> {
    [&[2, 0][..], &address.octets()].concat()
}

fn up(route: &mut Netlink, index: u32) -> io::Result<()> {
    let mut message = LinkMessage::default();
    message.header.index = index;
    message.header.flags = LinkFlags::Up;
    message.header.change_mask = LinkFlags::Up;
    route.change(RouteNetlinkMessage::SetLink(message), 0)
}

/// Adds a permanent neighbour, so that no packet waits for an answer to ARP.
fn know(route: &mut Netlink, index: u32, address: Ipv4Addr) -> io::Result<()> {
    let mut message = NeighbourMessage::default();
    message.header.family = AddressFamily::Inet;
    message.header.ifindex = index;
    message.header.state = NeighbourState::Permanent;
    message.attributes = vec![
        NeighbourAttribute::Destination(NeighbourAddress::Inet(address)),
        NeighbourAttribute::LinkLayerAddress(hardware(address)),
    ];
    route.change(RouteNetlinkMessage::NewNeighbour(message), NLM_F_CREATE | NLM_F_EXCL)
}
