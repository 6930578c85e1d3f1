//! Both ends of a transfer. Every byte is checked, and the receiver records the arrival times.

use anabranch_transport::stream::{StreamEvent, Streams};
use anabranch_transport::{Endpoint, Event, Handle};
use anabranch_wire::{Dir, StreamId, Time};

use crate::app::{Application, Dial, Pattern, Receiver, Sender};
use crate::random::Rng;

/// Parameters of the transfer, which the client sends at the beginning of the only stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) upload: bool,
    pub(super) key: u64,
    pub(super) bytes: u64,
}

/// Length of an encoded order in bytes.
const HEAD: usize = 17;

impl Order {
    fn encode(self) -> Vec<u8> {
        [&[u8::from(self.upload)][..], &self.key.to_be_bytes(), &self.bytes.to_be_bytes()].concat()
    }

    fn decode(head: &[u8; HEAD]) -> Self {
        let word = |at: usize| head[at..at + 8].iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
        Self { upload: head[0] == 1, key: word(1), bytes: word(9) }
    }
}

/// Data that the receiver of the transfer has read.
#[derive(Clone, Debug, Default)]
pub(super) struct Arrivals {
    /// Bytes that arrived in order with the expected content.
    pub(super) good: u64,
    /// Bytes that arrived with wrong content or beyond the end of the transfer.
    pub(super) bad: u64,
    /// Times at which bytes arrived.
    pub(super) times: Vec<Time>,
}

impl Arrivals {
    fn note(&mut self, now: Time, order: Order, offset: u64, data: &[u8]) {
        let expected = order.bytes.saturating_sub(offset).min(data.len() as u64) as usize;
        let good = Pattern(order.key).matches(offset, &data[..expected]);
        self.good += if good { expected as u64 } else { 0 };
        self.bad += data.len() as u64 - if good { expected as u64 } else { 0 };
        if self.times.last() != Some(&now) {
            self.times.push(now);
        }
    }
}

/// One end of the stream.
struct End {
    sender: Sender,
    receiver: Receiver,
}

/// Client that connects, opens paths, and begins the transfer when the handshake completes or when
/// [`Client::begin`] is called.
pub(super) struct Client {
    pub(super) dial: Dial,
    rng: Rng,
    order: Order,
    /// `true` if the client begins the transfer when the handshake completes.
    at_once: bool,
    end: Option<(StreamId, End)>,
    pub(super) arrivals: Arrivals,
    pub(super) failure: Option<String>,
}

impl Client {
    pub(super) fn new(dial: Dial, rng: Rng, order: Order, at_once: bool) -> Self {
        Self { dial, rng, order, at_once, end: None, arrivals: Arrivals::default(), failure: None }
    }

    /// Sends the order, followed by the data if the client is the sender.
    pub(super) fn begin(&mut self, now: Time, endpoint: &mut Endpoint) {
        let Some(connection) = self.dial.connection(endpoint) else { return };
        let Some(id) = connection.streams().open(Dir::Bi) else {
            self.failure = Some("no stream could be opened".to_owned());
            return;
        };
        let length = if self.order.upload { self.order.bytes } else { 0 };
        let sender = Sender::new(id, self.order.encode(), Pattern(self.order.key), length, None);
        self.end = Some((id, End { sender, receiver: Receiver::new(id, None) }));
        self.pump(now, connection.streams(), id);
    }

    fn pump(&mut self, now: Time, streams: &mut Streams, id: StreamId) {
        let Some((_, end)) = self.end.as_mut().filter(|(mine, _)| *mine == id) else { return };
        let (arrivals, order) = (&mut self.arrivals, self.order);
        let read = end.receiver.pump(streams, &mut self.rng, |offset, data| {
            arrivals.note(now, order, offset, data);
            Ok(())
        });
        if let Err(fault) = read.and_then(|()| end.sender.pump(streams)) {
            self.failure = Some(fault);
        }
    }
}

impl Application for Client {
    fn start(&mut self, now: Time, endpoint: &mut Endpoint) {
        self.failure = self.dial.start(now, endpoint).err();
    }

    fn on_event(&mut self, now: Time, endpoint: &mut Endpoint, handle: Handle, event: Event) {
        match event {
            Event::Connected { .. } if self.at_once => self.begin(now, endpoint),
            Event::Stream(StreamEvent::Readable(id) | StreamEvent::Writable(id)) => {
                if let Some(connection) = endpoint.connection(handle) {
                    self.pump(now, connection.streams(), id);
                }
            }
            Event::Closed(error) => self.failure = Some(format!("client: {error}")),
            _ => {}
        }
        self.on_time(now, endpoint);
    }

    fn next_time(&self) -> Option<Time> {
        self.dial.next_time()
    }

    fn on_time(&mut self, now: Time, endpoint: &mut Endpoint) {
        self.dial.on_time(now, endpoint);
    }
}

/// Server that carries out the transfer that the [`Order`] on the only stream describes.
pub(super) struct Server {
    rng: Rng,
    head: Vec<u8>,
    order: Option<Order>,
    receiver: Option<(StreamId, Receiver)>,
    sender: Option<Sender>,
    pub(super) arrivals: Arrivals,
    pub(super) failure: Option<String>,
}

impl Server {
    pub(super) fn new(rng: Rng) -> Self {
        let arrivals = Arrivals::default();
        Self { rng, head: Vec::new(), order: None, receiver: None, sender: None, arrivals, failure: None }
    }

    fn pump(&mut self, now: Time, streams: &mut Streams) -> Result<(), String> {
        let Some((id, receiver)) = &mut self.receiver else { return Ok(()) };
        let (head, order, arrivals) = (&mut self.head, &mut self.order, &mut self.arrivals);
        receiver.pump(streams, &mut self.rng, |offset, data| {
            let (first, rest) = data.split_at((HEAD - head.len()).min(data.len()));
            head.extend_from_slice(first);
            if order.is_none() {
                *order = head.first_chunk().map(Order::decode);
            }
            if let Some(order) = order.filter(|_| !rest.is_empty()) {
                arrivals.note(now, order, offset + first.len() as u64 - HEAD as u64, rest);
            }
            Ok(())
        })?;
        let Some(order) = self.order else { return Ok(()) };
        let length = if order.upload { 0 } else { order.bytes };
        let sender =
            self.sender.get_or_insert_with(|| Sender::new(*id, Vec::new(), Pattern(order.key), length, None));
        sender.pump(streams)
    }
}

impl Application for Server {
    fn on_event(&mut self, now: Time, endpoint: &mut Endpoint, handle: Handle, event: Event) {
        let Some(connection) = endpoint.connection(handle) else { return };
        match event {
            Event::Stream(event) => {
                if let StreamEvent::Opened(dir) = event
                    && let Some(id) = connection.streams().accept(dir)
                {
                    self.receiver = Some((id, Receiver::new(id, None)));
                }
                if let Err(fault) = self.pump(now, connection.streams()) {
                    self.failure = Some(fault);
                }
            }
            Event::Closed(error) => self.failure = Some(format!("server: {error}")),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_survive_encoding_and_wrong_bytes_are_seen() {
        let order = Order { upload: true, key: 0x0102_0304_0506_0708, bytes: 1000 };
        let head: [u8; HEAD] = order.encode().try_into().unwrap();
        assert_eq!(Order::decode(&head), order);

        let mut data = [0; 600];
        let mut arrivals = Arrivals::default();
        Pattern(order.key).fill(0, &mut data);
        arrivals.note(Time::ZERO, order, 0, &data);
        assert_eq!((arrivals.good, arrivals.bad), (600, 0));
        // The same bytes at another offset have wrong content.
        arrivals.note(Time::ZERO, order, 600, &data[..100]);
        assert_eq!((arrivals.good, arrivals.bad, arrivals.times.len()), (600, 100, 1));
        // Bytes beyond the end count as wrong.
        Pattern(order.key).fill(700, &mut data);
        arrivals.note(Time::from_millis(1), order, 700, &data[..400]);
        assert_eq!((arrivals.good, arrivals.bad, arrivals.times.len()), (900, 200, 2));
    }
}
