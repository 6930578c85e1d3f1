//! User-space stack in which the TCP connections of this host's programs end, and from which they are carried on streams of
//! the tunnel.
//!
//! Each connection has an interface and a socket of its own, in a task of its own, so that connections use all cores and
//! none waits for another. A SYN is answered only when the proxy has reached the target or refused it, so the program gets
//! the result for the target.

mod end;
mod flow;
mod interface;
mod link;
mod numbers;

use std::collections::HashMap;
use std::net::SocketAddr;

use anabranch::proxy::client::{RefusalKind, Target, TunnelError};
use anabranch::proxy::ip::{self, PacketHeader};
use smoltcp::iface::SocketSet;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use self::flow::Flow;
use self::interface::Host;
use crate::proxy::connect::link::Client;
use crate::proxy::connect::stream;
use crate::tun::Packet;

/// Maximum number of TCP connections. SYNs of further ones are dropped; the kernel of the program repeats them.
pub(super) const MAX_CONNECTIONS: usize = 4_096;
/// Maximum number of packets of a connection that wait for its task. Further ones are dropped, as on any link.
pub(super) const MAX_INBOX: usize = 256;
/// Flags of TCP (RFC 9293 §3.1).
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;

/// Source and destination of a program's connection.
type Ends = (SocketAddr, SocketAddr);

/// The user-space stack, with the queue of each connection.
pub(super) struct Stack {
    /// Client of new connections.
    current: watch::Receiver<Client>,
    connections: HashMap<Ends, mpsc::Sender<Packet>>,
    running: JoinSet<Ends>,
    /// Interface without sockets, which responds with a RST to packets of unknown connections.
    nobody: Host,
    out: mpsc::Sender<Packet>,
    mtu: usize,
}

impl Stack {
    /// Creates the stack. It writes its packets, of at most `mtu` bytes, to `out`.
    pub(super) fn new(current: watch::Receiver<Client>, out: mpsc::Sender<Packet>, mtu: usize) -> Self {
        let (connections, running) = (HashMap::new(), JoinSet::new());
        Self { current, connections, running, nobody: Host::new(mtu), out, mtu }
    }

    /// Handles a TCP packet of a program.
    pub(super) fn handle(&mut self, header: &PacketHeader, packet: &[u8]) {
        while let Some(ended) = self.running.try_join_next() {
            if let Ok(ends) = ended
                && self.connections.get(&ends).is_some_and(mpsc::Sender::is_closed)
            {
                self.connections.remove(&ends);
            }
        }
        let (Some(source), Some(destination)) = (header.source_port, header.destination_port) else { return };
        let Some(flags) = packet.get(header.transport + 13) else { return };
        let ends = (SocketAddr::new(header.source, source), SocketAddr::new(header.destination, destination));
        let known = self.connections.get(&ends).map(|inbox| inbox.try_send(Packet::new(packet)));
        match known {
            Some(Ok(()) | Err(TrySendError::Full(_))) => {}
            Some(Err(TrySendError::Closed(_))) | None => match flags & (SYN | RST | ACK) {
                SYN => self.open(ends, Packet::new(packet)),
                flags if flags & RST == 0 => self.reset(Packet::new(packet)),
                _ => {}
            },
        }
    }

    fn open(&mut self, ends: Ends, syn: Packet) {
        if self.running.len() >= MAX_CONNECTIONS {
            return;
        }
        let (inbox, packets) = mpsc::channel(MAX_INBOX);
        let (client, out, mtu) = (self.current.borrow().clone(), self.out.clone(), self.mtu);
        self.running.spawn(async move {
            connect(client, ends.1, syn, packets, out, mtu).await;
            ends
        });
        self.connections.insert(ends, inbox);
    }

    /// Sends a RST in response to a packet that belongs to no connection.
    fn reset(&mut self, packet: Packet) {
        reset(&mut self.nobody, packet, &self.out);
    }
}

fn reset(nobody: &mut Host, packet: Packet, out: &mpsc::Sender<Packet>) {
    nobody.link.incoming.push_back(packet);
    nobody.poll(&mut SocketSet::new(Vec::new()));
    for reset in nobody.link.outgoing.drain(..) {
        // If the device's queue is full, the RST is dropped, and the program repeats its packet.
        let _ = out.try_send(reset);
    }
}

/// Opens a tunnel, and carries the connection on it. If the proxy refuses the tunnel, refuses the connection.
async fn connect(
    client: Client,
    destination: SocketAddr,
    syn: Packet,
    packets: mpsc::Receiver<Packet>,
    out: mpsc::Sender<Packet>,
    mtu: usize,
) {
    match stream::open(&client, &Target::from(destination)).await {
        Ok(opened) => {
            drop(client);
            if let Some(flow) = Flow::new(destination, mtu, syn, packets, out) {
                flow.carry(opened).await;
            }
        }
        Err(error) => refuse(&error, syn, &out, mtu),
    }
}

/// Refuses a connection by a RST or an ICMP message. Sends nothing if the proxy did not respond or gave another reason;
/// the program then repeats its SYN.
fn refuse(error: &TunnelError, syn: Packet, out: &mpsc::Sender<Packet>, mtu: usize) {
    let TunnelError::Refused(refusal) = error else { return };
    let report = match refusal.kind() {
        RefusalKind::ConnectionRefused => return reset(&mut Host::new(mtu), syn, out),
        RefusalKind::Denied | RefusalKind::Credentials => ip::prohibited(syn.bytes()),
        RefusalKind::Unreachable => ip::unreachable(syn.bytes()),
        _ => None,
    };
    if let Some(report) = report {
        let _ = out.try_send(Packet::new(&report));
    }
}

#[cfg(test)]
mod tests;
