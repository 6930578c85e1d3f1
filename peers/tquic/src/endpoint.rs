//! Endpoint with its socket and its connections.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Instant;

use peer_common::Failure;
use tquic::{Config, Connection, TransportHandler};

use crate::udp::Socket;
use crate::visit::Visit;

/// Largest datagram.
const MAX_DATAGRAM: usize = 65_536;

/// Connections by tquic's index.
pub type Visits = Rc<RefCell<HashMap<u64, Visit>>>;

/// Endpoint.
pub struct Endpoint {
    pub quic: tquic::Endpoint,
    pub socket: Rc<Socket>,
    pub visits: Visits,
    buffer: Vec<u8>,
}

impl Endpoint {
    /// Creates an endpoint; a server with the folder of its files.
    pub fn new(config: Config, socket: Socket, is_server: bool, root: Option<PathBuf>) -> Self {
        let (visits, socket) = (Visits::default(), Rc::new(socket));
        let handler = Handler { visits: Rc::clone(&visits), root, is_server };
        let sender = Rc::clone(&socket);
        let quic = tquic::Endpoint::new(Box::new(config), is_server, Box::new(handler), sender);
        Self { quic, socket, visits, buffer: vec![0; MAX_DATAGRAM] }
    }

    /// Sends what there is to send, waits for datagrams or a timer, and handles them.
    pub fn turn(&mut self) -> Result<(), Failure> {
        self.quic.process_connections()?;
        self.socket.wait(self.quic.timeout());
        while let Some((length, info)) = self.socket.receive(&mut self.buffer) {
            // A datagram that cannot be read is dropped; connections report their own failures.
            let _ = self.quic.recv(&mut self.buffer[..length], &info);
        }
        self.quic.on_timeout(Instant::now());
        Ok(self.quic.process_connections()?)
    }
}

/// Receiver of tquic's callbacks.
struct Handler {
    visits: Visits,
    root: Option<PathBuf>,
    is_server: bool,
}

impl Handler {
    fn with(&self, quic: &mut Connection, act: impl FnOnce(&mut Visit, &mut Connection)) {
        let mut visits = self.visits.borrow_mut();
        if let Some(visit) = quic.index().and_then(|index| visits.get_mut(&index)) {
            act(visit, quic);
        }
    }
}

impl TransportHandler for Handler {
    fn on_conn_created(&mut self, quic: &mut Connection) {
        if let (Some(index), true) = (quic.index(), self.is_server) {
            self.visits.borrow_mut().insert(index, Visit::new(self.root.clone()));
        }
    }

    fn on_conn_established(&mut self, quic: &mut Connection) {
        self.with(quic, |visit, _| visit.established = true);
    }

    fn on_conn_closed(&mut self, quic: &mut Connection) {
        if self.is_server {
            if let Some(index) = quic.index() {
                self.visits.borrow_mut().remove(&index);
            }
        } else {
            self.with(quic, |visit, quic| visit.end(quic));
        }
    }

    fn on_stream_created(&mut self, quic: &mut Connection, id: u64) {
        let _ = quic.stream_want_read(id, true);
    }

    fn on_stream_readable(&mut self, quic: &mut Connection, id: u64) {
        self.with(quic, |visit, quic| visit.readable(quic, id));
    }

    fn on_stream_writable(&mut self, quic: &mut Connection, id: u64) {
        self.with(quic, |visit, quic| visit.writable(quic, id));
    }

    fn on_stream_closed(&mut self, quic: &mut Connection, id: u64) {
        self.with(quic, |visit, quic| visit.closed(quic, id));
    }

    fn on_new_token(&mut self, _: &mut Connection, _: Vec<u8>) {}
}
