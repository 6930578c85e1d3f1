//! Counters that the kernel keeps for each connection or subflow (`sock_diag`) and for Multipath TCP.

use std::fs;
use std::io;
use std::net::Ipv4Addr;

use netlink_packet_core::{NlaBuffer, NlasIterator};
use netlink_sys::protocols::NETLINK_SOCK_DIAG;

use super::netlink::{Message, Netlink};
use super::topology::{PORT, path_of};
use crate::order::{Order, PathReport};

/// `SOCK_DIAG_BY_FAMILY` (`linux/sock_diag.h`).
const BY_FAMILY: u16 = 20;
const AF_INET: u8 = 2;
const IPPROTO_TCP: u8 = 6;
/// Attribute with `struct tcp_info` (`linux/inet_diag.h`), and the bit that requests it.
const INFO: u16 = 2;
const INFO_BIT: u8 = 1 << (INFO - 1);
/// Bits of all states of a connection except closed and listening.
const STATES: u32 = 0xfff & !(1 << 7) & !(1 << 10);
/// Number of bytes of `struct inet_diag_msg` before its attributes.
const HEADER: usize = 72;

/// Returns the counts of each path of `order`, in the namespace of this thread.
pub(super) fn of_paths(order: &Order) -> io::Result<Vec<PathReport>> {
    let mut netlink = Netlink::open(NETLINK_SOCK_DIAG)?;
    // struct inet_diag_req_v2: family, protocol, attributes, padding, states, then an identity of 48 bytes.
    let mut body = vec![AF_INET, IPPROTO_TCP, INFO_BIT, 0];
    body.extend_from_slice(&STATES.to_ne_bytes());
    body.extend_from_slice(&[0; 48]);
    let mut reports = vec![PathReport::default(); order.paths.len()];
    for answer in netlink.dump(Message { kind: BY_FAMILY, body })? {
        if let Some(report) = path(order, &answer.body).and_then(|path| reports.get_mut(path)) {
            add(report, &answer.body)?;
        }
    }
    Ok(reports)
}

/// Returns the path of the connection that a message describes, which follows from the client's address.
fn path(order: &Order, body: &[u8]) -> Option<usize> {
    // Family, state, timer, retransmissions; then the ports in network order and both addresses.
    let port = u16::from_be_bytes(body.get(4..6)?.try_into().ok()?);
    let at = if port == PORT { 24 } else { 8 };
    let address: [u8; 4] = body.get(at..at + 4)?.try_into().ok()?;
    path_of(order, Ipv4Addr::from(address))
}

/// Adds the counts of `struct tcp_info` (`linux/tcp.h`).
fn add(report: &mut PathReport, body: &[u8]) -> io::Result<()> {
    for entry in NlasIterator::new(body.get(HEADER..).unwrap_or_default()) {
        let entry: NlaBuffer<&[u8]> = entry.map_err(io::Error::other)?;
        if entry.kind() != INFO {
            continue;
        }
        let info = entry.value();
        let narrow =
            |at: usize| info.get(at..at + 4).and_then(|at| at.try_into().ok()).map_or(0, u32::from_ne_bytes);
        let wide =
            |at: usize| info.get(at..at + 8).and_then(|at| at.try_into().ok()).map_or(0, u64::from_ne_bytes);
        report.rtt_us = u64::from(narrow(68));
        report.repeated_segments += u64::from(narrow(100));
        report.sent_bytes += wide(200);
        report.repeated_bytes += wide(208);
        report.window = u64::from(narrow(228));
    }
    Ok(())
}

/// Returns the number of times that Multipath TCP has fallen back to TCP in the namespace of this thread.
pub(super) fn fallbacks() -> io::Result<u64> {
    let text = fs::read_to_string("/proc/thread-self/net/netstat")?;
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("MPTcpExt: "));
    let (Some(names), Some(values)) = (lines.next(), lines.next()) else { return Ok(0) };
    let counts = names.split(' ').zip(values.split(' '));
    let fallen = counts.filter(|(name, _)| name.contains("Fallback"));
    Ok(fallen.filter_map(|(_, value)| value.parse::<u64>().ok()).sum())
}
