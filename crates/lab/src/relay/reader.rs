//! Thread that reads all sockets of a relay.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use mio::{Events, Poll, Registry, Token};

use super::Input;
use super::socket::{MAX_RECEIVE_BYTES, Socket};

/// Interval at which a thread without datagrams checks whether the relay has been stopped.
const PATIENCE: Duration = Duration::from_millis(20);
/// Maximum number of sockets that one wait reports as readable. Others are reported by the next one.
const MAX_REPORTED: usize = 256;
/// Maximum number of reads of a socket before the others have their turn.
const MAX_READS: usize = 32;

/// Socket to read, and the client that it represents towards the server; `None` for the socket to which clients send.
type Watched = (Arc<Socket>, Option<SocketAddr>);

/// Sockets that the thread reads.
#[derive(Debug)]
pub(super) struct Sockets {
    registry: Registry,
    watched: Arc<Mutex<BTreeMap<Token, Watched>>>,
    next: usize,
}

impl Sockets {
    /// Starts the thread. It passes datagrams to `inbox` until `stop` is set or the inbox is closed.
    pub(super) fn start(inbox: SyncSender<Input>, stop: Arc<AtomicBool>) -> io::Result<Self> {
        let poll = Poll::new()?;
        let registry = poll.registry().try_clone()?;
        let watched = Arc::default();
        let reader = Reader { poll, watched: Arc::clone(&watched), inbox, stop };
        thread::spawn(move || reader.run());
        Ok(Self { registry, watched, next: 0 })
    }

    /// Binds a socket at `local`, which the thread reads from now on. Datagrams that arrive there are for `client`, or from any client.
    pub(super) fn bind(
        &mut self,
        local: SocketAddr,
        client: Option<SocketAddr>,
    ) -> io::Result<(Token, Arc<Socket>)> {
        let token = Token(self.next);
        self.next += 1;
        // The thread finds the socket when it is reported as readable, which may be before this function returns.
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let socket = Arc::new(Socket::bind(local, &self.registry, token)?);
        watched.insert(token, (Arc::clone(&socket), client));
        Ok((token, socket))
    }

    /// Ends the reading of a socket. It is closed once nobody else holds it.
    pub(super) fn forget(&mut self, token: Token) {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner).remove(&token);
    }

    /// Returns the number of sockets.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

struct Reader {
    poll: Poll,
    watched: Arc<Mutex<BTreeMap<Token, Watched>>>,
    inbox: SyncSender<Input>,
    stop: Arc<AtomicBool>,
}

impl Reader {
    fn run(mut self) {
        let mut events = Events::with_capacity(MAX_REPORTED);
        let mut buffer = vec![0; MAX_RECEIVE_BYTES];
        // Sockets that may have further datagrams.
        let mut readable: Vec<Token> = Vec::new();
        // A relay that could not be started has no sockets any more, and sets no flag.
        while !self.stop.load(Ordering::Relaxed) && Arc::strong_count(&self.watched) > 1 {
            let patience = if readable.is_empty() { PATIENCE } else { Duration::ZERO };
            // A signal may interrupt the wait.
            if self.poll.poll(&mut events, Some(patience)).is_err() {
                continue;
            }
            for token in events.iter().map(mio::event::Event::token) {
                if !readable.contains(&token) {
                    readable.push(token);
                }
            }
            let mut is_closed = false;
            readable.retain(|token| {
                let read = self.read(*token, &mut buffer);
                is_closed |= read.is_none();
                read == Some(true)
            });
            if is_closed {
                break;
            }
        }
    }

    /// Reads a socket. Returns `true` if it may have further datagrams, and `None` if the inbox is closed.
    fn read(&self, token: Token, buffer: &mut [u8]) -> Option<bool> {
        let watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner).get(&token).cloned();
        let Some((socket, client)) = watched else { return Some(false) };
        for _ in 0..MAX_READS {
            let arrived = match socket.receive(buffer) {
                Ok(arrived) => arrived,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Some(false),
                // An ICMP error of the peer does not end the reading.
                Err(_) => continue,
            };
            let input = match client {
                Some(client) => Input::ToClient(client, arrived),
                None => Input::FromClients(arrived),
            };
            if let Err(TrySendError::Disconnected(_)) = self.inbox.try_send(input) {
                return None;
            }
        }
        Some(true)
    }
}
