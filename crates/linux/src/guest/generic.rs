//! Families of generic netlink: the path manager of Multipath TCP, and features of devices.

use std::io;
use std::net::Ipv4Addr;

use netlink_packet_core::{DefaultNla, NLM_F_ACK, NlaBuffer, NlasIterator};
use netlink_sys::protocols::NETLINK_GENERIC;

use super::netlink::{Message, Netlink, attribute, bytes, nested, text};

/// Type of messages to the generic netlink controller, which assigns the types of all other families.
const CONTROLLER: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
/// Number of bytes of the header: command, version, two reserved bytes.
const HEADER: usize = 4;

/// Attributes and commands of `mptcp_pm`.
mod pm {
    pub(super) const ADD_ADDR: u8 = 1;
    pub(super) const ATTR_ADDR: u16 = 1;
    pub(super) const ADDR_FAMILY: u16 = 1;
    pub(super) const ADDR_ADDR4: u16 = 3;
    pub(super) const ADDR_FLAGS: u16 = 6;
    pub(super) const ADDR_IF_IDX: u16 = 7;
    pub(super) const FLAG_SUBFLOW: u32 = 1 << 1;
    pub(super) const AF_INET: u16 = 2;
}

/// Attributes and commands of `ethtool`.
mod ethtool {
    pub(super) const FEATURES_SET: u8 = 12;
    pub(super) const FEATURES_HEADER: u16 = 1;
    pub(super) const HEADER_DEV_NAME: u16 = 2;
    pub(super) const FEATURES_WANTED: u16 = 3;
    pub(super) const BITSET_BITS: u16 = 3;
    pub(super) const BIT: u16 = 1;
    pub(super) const BIT_NAME: u16 = 2;
}

/// Names of the offloads with which several segments pass through a device as one packet.
const OFFLOADS: [&str; 5] = [
    "tx-tcp-segmentation",
    "tx-tcp-ecn-segmentation",
    "tx-tcp-mangleid-segmentation",
    "tx-generic-segmentation",
    "rx-gro",
];

/// Family of generic netlink, with the number that this kernel has assigned to it.
pub(super) struct Family {
    netlink: Netlink,
    id: u16,
}

impl Family {
    fn open(name: &str) -> io::Result<Self> {
        let mut netlink = Netlink::open(NETLINK_GENERIC)?;
        let asked = message(CONTROLLER, GET_FAMILY, &[attribute(FAMILY_NAME, text(name))]);
        let absent = || io::Error::other(format!("the kernel has no netlink family {name}"));
        for answer in netlink.ask(asked, NLM_F_ACK)? {
            for entry in NlasIterator::new(answer.body.get(HEADER..).unwrap_or_default()) {
                let entry: NlaBuffer<&[u8]> = entry.map_err(io::Error::other)?;
                if let (FAMILY_ID, Ok(id)) = (entry.kind(), entry.value().try_into()) {
                    return Ok(Self { netlink, id: u16::from_ne_bytes(id) });
                }
            }
        }
        Err(absent())
    }

    /// Configures Multipath TCP in this thread's namespace to open a subflow from `address`, through the
    /// device `index`.
    pub(super) fn add_subflow(address: Ipv4Addr, index: u32) -> io::Result<()> {
        let mut family = Self::open("mptcp_pm")?;
        let endpoint = [
            attribute(pm::ADDR_FAMILY, pm::AF_INET.to_ne_bytes()),
            attribute(pm::ADDR_ADDR4, address.octets()),
            attribute(pm::ADDR_IF_IDX, index.to_ne_bytes()),
            attribute(pm::ADDR_FLAGS, pm::FLAG_SUBFLOW.to_ne_bytes()),
        ];
        let message = message(family.id, pm::ADD_ADDR, &[nested(pm::ATTR_ADDR, &endpoint)]);
        family.netlink.change(message, 0)
    }

    /// Opens the family for the features of devices.
    pub(super) fn ethtool() -> io::Result<Self> {
        Self::open("ethtool")
    }

    /// Disables the offloads of the device `name`, so that each segment passes through it separately.
    pub(super) fn segment(&mut self, name: &str) -> io::Result<()> {
        let off = |feature: &&str| nested(ethtool::BIT, &[attribute(ethtool::BIT_NAME, text(feature))]);
        let bits: Vec<DefaultNla> = OFFLOADS.iter().map(off).collect();
        let attributes = [
            nested(ethtool::FEATURES_HEADER, &[attribute(ethtool::HEADER_DEV_NAME, text(name))]),
            nested(ethtool::FEATURES_WANTED, &[nested(ethtool::BITSET_BITS, &bits)]),
        ];
        self.netlink.change(message(self.id, ethtool::FEATURES_SET, &attributes), 0)
    }
}

fn message(kind: u16, command: u8, attributes: &[DefaultNla]) -> Message {
    Message { kind, body: [&[command, 1, 0, 0][..], &bytes(attributes)].concat() }
}
