//! One socket with many connections: routing, timers, receiving and sending.

// The path is explicit because other programs include this file.
#[path = "endpoint/admit.rs"]
mod admit;

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::Read;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use peer_common::Failure;
use quiche::{Config, ConnectionId, Header, RecvInfo};

pub use self::admit::Door;
use crate::config::{Connection, PACKET};
use crate::udp::{MAX_RUN, Run, Udp};

/// Length of all connection IDs that this program issues.
const CID: usize = 16;

/// Connection and the application's state for it.
pub struct Link<S> {
    pub connection: Connection,
    pub state: S,
    timer: Option<Instant>,
    cids: Vec<Vec<u8>>,
}

/// Socket with its connections.
pub struct Endpoint<S> {
    udp: Udp,
    config: Config,
    door: Option<Door>,
    random: File,
    links: HashMap<u64, Link<S>>,
    routes: HashMap<Vec<u8>, u64>,
    timers: BTreeSet<(Instant, u64)>,
    touched: Vec<u64>,
    next: u64,
    packets: Vec<u8>,
}

impl<S: Default> Endpoint<S> {
    /// Creates an endpoint without connections. With a `door` it is a server.
    pub fn new(udp: Udp, config: Config, door: Option<Door>) -> Result<Self, Failure> {
        let random = File::open("/dev/urandom")?;
        let (links, routes, timers) = (HashMap::new(), HashMap::new(), BTreeSet::new());
        let packets = vec![0; MAX_RUN];
        Ok(Self { udp, config, door, random, links, routes, timers, touched: Vec::new(), next: 0, packets })
    }

    /// Returns the address to which the socket is bound.
    pub fn local(&self) -> SocketAddr {
        self.udp.local()
    }

    fn fresh_cid(&mut self) -> Result<[u8; CID], Failure> {
        let mut cid = [0; CID];
        self.random.read_exact(&mut cid)?;
        Ok(cid)
    }

    /// Starts a connection and sends its first packets. With `session`, it tries resumption.
    pub fn connect(
        &mut self,
        server: SocketAddr,
        name: &str,
        session: Option<&[u8]>,
    ) -> Result<u64, Failure> {
        let cid = self.fresh_cid()?;
        let scid = ConnectionId::from_ref(&cid);
        let local = self.udp.local();
        let mut connection: Connection =
            quiche::connect_with_buffer_factory(Some(name), &scid, local, server, &mut self.config)?;
        if let Some(session) = session {
            connection.set_session(session)?;
        }
        let key = self.insert(connection, vec![cid.to_vec()]);
        self.flush(key)?;
        self.touched.push(key);
        Ok(key)
    }

    /// Returns a connection by its key.
    pub fn link(&mut self, key: u64) -> Option<&mut Link<S>> {
        self.links.get_mut(&key)
    }

    /// Makes the next round handle a connection even without an event.
    pub fn touch(&mut self, key: u64) {
        self.touched.push(key);
    }

    /// Closes a connection, sends CONNECTION_CLOSE and removes the connection.
    pub fn close(&mut self, key: u64) -> Result<(), Failure> {
        if let Some(link) = self.links.get_mut(&key) {
            let _ = link.connection.close(true, 0, b"");
            self.flush(key)?;
        }
        self.forget(key);
        Ok(())
    }

    /// Runs one round: waits for datagrams or a timer, at most `patience`. Then it calls `progress` for every
    /// connection with an event and sends that connection's packets. Returns the keys of these connections.
    pub fn turn(
        &mut self,
        patience: Duration,
        mut progress: impl FnMut(&mut Link<S>) -> Result<(), Failure>,
    ) -> Result<Vec<u64>, Failure> {
        let now = Instant::now();
        let due = self.timers.first().map(|(at, _)| at.saturating_duration_since(now));
        if self.touched.is_empty() {
            self.udp.wait(due.unwrap_or(patience).min(patience))?;
        }
        self.receive()?;
        let now = Instant::now();
        while let Some(&(at, key)) = self.timers.first().filter(|(at, _)| *at <= now) {
            self.timers.remove(&(at, key));
            if let Some(link) = self.links.get_mut(&key) {
                link.timer = None;
                link.connection.on_timeout();
                self.touched.push(key);
            }
        }
        let mut touched = std::mem::take(&mut self.touched);
        touched.sort_unstable();
        touched.dedup();
        for &key in &touched {
            if let Some(link) = self.links.get_mut(&key) {
                progress(link)?;
                self.offer_cids(key)?;
                self.flush(key)?;
            }
        }
        for &key in &touched {
            if self.links.get(&key).is_some_and(|link| link.connection.is_closed()) {
                self.forget(key);
            }
        }
        Ok(touched)
    }

    fn insert(&mut self, connection: Connection, cids: Vec<Vec<u8>>) -> u64 {
        let key = self.next;
        self.next += 1;
        for cid in &cids {
            self.routes.insert(cid.clone(), key);
        }
        self.links.insert(key, Link { connection, state: S::default(), timer: None, cids });
        key
    }

    fn forget(&mut self, key: u64) {
        let Some(link) = self.links.remove(&key) else { return };
        for cid in &link.cids {
            self.routes.remove(cid);
        }
        if let Some(at) = link.timer {
            self.timers.remove(&(at, key));
        }
    }

    /// Receives the datagrams of one system call and passes each to its connection.
    fn receive(&mut self) -> Result<(), Failure> {
        let local = self.udp.local();
        let (routes, links, touched) = (&self.routes, &mut self.links, &mut self.touched);
        let mut strangers = Vec::new();
        self.udp.receive(|from, datagram| {
            let Ok(header) = Header::from_slice(datagram, CID) else { return };
            match routes.get(&header.dcid[..]).and_then(|key| Some((*key, links.get_mut(key)?))) {
                Some((key, link)) => {
                    // A packet that cannot be decrypted is dropped. The connection records a protocol error.
                    let _ = link.connection.recv(datagram, RecvInfo { from, to: local });
                    if touched.last() != Some(&key) {
                        touched.push(key);
                    }
                }
                None => strangers.push((from, header, datagram.to_vec())),
            }
        })?;
        for (from, header, mut datagram) in strangers {
            self.stranger(from, &header, &mut datagram)?;
        }
        Ok(())
    }

    fn deliver(&mut self, key: u64, from: SocketAddr, datagram: &mut [u8]) -> Result<(), Failure> {
        let to = self.udp.local();
        if let Some(link) = self.links.get_mut(&key) {
            let _ = link.connection.recv(datagram, RecvInfo { from, to });
            self.touched.push(key);
        }
        Ok(())
    }

    /// Issues connection IDs to the peer, which needs them for path validation and migration.
    fn offer_cids(&mut self, key: u64) -> Result<(), Failure> {
        while self
            .links
            .get(&key)
            .is_some_and(|l| l.connection.is_established() && l.connection.scids_left() > 0)
        {
            let (cid, token) = (self.fresh_cid()?, u128::from_be_bytes(self.fresh_cid()?));
            let Some(link) = self.links.get_mut(&key) else { break };
            if link.connection.new_scid(&ConnectionId::from_ref(&cid), token, false).is_err() {
                break;
            }
            link.cids.push(cid.to_vec());
            self.routes.insert(cid.to_vec(), key);
        }
        Ok(())
    }

    /// Sends all pending packets of a connection, in runs of equal size, and sets its timer.
    fn flush(&mut self, key: u64) -> Result<(), Failure> {
        let Some(link) = self.links.get_mut(&key) else { return Ok(()) };
        let limit = self.udp.max_segments();
        let mut run = Run::default();
        while let Ok((n, info)) = link.connection.send(&mut self.packets[run.filled..]) {
            if !run.takes(n, info.to) {
                run.send(&self.udp, &self.packets)?;
                self.packets.copy_within(run.filled..run.filled + n, 0);
                run = Run::default();
            }
            run.add(n, info.to);
            if run.last < run.segment || run.packets == limit || run.filled + PACKET > self.packets.len() {
                run.send(&self.udp, &self.packets)?;
                run = Run::default();
            }
        }
        run.send(&self.udp, &self.packets)?;
        let timer = link.connection.timeout_instant();
        if timer != link.timer {
            if let Some(at) = link.timer {
                self.timers.remove(&(at, key));
            }
            if let Some(at) = timer {
                self.timers.insert((at, key));
            }
            link.timer = timer;
        }
        Ok(())
    }
}
