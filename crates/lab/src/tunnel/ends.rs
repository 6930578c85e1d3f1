//! Both ends of a tunnel.

use core::any::Any;
use core::time::Duration;

use anabranch_transport::datagram::{Order, Terms};
use anabranch_transport::{Connection, Endpoint, Event, Handle};
use anabranch_wire::Time;

use super::inner::Inner;
use crate::app::{Application, Dial};

/// Maximum number of bytes that wait for earlier packets, as in `anabranch::proxy`.
const MAX_HELD: usize = 1 << 20;
/// Length of the number in front of each packet, in bytes.
const NUMBER: usize = 4;

/// Treatment of the packets of an inner connection in a tunnel.
#[derive(Clone, Copy, Debug, Default)]
pub struct Carriage {
    /// Terms of each message.
    pub terms: Terms,
    /// Maximum time that a packet waits for those that were sent before it; `None` if packets leave the tunnel as they arrive.
    pub order: Option<Duration>,
}

/// State of either end: the inner host, and the packets on their way to it.
struct End {
    inner: Inner,
    terms: Terms,
    /// Number of packets sent so far.
    sent: u32,
    /// Received packets that wait for earlier ones, if the tunnel restores their order.
    order: Option<Order>,
}

impl End {
    fn new(inner: Inner, carriage: Carriage) -> Self {
        Self { inner, terms: carriage.terms, sent: 0, order: carriage.order.map(Order::new) }
    }

    fn next_time(&self) -> Option<Time> {
        let due = self.order.as_ref().and_then(Order::due);
        [self.inner.next_time(), due].into_iter().flatten().min()
    }

    /// Passes received packets to the inner host, and the packets that it sends to the connection.
    fn exchange(&mut self, now: Time, connection: &mut Connection) {
        while let Some((path, message)) = connection.datagrams().recv_from() {
            let Some((number, packet)) = message.split_first_chunk::<NUMBER>() else { continue };
            match &mut self.order {
                Some(order) => order.push(now, path, u32::from_be_bytes(*number), message.slice(NUMBER..)),
                None => self.inner.arrive(now, packet),
            }
        }
        while let Some(packet) = self.order.as_mut().and_then(|order| order.pop(now, MAX_HELD)) {
            self.inner.arrive(now, &packet);
        }
        self.inner.wake(now);
        while let Some(packet) = self.inner.pop() {
            let message = [&self.sent.to_be_bytes(), &packet[..]].concat();
            // A packet that is too large or finds no room is lost, as in the tunnel.
            if connection.datagrams().send_with(now, message.into(), &self.terms).is_ok() {
                self.sent = self.sent.wrapping_add(1);
            }
        }
    }
}

/// Client's end: the client of the outer connection, and the client of the inner one behind it.
pub struct TunnelClient {
    dial: Dial,
    end: End,
    /// Time at which the inner client starts; `None` once it has started.
    begin: Option<Time>,
}

impl TunnelClient {
    pub(super) fn new(dial: Dial, inner: Inner, carriage: Carriage, begin: Time) -> Self {
        Self { dial, end: End::new(inner, carriage), begin: Some(begin) }
    }

    /// Returns the inner client's application; `None` if it has another type.
    pub fn inner<A: Application>(&self) -> Option<&A> {
        let application: &dyn Any = self.end.inner.application();
        application.downcast_ref()
    }

    fn exchange(&mut self, now: Time, endpoint: &mut Endpoint) {
        self.dial.on_time(now, endpoint);
        let Some(connection) = self.dial.connection(endpoint) else { return };
        if self.begin.is_some_and(|begin| begin <= now) {
            self.begin = None;
            self.end.inner.start(now);
        }
        self.end.exchange(now, connection);
    }
}

impl Application for TunnelClient {
    fn start(&mut self, now: Time, endpoint: &mut Endpoint) {
        // Without an outer connection nothing arrives, which the results show.
        let _ = self.dial.start(now, endpoint);
    }

    fn on_event(&mut self, now: Time, endpoint: &mut Endpoint, _: Handle, _: Event) {
        self.exchange(now, endpoint);
    }

    fn next_time(&self) -> Option<Time> {
        [self.dial.next_time(), self.begin, self.end.next_time()].into_iter().flatten().min()
    }

    fn on_time(&mut self, now: Time, endpoint: &mut Endpoint) {
        self.exchange(now, endpoint);
    }
}

/// Server's end: the server of the outer connection, and the server of the inner one behind it.
pub struct TunnelServer {
    end: End,
    /// The outer connection, once it has begun.
    handle: Option<Handle>,
}

impl TunnelServer {
    pub(super) fn new(inner: Inner, carriage: Carriage) -> Self {
        Self { end: End::new(inner, carriage), handle: None }
    }

    fn exchange(&mut self, now: Time, endpoint: &mut Endpoint) {
        if let Some(connection) = self.handle.and_then(|handle| endpoint.connection(handle)) {
            self.end.exchange(now, connection);
        }
    }
}

impl Application for TunnelServer {
    fn start(&mut self, now: Time, _: &mut Endpoint) {
        self.end.inner.start(now);
    }

    fn on_event(&mut self, now: Time, endpoint: &mut Endpoint, handle: Handle, _: Event) {
        self.handle = Some(handle);
        self.exchange(now, endpoint);
    }

    fn next_time(&self) -> Option<Time> {
        self.end.next_time()
    }

    fn on_time(&mut self, now: Time, endpoint: &mut Endpoint) {
        self.exchange(now, endpoint);
    }
}
