//! Unprotected packets: Retry (RFC 9000 §17.2.5) and Version Negotiation (RFC 8999 §6).

use super::{FIXED, LONG, PacketKind};
use crate::ConnectionId;
use crate::version::{Format, Version};

/// Maximum number of versions that are read from a Version Negotiation packet. They start at
/// [`Protected::pn_offset`](crate::Protected::pn_offset).
pub const MAX_OFFERED_VERSIONS: usize = 64;

/// Appends a Retry packet without its integrity tag. The low bits of `seed` fill the unused bits.
pub fn write_retry(
    format: &Format,
    out: &mut Vec<u8>,
    dcid: &ConnectionId,
    scid: &ConnectionId,
    token: &[u8],
    seed: u8,
) {
    let kind = format.long_type(PacketKind::Retry).unwrap_or_default();
    out.push(LONG | FIXED | kind << 4 | seed & 0x0f);
    out.extend_from_slice(&format.version.0.to_be_bytes());
    push_cid(out, dcid);
    push_cid(out, scid);
    out.extend_from_slice(token);
}

/// Appends a Version Negotiation packet that offers `versions`. The low bits of `seed` fill the unused bits.
///
/// `dcid` and `scid` are the source and the destination connection ID of the received packet, of up to 255
/// bytes.
pub fn write_version_negotiation(
    out: &mut Vec<u8>,
    dcid: &[u8],
    scid: &[u8],
    versions: &[Version],
    seed: u8,
) {
    // RFC 9000 §17.2.1: the fixed bit is set, so that the packet can share a port with other protocols.
    out.push(LONG | FIXED | seed & 0x3f);
    out.extend_from_slice(&Version::NEGOTIATION.0.to_be_bytes());
    push_cid(out, dcid);
    push_cid(out, scid);
    for version in versions {
        out.extend_from_slice(&version.0.to_be_bytes());
    }
}

/// Returns the versions in the `payload` of a Version Negotiation packet, at most [`MAX_OFFERED_VERSIONS`].
pub fn offered_versions(payload: &[u8]) -> impl Iterator<Item = Version> {
    let (versions, _) = payload.as_chunks();
    versions.iter().take(MAX_OFFERED_VERSIONS).map(|bytes| Version(u32::from_be_bytes(*bytes)))
}

fn push_cid(out: &mut Vec<u8>, cid: &[u8]) {
    let cid = &cid[..cid.len().min(255)];
    out.push(cid.len() as u8);
    out.extend_from_slice(cid);
}
