//! Types of the fields in frames.

use core::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};

use super::{AddressFlags, Fault};
use crate::cursor::{Reader, Region};
use crate::varint::{VarInt, varint_len};
use crate::{ConnectionId, EcnCounts, PathId, ResetToken, StreamId};

/// Field of a frame. `write` fills exactly `size` bytes.
pub(super) trait Field<'a>: Copy {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Fault>;
    fn size(self) -> usize;
    fn write(self, region: &mut Region<'_>);
}

/// Returns the size of a byte string's length field. It is at least two bytes, so that a writer can fill in
/// the length after the data.
#[inline]
pub(super) const fn length_len(len: usize) -> usize {
    if len <= MAX_SHORT_LEN { 2 } else { 4 }
}

/// Maximum length of a byte string whose length field has two bytes.
pub(super) const MAX_SHORT_LEN: usize = 0x3fff;

impl<'a> Field<'a> for u64 {
    #[inline]
    fn read(reader: &mut Reader<'a>) -> Result<Self, Fault> {
        Ok(reader.varint()?)
    }

    #[inline]
    fn size(self) -> usize {
        varint_len(self)
    }

    #[inline]
    fn write(self, region: &mut Region<'_>) {
        region.varint(self);
    }
}

impl<'a> Field<'a> for VarInt {
    #[inline]
    fn read(reader: &mut Reader<'a>) -> Result<Self, Fault> {
        Ok(reader.var_int()?)
    }

    #[inline]
    fn size(self) -> usize {
        varint_len(self.get())
    }

    #[inline]
    fn write(self, region: &mut Region<'_>) {
        region.varint(self.get());
    }
}

impl<'a> Field<'a> for StreamId {
    #[inline]
    fn read(reader: &mut Reader<'a>) -> Result<Self, Fault> {
        Ok(Self::from_u64(reader.varint()?))
    }

    fn size(self) -> usize {
        varint_len(self.as_u64())
    }

    fn write(self, region: &mut Region<'_>) {
        region.varint(self.as_u64());
    }
}

impl<'a> Field<'a> for PathId {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Fault> {
        // RFC 10069: a larger ID exceeds every maximum that can be announced.
        let path = u32::try_from(reader.varint()?);
        path.map(Self).map_err(|_| Fault::violation("path ID above 2^32 - 1"))
    }

    fn size(self) -> usize {
        varint_len(u64::from(self.0))
    }

    fn write(self, region: &mut Region<'_>) {
        region.varint(u64::from(self.0));
    }
}

/// Error for a length that exceeds the address space, and therefore the packet.
pub(super) const TOO_LONG: Fault = Fault::encoding("length exceeds the packet");

impl<'a> Field<'a> for &'a [u8] {
    #[inline]
    fn read(reader: &mut Reader<'a>) -> Result<Self, Fault> {
        let len = usize::try_from(reader.varint()?);
        Ok(reader.bytes(len.map_err(|_| TOO_LONG)?)?)
    }

    fn size(self) -> usize {
        length_len(self.len()) + self.len()
    }

    fn write(self, region: &mut Region<'_>) {
        region.varint_of(self.len() as u64, length_len(self.len()));
        region.take(self.len()).copy_from_slice(self);
    }
}

impl<'a> Field<'a> for [u8; 8] {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Fault> {
        Ok(reader.array()?)
    }

    fn size(self) -> usize {
        self.len()
    }

    fn write(self, region: &mut Region<'_>) {
        region.take(self.len()).copy_from_slice(&self);
    }
}

impl<'a> Field<'a> for ConnectionId {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Fault> {
        let len = reader.u8()?;
        // RFC 9000 §19.15: 1 to 20 bytes.
        if len == 0 {
            return Err(Fault::encoding("connection ID is empty"));
        }
        Self::new(reader.bytes(usize::from(len))?)
            .ok_or(Fault::encoding("connection ID of more than 20 bytes"))
    }

    fn size(self) -> usize {
        1 + self.len()
    }

    fn write(self, region: &mut Region<'_>) {
        region.take(1).fill(self.len() as u8);
        region.take(self.len()).copy_from_slice(&self);
    }
}

impl<'a> Field<'a> for ResetToken {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Fault> {
        Ok(Self(reader.array()?))
    }

    fn size(self) -> usize {
        self.0.len()
    }

    fn write(self, region: &mut Region<'_>) {
        region.take(self.0.len()).copy_from_slice(&self.0);
    }
}

impl<'a> Field<'a> for EcnCounts {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Fault> {
        Ok(Self { ect0: reader.varint()?, ect1: reader.varint()?, ce: reader.varint()? })
    }

    fn size(self) -> usize {
        varint_len(self.ect0) + varint_len(self.ect1) + varint_len(self.ce)
    }

    fn write(self, region: &mut Region<'_>) {
        region.varint(self.ect0);
        region.varint(self.ect1);
        region.varint(self.ce);
    }
}

impl<'a> Field<'a> for AddressFlags {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Fault> {
        let bits = reader.u8()?;
        Ok(Self { preferred: bits & 0x80 != 0, retire: bits & 0x40 != 0 })
    }

    fn size(self) -> usize {
        1
    }

    fn write(self, region: &mut Region<'_>) {
        region.take(1).fill(u8::from(self.preferred) << 7 | u8::from(self.retire) << 6);
    }
}

impl<'a> Field<'a> for SocketAddrV4 {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Fault> {
        let bytes: [u8; 6] = reader.array()?;
        let [a, b, c, d, port @ ..] = bytes;
        Ok(Self::new(Ipv4Addr::new(a, b, c, d), u16::from_be_bytes(port)))
    }

    fn size(self) -> usize {
        6
    }

    fn write(self, region: &mut Region<'_>) {
        let bytes = region.take(6);
        bytes[..4].copy_from_slice(&self.ip().octets());
        bytes[4..].copy_from_slice(&self.port().to_be_bytes());
    }
}

impl<'a> Field<'a> for SocketAddrV6 {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Fault> {
        let bytes: [u8; 18] = reader.array()?;
        let mut ip = [0; 16];
        ip.copy_from_slice(&bytes[..16]);
        Ok(Self::new(Ipv6Addr::from(ip), u16::from_be_bytes([bytes[16], bytes[17]]), 0, 0))
    }

    fn size(self) -> usize {
        18
    }

    fn write(self, region: &mut Region<'_>) {
        let bytes = region.take(18);
        bytes[..16].copy_from_slice(&self.ip().octets());
        bytes[16..].copy_from_slice(&self.port().to_be_bytes());
    }
}
