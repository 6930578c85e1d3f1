//! Network of the model, in place of the sockets of the operating system: datagrams arrive at once and in order, and a socket may be
//! full for a while. Tests break sockets, or cut them off.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

use anabranch_transport::{Datagram, FourTuple, Transmit};
use anabranch_wire::Ecn;
use shuttle::rand::{Rng, thread_rng};

use crate::paths::LocalAddress;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, Ordering};

/// Chance of 1 in so many that a socket is full when a batch is sent.
const FULL: u32 = 8;
/// Error code of sockets that are cut off: the host is unreachable.
const UNREACHABLE: i32 = 113;
/// First port that the network chooses.
const PORTS: u16 = 50_000;

thread_local! {
    /// Sockets of this thread's execution.
    static NETWORK: RefCell<HashMap<SocketAddr, Weak<Buffers>>> = RefCell::default();
}

/// Begins a new execution.
pub(crate) fn reset() {
    let _before = NETWORK.take();
}

/// Result of sending a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) done: usize,
    pub(crate) unreachable: Option<i32>,
}

/// Report of a datagram that could not be delivered; this network has none.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) to: SocketAddr,
    pub(crate) error: io::Error,
    pub(crate) quoted: Vec<u8>,
}

/// One socket.
#[derive(Debug)]
pub(crate) struct Socket {
    local: SocketAddr,
    buffers: Arc<Buffers>,
    listened_to: AtomicBool,
}

#[derive(Debug, Default)]
struct Buffers(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    received: VecDeque<Received>,
    reader: Option<Waker>,
    is_full: bool,
    writer: Option<Waker>,
    is_broken: bool,
    is_cut_off: bool,
}

#[derive(Debug)]
struct Received {
    from: SocketAddr,
    ecn: Option<Ecn>,
    payload: Vec<u8>,
}

impl Socket {
    pub(crate) fn bind(address: SocketAddr) -> io::Result<Self> {
        NETWORK.with_borrow_mut(|network| {
            let is_taken = |network: &HashMap<SocketAddr, Weak<Buffers>>, address| {
                network.get(&address).is_some_and(|buffers| buffers.strong_count() > 0)
            };
            let mut local = address;
            if local.port() == 0 {
                let free = (PORTS..).find(|port| !is_taken(network, SocketAddr::new(local.ip(), *port)));
                local.set_port(free.unwrap_or(PORTS));
            }
            if is_taken(network, local) {
                return Err(io::ErrorKind::AddrInUse.into());
            }
            let buffers = Arc::new(Buffers::default());
            network.insert(local, Arc::downgrade(&buffers));
            Ok(Self { local, buffers, listened_to: false.into() })
        })
    }

    pub(crate) fn at(local: &LocalAddress) -> io::Result<Self> {
        Self::bind(SocketAddr::new(local.ip, local.port))
    }

    pub(crate) fn new(_: std::net::UdpSocket) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn duplicate(&self) -> io::Result<std::os::fd::OwnedFd> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.local
    }

    pub(crate) fn serves(&self, local: SocketAddr) -> bool {
        self.local == local
    }

    pub(crate) fn address_for(&self, remote: SocketAddr) -> Option<SocketAddr> {
        Some(remote)
    }

    pub(crate) fn max_segments(&self) -> usize {
        4
    }

    /// Breaks the socket: receiving fails from now on.
    pub(crate) fn break_down(&self) {
        let reader = {
            let mut state = self.buffers.0.lock().unwrap();
            state.is_broken = true;
            state.reader.take()
        };
        reader.into_iter().for_each(Waker::wake);
    }

    /// Cuts the socket off: sending fails from now on.
    pub(crate) fn cut_off(&self) {
        self.buffers.0.lock().unwrap().is_cut_off = true;
    }

    pub(crate) fn send(&self, transmit: &Transmit, contents: &[u8]) -> Sent {
        if self.becomes_full() {
            return Sent { done: 0, unreachable: None };
        }
        if self.buffers.0.lock().unwrap().is_cut_off {
            return Sent { done: contents.len(), unreachable: Some(UNREACHABLE) };
        }
        let to = NETWORK.with_borrow(|network| network.get(&transmit.tuple.remote).and_then(Weak::upgrade));
        if let Some(to) = to {
            let reader = {
                let mut state = to.0.lock().unwrap();
                state.received.extend(contents.chunks(transmit.segment_size.max(1)).map(|payload| {
                    Received { from: self.local, ecn: transmit.ecn, payload: payload.to_vec() }
                }));
                state.reader.take()
            };
            reader.into_iter().for_each(Waker::wake);
        }
        Sent { done: contents.len(), unreachable: None }
    }

    /// Returns whether the socket is full. It may become full now, and another task then empties it.
    fn becomes_full(&self) -> bool {
        let mut state = self.buffers.0.lock().unwrap();
        if state.is_full || !thread_rng().gen_ratio(1, FULL) {
            return state.is_full;
        }
        state.is_full = true;
        drop(state);
        let buffers = Arc::clone(&self.buffers);
        crate::model::spawn(async move {
            let writer = {
                let mut state = buffers.0.lock().unwrap();
                state.is_full = false;
                state.writer.take()
            };
            writer.into_iter().for_each(Waker::wake);
        });
        true
    }

    pub(crate) fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.buffers.0.lock().unwrap();
        if state.is_full {
            state.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }

    pub(crate) fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        batch: &mut ReceiveBatch,
    ) -> Poll<io::Result<()>> {
        let mut state = self.buffers.0.lock().unwrap();
        if state.is_broken {
            return Poll::Ready(Err(io::ErrorKind::Other.into()));
        }
        if state.received.is_empty() {
            state.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        batch.received = state.received.drain(..).collect();
        batch.local = Some(self.local);
        Poll::Ready(Ok(()))
    }

    pub(crate) fn set_receive_buffers(&self, _: usize) {}

    pub(crate) fn is_listened_to(&self) -> bool {
        self.listened_to.load(Ordering::Relaxed)
    }

    pub(crate) fn set_listened_to(&self, listened_to: bool) -> bool {
        self.listened_to.swap(listened_to, Ordering::Relaxed)
    }

    pub(crate) fn report_errors(&self, _: bool) {}

    pub(crate) async fn refusals(&self) -> io::Result<Vec<Refusal>> {
        std::future::pending().await
    }
}

/// Datagrams that one call has received.
#[derive(Default)]
pub(crate) struct ReceiveBatch {
    received: Vec<Received>,
    local: Option<SocketAddr>,
}

impl ReceiveBatch {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn datagrams(&mut self) -> impl Iterator<Item = Datagram<'_>> {
        let local = self.local;
        self.received.iter_mut().filter_map(move |Received { from, ecn, payload }| {
            let tuple = FourTuple { local: local?, remote: *from };
            Some(Datagram { tuple, ecn: *ecn, payload })
        })
    }
}
