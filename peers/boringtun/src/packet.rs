//! IPv4 packets of the UDP flow inside the tunnel.

/// Length of an IPv4 header without options, in bytes.
const IP: usize = 20;
/// Length of both headers, in bytes.
pub(crate) const HEADERS: usize = IP + 8;
/// Protocol number of UDP.
const UDP: u8 = 17;

/// Writes the headers of a UDP datagram with `len` bytes of payload, which stands behind them already. WireGuard reads lengths and
/// addresses only, so checksums are left out.
pub(crate) fn wrap(packet: &mut [u8], len: usize) {
    let total = u16::try_from(HEADERS + len).unwrap_or(u16::MAX);
    packet[..HEADERS].fill(0);
    packet[0] = 0x45;
    packet[2..4].copy_from_slice(&total.to_be_bytes());
    packet[8] = 64;
    packet[9] = UDP;
    packet[12..16].copy_from_slice(&[10, 0, 0, 1]);
    packet[16..20].copy_from_slice(&[10, 0, 0, 2]);
    let udp_len = u16::try_from(8 + len).unwrap_or(u16::MAX);
    packet[24..26].copy_from_slice(&udp_len.to_be_bytes());
}

/// Returns the payload of a UDP datagram's packet.
pub(crate) fn payload(packet: &[u8]) -> &[u8] {
    packet.get(HEADERS..).unwrap_or_default()
}
