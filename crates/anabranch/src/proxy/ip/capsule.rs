//! Capsules of CONNECT-IP (RFC 9484 §4.7).

use std::net::IpAddr;

use anabranch_http3::capsule::CapsuleType;
use anabranch_wire::{Direction, Reader, push_varint};
use ipnet::IpNet;

use super::address::{AssignedAddress, IpRange};

/// ADDRESS_ASSIGN (RFC 9484 §4.7.1).
pub(crate) const ADDRESS_ASSIGN: CapsuleType = CapsuleType(0x01);
/// ADDRESS_REQUEST (RFC 9484 §4.7.2).
pub(crate) const ADDRESS_REQUEST: CapsuleType = CapsuleType(0x02);
/// ROUTE_ADVERTISEMENT (RFC 9484 §4.7.3).
pub(crate) const ROUTE_ADVERTISEMENT: CapsuleType = CapsuleType(0x03);
/// Maximum number of addresses or ranges in one capsule. This endpoint treats a capsule with more as
/// malformed.
pub(crate) const MAX_ENTRIES: usize = 1_024;

/// Error of a capsule that violates RFC 9484 or has too many entries. The receiver aborts the tunnel (RFC
/// 9297 §3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a capsule is malformed")]
pub(crate) struct MalformedCapsule;

impl From<anabranch_wire::Malformed> for MalformedCapsule {
    fn from(_: anabranch_wire::Malformed) -> Self {
        Self
    }
}

impl AssignedAddress {
    /// Encodes a capsule of type ADDRESS_ASSIGN or ADDRESS_REQUEST.
    pub(crate) fn capsule(kind: CapsuleType, addresses: &[Self]) -> Vec<u8> {
        let mut value = Vec::new();
        for entry in addresses {
            push_varint(&mut value, entry.request);
            push_address(&mut value, entry.prefix.addr(), true);
            value.push(entry.prefix.prefix_len());
        }
        encode(kind, value)
    }

    /// Parses the value of a capsule of type ADDRESS_ASSIGN or ADDRESS_REQUEST.
    pub(crate) fn parse(value: &[u8]) -> Result<Vec<Self>, MalformedCapsule> {
        let mut reader = Reader::new(value, Direction::Forward);
        let mut addresses = Vec::new();
        while !reader.is_empty() {
            let request = reader.varint()?;
            let version = reader.u8()?;
            let address = address(&mut reader, version)?;
            let prefix = IpNet::new(address, reader.u8()?).map_err(|_| MalformedCapsule)?;
            if addresses.len() == MAX_ENTRIES {
                return Err(MalformedCapsule);
            }
            addresses.push(Self { request, prefix });
        }
        Ok(addresses)
    }
}

impl IpRange {
    /// Encodes a capsule of type ROUTE_ADVERTISEMENT.
    pub(crate) fn capsule(ranges: &[Self]) -> Vec<u8> {
        let mut value = Vec::new();
        for range in ranges {
            push_address(&mut value, range.start, true);
            push_address(&mut value, range.end, false);
            value.push(range.protocol);
        }
        encode(ROUTE_ADVERTISEMENT, value)
    }

    /// Parses the value of a capsule of type ROUTE_ADVERTISEMENT.
    pub(crate) fn parse(value: &[u8]) -> Result<Vec<Self>, MalformedCapsule> {
        let mut reader = Reader::new(value, Direction::Forward);
        let mut ranges: Vec<Self> = Vec::new();
        while !reader.is_empty() {
            let version = reader.u8()?;
            let (start, end) = (address(&mut reader, version)?, address(&mut reader, version)?);
            let range = Self { start, end, protocol: reader.u8()? };
            if ranges.len() == MAX_ENTRIES || !range.may_follow(ranges.last()) {
                return Err(MalformedCapsule);
            }
            ranges.push(range);
        }
        Ok(ranges)
    }
}

fn encode(kind: CapsuleType, value: Vec<u8>) -> Vec<u8> {
    let mut capsule = Vec::with_capacity(value.len() + 9);
    push_varint(&mut capsule, kind.0);
    push_varint(&mut capsule, value.len() as u64);
    capsule.extend(value);
    capsule
}

fn push_address(out: &mut Vec<u8>, address: IpAddr, with_version: bool) {
    if with_version {
        out.push(if address.is_ipv4() { 4 } else { 6 });
    }
    match address {
        IpAddr::V4(address) => out.extend(address.octets()),
        IpAddr::V6(address) => out.extend(address.octets()),
    }
}

fn address(reader: &mut Reader<'_>, version: u8) -> Result<IpAddr, MalformedCapsule> {
    match version {
        4 => Ok(IpAddr::from(reader.array::<4>()?)),
        6 => Ok(IpAddr::from(reader.array::<16>()?)),
        _ => Err(MalformedCapsule),
    }
}

#[cfg(test)]
mod tests;
