//! Clients of a relay, each with a socket of its own towards the server, as a NAT has a mapping for each.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anabranch_wire::Time;
use mio::Token;

use super::reader::Sockets;
use super::socket::{Batch, Socket};
use crate::packet::Packet;

/// Maximum number of client addresses that a relay serves at a time. A further one takes the place of the client that has been silent
/// for the longest time.
pub(super) const MAX_CLIENTS: usize = 4096;
/// Time without a datagram in either direction after which a client is forgotten once another one comes (RFC 4787 §4.3 asks for two minutes or more).
const MAX_IDLE: Duration = Duration::from_secs(120);

/// Client, with the socket that represents it towards the server.
#[derive(Debug)]
struct Session {
    token: Token,
    upstream: Arc<Socket>,
    /// Packets queued to be sent through `upstream`.
    batch: Batch,
    /// Time of the last datagram in either direction.
    last: Time,
}

/// Clients that have been heard of lately.
#[derive(Debug)]
pub(super) struct Sessions {
    sockets: Sockets,
    /// Address of sockets towards the server.
    local: IpAddr,
    /// Maximum number of clients.
    capacity: usize,
    clients: BTreeMap<SocketAddr, Session>,
    /// Clients with queued packets.
    queued: Vec<SocketAddr>,
}

impl Sessions {
    pub(super) fn new(sockets: Sockets, local: IpAddr, capacity: usize) -> Self {
        Self { sockets, local, capacity, clients: BTreeMap::new(), queued: Vec::new() }
    }

    /// Queues a packet of a client for the server. Without a socket for it, the packet is dropped.
    pub(super) fn send(&mut self, packet: &Packet, now: Time) {
        let client = packet.source;
        if !self.clients.contains_key(&client) && self.admit(client, now).is_err() {
            return;
        }
        if let Some(session) = self.clients.get_mut(&client) {
            session.last = now;
            session.batch.add(&session.upstream, packet);
            if self.queued.last() != Some(&client) {
                self.queued.push(client);
            }
        }
    }

    /// Notes a datagram of the server for a client.
    pub(super) fn note(&mut self, client: SocketAddr, now: Time) {
        if let Some(session) = self.clients.get_mut(&client) {
            session.last = now;
        }
    }

    /// Sends the queued packets.
    pub(super) fn flush(&mut self) {
        for client in self.queued.drain(..) {
            if let Some(session) = self.clients.get_mut(&client) {
                session.batch.flush(&session.upstream);
                // Most clients are silent most of the time, and then hold no memory.
                session.batch = Batch::default();
            }
        }
    }

    /// Replaces every client's socket. The new one is bound to `ip`, if any. If no new socket is available, the client keeps the old one.
    pub(super) fn rebind(&mut self, ip: Option<IpAddr>) {
        self.flush();
        for (client, session) in &mut self.clients {
            let local = SocketAddr::new(ip.unwrap_or(self.local), 0);
            if let Ok((token, upstream)) = self.sockets.bind(local, Some(*client)) {
                self.sockets.forget(session.token);
                (session.token, session.upstream) = (token, upstream);
            }
        }
    }

    /// Adds a client, after those that have been silent for [`MAX_IDLE`] are removed. If there are too many clients, or too many sockets
    /// for this process, the one that has been silent for the longest time is removed too.
    fn admit(&mut self, client: SocketAddr, now: Time) -> io::Result<()> {
        let Self { sockets, clients, .. } = self;
        clients.retain(|_, session| {
            let is_live = now - session.last < MAX_IDLE;
            if !is_live {
                sockets.forget(session.token);
            }
            is_live
        });
        if self.clients.len() >= self.capacity {
            self.remove_oldest();
        }
        let local = SocketAddr::new(self.local, 0);
        let bound = match self.sockets.bind(local, Some(client)) {
            Err(_) if self.remove_oldest() => self.sockets.bind(local, Some(client)),
            bound => bound,
        };
        let (token, upstream) = bound?;
        self.clients.insert(client, Session { token, upstream, batch: Batch::default(), last: now });
        Ok(())
    }

    /// Removes the client that has been silent for the longest time. Returns `false` if there is none.
    fn remove_oldest(&mut self) -> bool {
        let oldest = self.clients.iter().min_by_key(|(_, session)| session.last).map(|(client, _)| *client);
        let Some(mut session) = oldest.and_then(|client| self.clients.remove(&client)) else { return false };
        session.batch.flush(&session.upstream);
        self.sockets.forget(session.token);
        true
    }
}

#[cfg(test)]
mod tests;
