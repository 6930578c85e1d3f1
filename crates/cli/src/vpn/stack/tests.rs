use std::net::IpAddr;

use super::*;
use crate::proxy::connect::link::tests::client;

/// Returns a stack whose proxy is not connected, and the packets that it writes.
fn stack() -> (Stack, mpsc::Receiver<Packet>) {
    let (out, written) = mpsc::channel(16);
    (Stack::new(watch::channel(client()).1, out, 1_500), written)
}

/// Builds a TCP packet without payload from this port.
fn tcp(port: u16, flags: u8) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 9, 0, 2, 192, 0, 2, 1];
    packet.extend(port.to_be_bytes());
    packet.extend([0, 80, 0, 0, 0, 1, 0, 0, 0, 7, 0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    packet
}

fn handle(stack: &mut Stack, packet: &[u8]) {
    stack.handle(&PacketHeader::parse(packet).unwrap(), packet);
}

#[tokio::test]
async fn packets_of_no_connection_are_answered_with_a_reset() {
    let (mut stack, mut written) = stack();
    handle(&mut stack, &tcp(1_000, ACK));
    let reset = written.try_recv().unwrap();
    let header = PacketHeader::parse(reset.bytes()).unwrap();
    assert_eq!(header.destination, IpAddr::from([10, 9, 0, 2]));
    assert_eq!((header.source_port, header.destination_port), (Some(80), Some(1_000)));
    assert_eq!(reset.bytes()[header.transport + 13] & RST, RST);
    // RFC 9293 §3.10.7.1: a RST is never sent in response to a RST.
    handle(&mut stack, &tcp(1_000, RST));
    handle(&mut stack, &tcp(1_000, RST | ACK));
    assert!(written.try_recv().is_err());
    assert!(stack.connections.is_empty());
}

#[tokio::test]
async fn at_most_max_connections_wait_for_their_tunnels() {
    let (mut stack, mut written) = stack();
    for port in 0..MAX_CONNECTIONS as u16 + 100 {
        handle(&mut stack, &tcp(1_000 + port, SYN));
    }
    assert_eq!((stack.connections.len(), stack.running.len()), (MAX_CONNECTIONS, MAX_CONNECTIONS));
    // There is no response to repeated SYNs, and at most MAX_INBOX packets of one connection wait.
    let ends = ("10.9.0.2:1000".parse().unwrap(), "192.0.2.1:80".parse().unwrap());
    for _ in 0..2 * MAX_INBOX {
        handle(&mut stack, &tcp(1_000, SYN));
    }
    assert_eq!(stack.connections[&ends].capacity(), 0);
    assert_eq!(stack.connections[&ends].max_capacity(), MAX_INBOX);
    assert!(written.try_recv().is_err());
}
