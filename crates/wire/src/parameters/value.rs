//! Types of the values of transport parameters.

use core::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};

use super::{ParameterError, require};
use crate::cursor::Reader;
use crate::varint::push_varint;
use crate::version::Version;
use crate::{ConnectionId, ResetToken};

/// Maximum number of a peer's available versions that are stored. The first ones, which the peer prefers, are
/// kept.
pub const MAX_AVAILABLE_VERSIONS: usize = 32;

/// Value of preferred_address (RFC 9000 §18.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreferredAddress {
    /// IPv4 address.
    pub v4: Option<SocketAddrV4>,
    /// IPv6 address.
    pub v6: Option<SocketAddrV6>,
    /// Connection ID for this address, with sequence number 1; not empty.
    pub cid: ConnectionId,
    /// Stateless reset token of the connection ID.
    pub token: ResetToken,
}

/// Value of version_information (RFC 9368 §3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionInformation {
    /// Chosen Version: the version in use.
    pub chosen: Version,
    /// Available Versions. From a client: versions that are compatible with its first flight, most preferred
    /// first. From a server: its Fully Deployed Versions (RFC 9368 §3).
    pub available: Vec<Version>,
}

/// Value of a transport parameter. `read` gets exactly the bytes of the value; unread bytes are an error.
pub(super) trait Value: Sized {
    fn read(reader: &mut Reader<'_>) -> Result<Self, ParameterError>;
    fn write(&self, out: &mut Vec<u8>);
}

impl<T: Value> Value for Option<T> {
    fn read(reader: &mut Reader<'_>) -> Result<Self, ParameterError> {
        T::read(reader).map(Some)
    }

    fn write(&self, out: &mut Vec<u8>) {
        if let Some(value) = self {
            value.write(out);
        }
    }
}

impl Value for bool {
    fn read(_: &mut Reader<'_>) -> Result<Self, ParameterError> {
        Ok(true)
    }

    fn write(&self, _: &mut Vec<u8>) {}
}

impl Value for u64 {
    fn read(reader: &mut Reader<'_>) -> Result<Self, ParameterError> {
        Ok(reader.varint()?)
    }

    fn write(&self, out: &mut Vec<u8>) {
        push_varint(out, *self);
    }
}

impl Value for u32 {
    fn read(reader: &mut Reader<'_>) -> Result<Self, ParameterError> {
        // RFC 10069: initial_max_path_id is at most 2^32 - 1.
        Self::try_from(reader.varint()?).map_err(|_| ParameterError::new("path ID above 2^32 - 1"))
    }

    fn write(&self, out: &mut Vec<u8>) {
        push_varint(out, u64::from(*self));
    }
}

impl Value for ConnectionId {
    fn read(reader: &mut Reader<'_>) -> Result<Self, ParameterError> {
        Self::new(reader.rest()).ok_or(ParameterError::new("connection ID of more than 20 bytes"))
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }
}

impl Value for ResetToken {
    fn read(reader: &mut Reader<'_>) -> Result<Self, ParameterError> {
        Ok(Self(reader.array()?))
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }
}

impl Value for PreferredAddress {
    fn read(reader: &mut Reader<'_>) -> Result<Self, ParameterError> {
        let v4 = SocketAddrV4::new(Ipv4Addr::from(reader.u32()?), reader.u16()?);
        let v6 = SocketAddrV6::new(Ipv6Addr::from(reader.array::<16>()?), reader.u16()?, 0, 0);
        let cid_len = reader.u8()?;
        // RFC 9000 §18.2
        require(cid_len > 0, "preferred_address without a connection ID")?;
        let cid = ConnectionId::new(reader.bytes(cid_len.into())?);
        Ok(Self {
            // RFC 9000 §18.2: an address and port of zeros mean that no address is given.
            v4: (*v4.ip() != Ipv4Addr::UNSPECIFIED || v4.port() != 0).then_some(v4),
            v6: (*v6.ip() != Ipv6Addr::UNSPECIFIED || v6.port() != 0).then_some(v6),
            cid: cid.ok_or(ParameterError::new("connection ID of more than 20 bytes"))?,
            token: Value::read(reader)?,
        })
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.v4.map_or([0; 4], |v4| v4.ip().octets()));
        out.extend_from_slice(&self.v4.map_or(0, |v4| v4.port()).to_be_bytes());
        out.extend_from_slice(&self.v6.map_or([0; 16], |v6| v6.ip().octets()));
        out.extend_from_slice(&self.v6.map_or(0, |v6| v6.port()).to_be_bytes());
        out.push(self.cid.len() as u8);
        self.cid.write(out);
        self.token.write(out);
    }
}

impl Value for VersionInformation {
    fn read(reader: &mut Reader<'_>) -> Result<Self, ParameterError> {
        let chosen = read_version(reader)?;
        let mut available = Vec::new();
        while !reader.is_empty() {
            let version = read_version(reader)?;
            if available.len() < MAX_AVAILABLE_VERSIONS {
                available.push(version);
            }
        }
        Ok(Self { chosen, available })
    }

    fn write(&self, out: &mut Vec<u8>) {
        for version in core::iter::once(&self.chosen).chain(&self.available) {
            out.extend_from_slice(&version.0.to_be_bytes());
        }
    }
}

fn read_version(reader: &mut Reader<'_>) -> Result<Version, ParameterError> {
    let version = Version(reader.u32()?);
    // RFC 9368 §4
    require(version != Version::NEGOTIATION, "version 0 in version_information")?;
    Ok(version)
}
