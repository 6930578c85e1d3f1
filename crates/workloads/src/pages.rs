//! Client of our own stack.

use std::hint::black_box;
use std::time::Instant;

use anabranch_http3::{Config, Event, ReadError, Session};
use anabranch_transport::{Connection, FourTuple, Handle, TransmitBuf, TransportConfig};
use anabranch_wire::{Side, StreamId, Time, Version};
use bytes::Bytes;
use http::{Request, Response};

use super::super::ours::transport;
use crate::Error;
use crate::memory::{Memory, Wire, borrow};

/// Number of responses in one sample, and bytes of content in each.
const ANSWERS: usize = 80;
const CONTENT: usize = 31_250;

/// Number of packets in a batch for the client.
const BATCH: usize = 157;

/// Number of samples that are discarded before the measured ones.
const WARM_UP: u32 = 5;

/// Number of round trips for settings, requests and their acknowledgments.
const EXCHANGES: usize = 5;

/// Takes the samples and returns their milliseconds.
pub(super) fn measure(version: Version, samples: u32) -> Result<Vec<f64>, Error> {
    for _ in 0..WARM_UP {
        Pages::new(version)?.sample()?;
    }
    (0..samples).map(|_| Pages::new(version)?.sample()).collect()
}

/// HTTP/3 session of one endpoint, and its unread events.
struct End {
    session: Session,
    handle: Handle,
    events: Vec<Event>,
}

/// Client that has sent its requests, and the packets of the responses.
struct Pages {
    memory: Memory,
    client: End,
    server: End,
    packets: Vec<Wire>,
}

/// Returns a configuration with which the server may send all responses at once.
fn generous(version: Version) -> TransportConfig {
    let transport = transport(version);
    let streams = transport.streams().clone();
    transport.with_streams(
        streams.with_connection_window(1 << 24).with_connection_window_max(1 << 24).with_send_buffer(1 << 24),
    )
}

impl Pages {
    fn new(version: Version) -> Result<Self, Error> {
        let mut memory = Memory::new(generous(version))?;
        let (client, server) = memory.connect()?;
        let end = |side, handle| {
            let config = Config::default().with_grease(false);
            End { session: Session::new(side, config), handle, events: Vec::new() }
        };
        let (client, server) = (end(Side::Client, client), end(Side::Server, server));
        let mut pages = Self { memory, client, server, packets: Vec::new() };
        pages.client.session.start(pages.memory.client(pages.client.handle)?.streams());
        pages.server.session.start(pages.memory.server(pages.server.handle)?.streams());
        pages.exchange()?;
        let request = Request::get("https://localhost/").body(())?.into_parts().0;
        for _ in 0..ANSWERS {
            let streams = pages.memory.client(pages.client.handle)?.streams();
            pages.client.session.request(streams, &request, true)?;
        }
        pages.exchange()?;
        pages.answer()?;
        let now = pages.memory.now;
        pages.packets = drain(pages.memory.server(pages.server.handle)?, now);
        pages.client.events.clear();
        Ok(pages)
    }

    /// Delivers the pending packets of both endpoints.
    fn exchange(&mut self) -> Result<(), Error> {
        let now = self.memory.now;
        for _ in 0..EXCHANGES {
            let to_server = drain(self.memory.client(self.client.handle)?, now);
            self.server.receive(self.memory.server(self.server.handle)?, now, &mut { to_server });
            let to_client = drain(self.memory.server(self.server.handle)?, now);
            self.client.receive(self.memory.client(self.client.handle)?, now, &mut { to_client });
        }
        Ok(())
    }

    /// Sends the server's responses to all requests.
    fn answer(&mut self) -> Result<(), Error> {
        let head = Response::builder().header("server", "anabranch").header("content-length", CONTENT);
        let head = head.body(())?.into_parts().0;
        let content = Bytes::from(vec![0x5a; CONTENT]);
        let streams = self.memory.server(self.server.handle)?.streams();
        let session = &mut self.server.session;
        let mut answered = 0;
        while let Some((id, _)) = session.accept() {
            session.respond(streams, id, &head, false)?;
            let mut content = content.clone();
            while !content.is_empty() {
                session.write(streams, id, &mut content)?;
            }
            session.finish(streams, id)?;
            answered += 1;
        }
        if answered == ANSWERS { Ok(()) } else { Err(format!("{answered} requests arrived").into()) }
    }

    /// Measures the milliseconds that the client takes for all responses.
    fn sample(mut self) -> Result<f64, Error> {
        let now = self.memory.now;
        let connection = self.memory.client(self.client.handle)?;
        let (mut read, mut finished) = (0, 0);
        let begin = Instant::now();
        for batch in self.packets.chunks_mut(BATCH) {
            self.client.receive(connection, now, batch);
            self.client.take(connection, &mut read, &mut finished)?;
        }
        let elapsed = begin.elapsed();
        if (read, finished) != (ANSWERS * CONTENT, ANSWERS) {
            return Err(format!("{finished} answers with {read} bytes in all").into());
        }
        Ok(elapsed.as_secs_f64() * 1e3)
    }
}

impl End {
    /// Delivers datagrams to the connection, and its events to the session.
    fn receive(&mut self, connection: &mut Connection, now: Time, wires: &mut [Wire]) {
        let mut datagrams = borrow(wires);
        connection.handle_batch(now, &mut datagrams);
        while let Some(event) = connection.poll_event() {
            if let anabranch_transport::Event::Stream(event) = event {
                self.session.on_event(connection.streams(), event);
            }
        }
        self.events.extend(std::iter::from_fn(|| self.session.poll_event()));
    }

    /// Reads the response headers and the content that have arrived.
    fn take(
        &mut self,
        connection: &mut Connection,
        read: &mut usize,
        finished: &mut usize,
    ) -> Result<(), Error> {
        for event in std::mem::take(&mut self.events) {
            if let Event::Response(id) | Event::Readable(id) = event {
                while let Some(head) = self.session.response(id) {
                    black_box(head);
                }
                *finished += usize::from(self.content(connection, id, read)?);
            }
        }
        Ok(())
    }

    /// Reads the available content of a response. Returns whether it was complete.
    fn content(
        &mut self,
        connection: &mut Connection,
        id: StreamId,
        read: &mut usize,
    ) -> Result<bool, Error> {
        let streams = connection.streams();
        loop {
            match self.session.peek(streams, id) {
                Ok(bytes) => {
                    let len = black_box(bytes).len();
                    self.session.consume(streams, id, len);
                    *read += len;
                }
                Err(ReadError::Blocked) => return Ok(false),
                Err(ReadError::Finished) => {
                    self.session.release(streams, id);
                    return Ok(true);
                }
                Err(ReadError::Closed) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Returns the packets that an endpoint has to send, one per datagram, as they arrive at the other endpoint.
fn drain(connection: &mut Connection, now: Time) -> Vec<Wire> {
    let mut buffer = TransmitBuf::new(1);
    let mut sent = Vec::new();
    while let Some(transmit) = connection.poll_transmit(now, &mut buffer) {
        let tuple = FourTuple { local: transmit.tuple.remote, remote: transmit.tuple.local };
        sent.push(Wire { tuple, bytes: buffer.filled(&transmit).to_vec() });
    }
    sent
}
