//! Endpoint of an HTTP/3 connection without sockets.

use std::hint::black_box;

use anabranch_http3::{Config, Event, ReadError, Session};
use anabranch_transport::{Connection, FourTuple, Handle, TransmitBuf};
use anabranch_wire::{Side, StreamId, Time};

use crate::Error;
use crate::memory::{Wire, borrow};

/// HTTP/3 session of one endpoint, and its unread events.
pub(crate) struct End {
    pub(crate) session: Session,
    pub(crate) handle: Handle,
    pub(crate) events: Vec<Event>,
    buffer: TransmitBuf,
}

impl End {
    pub(crate) fn new(side: Side, handle: Handle) -> Self {
        let config = Config::default().with_grease(false);
        Self { session: Session::new(side, config), handle, events: Vec::new(), buffer: TransmitBuf::new(1) }
    }

    /// Delivers datagrams to the connection, and its events to the session.
    pub(crate) fn receive(&mut self, connection: &mut Connection, now: Time, wires: &mut [Wire]) {
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
    pub(crate) fn take(
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

    /// Returns the packets that the endpoint has to send, one per datagram, as they arrive at the other endpoint.
    pub(crate) fn drain(&mut self, connection: &mut Connection, now: Time) -> Vec<Wire> {
        let mut sent = Vec::new();
        while let Some(transmit) = connection.poll_transmit(now, &mut self.buffer) {
            let tuple = FourTuple { local: transmit.tuple.remote, remote: transmit.tuple.local };
            sent.push(Wire { tuple, bytes: self.buffer.filled(&transmit).to_vec() });
        }
        sent
    }
}
