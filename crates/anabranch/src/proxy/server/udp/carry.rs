//! Transfer of datagrams between a client and a target.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anabranch_http3::capsule::CapsuleReader;
use anabranch_wire::{Direction, PathId, Reader};
use bytes::{Buf, Bytes};
use tokio::io::Interest;
use tokio::time::Instant;

use super::super::flow::Outcome;
use super::UdpFlow;
use super::queue::Queue;
use crate::DatagramTerms;
use crate::error::SendDatagramError;
use crate::http3::{Code, Datagrams};
use crate::proxy::copies::{Numbers, PREFIX, number};
use crate::proxy::order::{Order, STREAM};

/// Maximum length of a UDP payload, in bytes (RFC 9298 §5).
const MAX_PAYLOAD: usize = 65_527;
/// Maximum number of datagrams that a task handles before it yields to other tasks.
const MAX_BURST: usize = 64;
/// Context ID of UDP payloads (RFC 9298 §5).
const PAYLOAD: u8 = 0;

thread_local! {
    /// Buffer for one payload with its prefix, which all flows of a thread share.
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; PREFIX + MAX_PAYLOAD]);
}

/// End of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::proxy::server) enum Stop {
    /// Regular end of the stream.
    End(Outcome),
    /// Abort of the stream with this code.
    Abort(Outcome, Code),
}

/// Both directions of a flow.
pub(super) struct Carrier<'f> {
    udp: &'f UdpFlow,
    queue: &'f Queue,
    datagrams: Option<&'f Datagrams>,
    terms: DatagramTerms,
    /// Numbers of the payloads, if they have any.
    numbers: Option<Box<Numbers>>,
    /// Client's payloads that wait for payloads with smaller numbers, if the flow is ordered.
    order: Option<Box<Order>>,
    /// `true` once the client has sent a DATAGRAM capsule.
    uses_capsules: AtomicBool,
    begun: Instant,
    /// Time of the last datagram from either side, in milliseconds since `begun`.
    last: AtomicU64,
}

impl<'f> Carrier<'f> {
    pub(super) fn new(udp: &'f UdpFlow, queue: &'f Queue, datagrams: Option<&'f Datagrams>) -> Self {
        let terms = udp.terms;
        Self {
            udp,
            queue,
            datagrams,
            terms: terms.datagrams(),
            numbers: terms.has_numbers().then(Box::default),
            order: terms.order().map(|hold| Box::new(Order::new(hold))),
            uses_capsules: AtomicBool::new(false),
            begun: Instant::now(),
            last: AtomicU64::new(0),
        }
    }

    /// Sends the payloads of the client's DATAGRAM frames to the target. Returns only if the flow must end.
    pub(super) async fn read_datagrams(&self) -> Stop {
        let stop = match (self.datagrams, &self.order) {
            (Some(datagrams), None) => self.read_unordered(datagrams).await,
            // Few flows are ordered. The box keeps their timer out of the futures of all others.
            (Some(datagrams), Some(order)) => Box::pin(self.read_ordered(datagrams, order)).await,
            (None, _) => None,
        };
        match stop {
            Some(stop) => stop,
            // The stream has ended, which its reader notices.
            None => std::future::pending().await,
        }
    }

    async fn read_unordered(&self, datagrams: &Datagrams) -> Option<Stop> {
        let mut burst = 0;
        while let Ok(datagram) = datagrams.recv().await {
            if let Err(stop) = self.to_target(STREAM, datagram) {
                return Some(stop);
            }
            rest(&mut burst).await;
        }
        None
    }

    /// Sends the client's DATAGRAM frames to the target in the order of their numbers.
    async fn read_ordered(&self, datagrams: &Datagrams, order: &Order) -> Option<Stop> {
        let mut burst = 0;
        loop {
            let waited = async {
                match order.due() {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            let carried = tokio::select! {
                received = poll_fn(|cx| datagrams.poll_recv_from(cx)) => {
                    let (path, datagram) = received.ok()?;
                    self.to_target(path, datagram)
                }
                () = waited => self.in_order(),
            };
            if let Err(stop) = carried {
                return Some(stop);
            }
            rest(&mut burst).await;
        }
    }

    /// Sends the payloads of the DATAGRAM capsules that `piece`, a part of the stream, completes to the target.
    pub(super) fn capsules(&self, reader: &mut CapsuleReader, piece: &[u8]) -> Result<(), Stop> {
        let mut rest = piece;
        while !rest.is_empty() {
            // RFC 9297 §3.3: a malformed capsule makes the message malformed.
            let malformed = |_| Stop::Abort(Outcome::ByClient, Code::MESSAGE_ERROR);
            let (read, capsule) = reader.read(rest).map_err(malformed)?;
            rest = &rest[read..];
            if let Some(capsule) = capsule {
                self.uses_capsules.store(true, Ordering::Relaxed);
                self.to_target(STREAM, capsule.value)?;
            }
        }
        Ok(())
    }

    /// Sends the target's datagrams to the client. Returns only if the flow must end.
    pub(super) async fn read_target(&self) -> Stop {
        let mut burst = 0;
        loop {
            let read: io::Result<Result<(), Stop>> = SCRATCH.with_borrow_mut(|scratch| {
                let len = self.udp.socket.try_recv(&mut scratch[PREFIX..])?;
                let start = match &self.numbers {
                    Some(numbers) => {
                        scratch[..PREFIX].copy_from_slice(&numbers.prefix());
                        0
                    }
                    None => {
                        scratch[PREFIX - 1] = PAYLOAD;
                        PREFIX - 1
                    }
                };
                Ok(self.to_client(&scratch[start..PREFIX + len], len))
            });
            match read {
                Ok(Ok(())) => rest(&mut burst).await,
                Ok(Err(stop)) => return stop,
                Err(error) => match self.target_error(&error) {
                    Err(stop) => return stop,
                    Ok(()) if error.kind() == io::ErrorKind::WouldBlock => {
                        if let Err(stop) = self.ready().await {
                            return stop;
                        }
                    }
                    Ok(()) => rest(&mut burst).await,
                },
            }
        }
    }

    /// Waits until the socket has a datagram or an error. The kernel reports an error by a readiness of its own, also while
    /// there is no datagram.
    async fn ready(&self) -> Result<(), Stop> {
        let gone = Stop::Abort(Outcome::ByTarget, Code::CONNECT_ERROR);
        let ready = self.udp.socket.ready(Interest::READABLE | Interest::ERROR).await.map_err(|_| gone)?;
        if ready.is_error() {
            if let Ok(Some(error)) = self.udp.socket.take_error() {
                self.target_error(&error)?;
            }
            // The error is taken, so the next call waits for another one.
            let _ =
                self.udp.socket.try_io(Interest::ERROR, || Err::<(), _>(io::ErrorKind::WouldBlock.into()));
        }
        Ok(())
    }

    /// Waits until no datagram has arrived from either side for `idle`.
    pub(super) async fn idle_for(&self, idle: Duration) {
        loop {
            let last = self.begun + Duration::from_millis(self.last.load(Ordering::Relaxed));
            if last.elapsed() >= idle {
                return;
            }
            tokio::time::sleep_until(last + idle).await;
        }
    }

    /// Sends the payload of an HTTP datagram, which arrived on `path`, to the target. In an ordered flow it waits for payloads with
    /// smaller numbers.
    fn to_target(&self, path: PathId, mut datagram: Bytes) -> Result<(), Stop> {
        let mut reader = Reader::new(&datagram, Direction::Forward);
        let malformed = Stop::Abort(Outcome::ByClient, Code::DATAGRAM_ERROR);
        let context = reader.varint().map_err(|_| malformed)?;
        let (start, number) = match &self.numbers {
            _ if context == u64::from(PAYLOAD) => (datagram.len() - reader.remaining(), None),
            Some(numbers) => match numbers.first(&datagram) {
                Some(number) => (PREFIX, Some(number)),
                None => {
                    if let (Some(order), Some(number)) = (&self.order, number(&datagram)) {
                        order.note_copy(Instant::now(), path, number);
                    }
                    return Ok(());
                }
            },
            // Datagrams with an unknown context ID are dropped (RFC 9298 §5).
            None => return Ok(()),
        };
        datagram.advance(start);
        // RFC 9298 §5: no UDP datagram has a payload of this length, so the stream is aborted.
        if datagram.len() > MAX_PAYLOAD {
            return Err(malformed);
        }
        match (&self.order, number) {
            (Some(order), Some(number)) => {
                order.push(Instant::now(), path, number, datagram);
                self.in_order()
            }
            _ => self.send_to_target(&datagram),
        }
    }

    /// Sends the payloads of an ordered flow that need not wait to the target.
    fn in_order(&self) -> Result<(), Stop> {
        let now = Instant::now();
        while let Some(payload) = self.order.as_ref().and_then(|order| order.pop(now)) {
            self.send_to_target(&payload)?;
        }
        Ok(())
    }

    fn send_to_target(&self, payload: &[u8]) -> Result<(), Stop> {
        self.touch();
        if !self.udp.flow.place.may_spend(Instant::now()) {
            self.udp.flow.drop_datagram();
            return Ok(());
        }
        match self.udp.socket.try_send(payload) {
            Ok(_) => _ = self.udp.flow.sent(payload.len()),
            Err(error) => {
                self.udp.flow.drop_datagram();
                self.target_error(&error)?;
            }
        }
        Ok(())
    }

    /// Sends an HTTP datagram, which is a prefix and a payload of `len` bytes, to the client.
    fn to_client(&self, datagram: &[u8], len: usize) -> Result<(), Stop> {
        self.touch();
        if !self.udp.flow.place.may_spend(Instant::now()) {
            self.udp.flow.drop_datagram();
            return Ok(());
        }
        let sent = match self.datagrams {
            Some(datagrams) => datagrams.send_with(datagram, &self.terms),
            None => Err(SendDatagramError::UnsupportedByPeer),
        };
        match sent {
            Ok(()) => _ = self.udp.flow.received(len),
            // RFC 9297 §3.5: the stream carries what datagrams cannot.
            Err(SendDatagramError::UnsupportedByPeer) => self.queue.push(datagram, len),
            Err(SendDatagramError::TooLarge) if self.uses_capsules.load(Ordering::Relaxed) => {
                self.queue.push(datagram, len);
            }
            // RFC 9298 §6.1: a capsule would hide the path's MTU from programs that probe it.
            Err(SendDatagramError::TooLarge | SendDatagramError::Blocked) => self.udp.flow.drop_datagram(),
            Err(SendDatagramError::ConnectionLost(_)) => {
                return Err(Stop::Abort(Outcome::ByClient, Code::CONNECT_ERROR));
            }
        }
        Ok(())
    }

    /// Handles an error of the socket. An error that ICMP reports about the target ends the flow (RFC 9298 §3.1). Any other
    /// error affects one datagram only.
    fn target_error(&self, error: &io::Error) -> Result<(), Stop> {
        match error.kind() {
            io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::NetworkDown => Err(Stop::Abort(Outcome::ByTarget, Code::CONNECT_ERROR)),
            _ => Ok(()),
        }
    }

    fn touch(&self) {
        let now = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(now, Ordering::Relaxed);
    }
}

/// Counts a datagram, and yields to other tasks after each [`MAX_BURST`] of them.
pub(in crate::proxy::server) async fn rest(burst: &mut usize) {
    *burst += 1;
    if *burst == MAX_BURST {
        *burst = 0;
        tokio::task::yield_now().await;
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    #[test]
    fn other_tasks_have_their_turn_after_max_burst_datagrams() {
        let mut cx = Context::from_waker(Waker::noop());
        let mut burst = 0;
        for n in 1..=3 * MAX_BURST {
            let is_over = pin!(rest(&mut burst)).poll(&mut cx).is_ready();
            assert_eq!(is_over, n % MAX_BURST != 0, "{n}");
        }
    }
}
