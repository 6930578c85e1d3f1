//! The server of an exchange.

use std::collections::BTreeMap;

use anabranch_transport::stream::{StreamEvent, Streams};
use anabranch_transport::{Connection, ConnectionError, Endpoint, Event, Handle};
use anabranch_wire::{Dir, StreamId, Time, TransportErrorCode};

use super::super::{Application, End, Receiver, Sender};
use super::{Request, code, datagram_index};
use crate::random::Rng;

/// Server that performs the requested actions and checks the data of the requests.
#[derive(Debug)]
pub struct ExchangeServer {
    rng: Rng,
    connections: BTreeMap<Handle, Connected>,
    /// Faults that the server found.
    pub faults: Vec<String>,
    /// Number of bytes received with the expected content.
    pub received: u64,
    /// Number of connections that have ended.
    pub closed: u32,
    /// Number of reported path changes.
    pub moves: u32,
}

#[derive(Debug, Default)]
struct Connected {
    streams: BTreeMap<StreamId, ServerStream>,
    pushes: BTreeMap<StreamId, Sender>,
    /// Requests whose push waits until the client's stream limit allows another stream.
    waiting: Vec<Request>,
}

#[derive(Debug)]
struct ServerStream {
    head: Vec<u8>,
    request: Option<Request>,
    /// `true` once the requested push has been queued.
    pushed: bool,
    receiver: Receiver,
    sender: Option<Sender>,
}

impl ExchangeServer {
    /// Creates a server that reads in pieces of random size, drawn from `rng`.
    pub fn new(rng: Rng) -> Self {
        Self { rng, connections: BTreeMap::new(), faults: Vec::new(), received: 0, closed: 0, moves: 0 }
    }

    /// Returns the number of open connections.
    pub fn open_connections(&self) -> usize {
        self.connections.len()
    }

    fn on_stream(
        &mut self,
        connection: &mut Connection,
        handle: Handle,
        event: StreamEvent,
    ) -> Result<(), String> {
        let connected = self.connections.entry(handle).or_default();
        let streams = connection.streams();
        match event {
            StreamEvent::Opened(dir) => {
                while let Some(id) = streams.accept(dir) {
                    connected.streams.insert(id, ServerStream::new(id));
                    connected.read(streams, id, &mut self.rng, &mut self.received)?;
                }
            }
            StreamEvent::Readable(id) => connected.read(streams, id, &mut self.rng, &mut self.received)?,
            StreamEvent::Writable(id) => connected.with_sender(id, |sender| sender.pump(streams))?,
            StreamEvent::Finished(id) => connected.with_sender(id, Sender::on_finished)?,
            StreamEvent::Stopped(id, reason) => {
                connected.with_sender(id, |sender| {
                    sender.on_stopped(reason);
                    let planned = reason == code::CLIENT_STOP;
                    if planned { Ok(()) } else { Err(format!("stream {id} was stopped with code {reason}")) }
                })?;
            }
            _ => {}
        }
        connected.push(streams)?;
        connected.forget_done();
        Ok(())
    }

    fn echo(&mut self, connection: &mut Connection) {
        while let Some(message) = connection.datagrams().recv() {
            if datagram_index(0, &message).is_none() {
                self.faults.push(format!("datagram of {} bytes is damaged", message.len()));
            }
            // Errors do not matter: a message that does not fit into the queue or the path is lost, as
            // DATAGRAM frames may be.
            let _ = connection.datagrams().send(message);
        }
    }
}

impl Application for ExchangeServer {
    fn on_event(&mut self, _now: Time, endpoint: &mut Endpoint, handle: Handle, event: Event) {
        let connection = endpoint.connection(handle);
        match (event, connection) {
            (Event::Connected { .. }, _) => {
                self.connections.entry(handle).or_default();
            }
            (Event::Stream(event), Some(connection)) => {
                if let Err(fault) = self.on_stream(connection, handle, event) {
                    self.faults.push(fault);
                }
            }
            (Event::DatagramReceived, Some(connection)) => self.echo(connection),
            (Event::PathChanged { .. }, _) => self.moves += 1,
            (Event::Closed(error), _) => {
                self.closed += 1;
                self.connections.remove(&handle);
                if !is_expected(&error) {
                    self.faults.push(format!("server: {error}"));
                }
            }
            _ => {}
        }
    }
}

/// Returns whether a connection may end with this error after its client is done.
fn is_expected(error: &ConnectionError) -> bool {
    match error {
        ConnectionError::PeerApplication { code, .. } => *code == code::DONE,
        // A client that closes before the server has received the client's Finished must not reveal the
        // application's code (RFC 9000 §10.2.3).
        ConnectionError::PeerTransport(error) => error.code == TransportErrorCode::APPLICATION_ERROR,
        // If the client's CONNECTION_CLOSE is lost, the server is reset or times out. A server connection for
        // a duplicated Initial times out, too.
        ConnectionError::TimedOut(_) | ConnectionError::HandshakeTimedOut | ConnectionError::Reset => true,
        _ => false,
    }
}

impl Connected {
    fn read(
        &mut self,
        streams: &mut Streams,
        id: StreamId,
        rng: &mut Rng,
        received: &mut u64,
    ) -> Result<(), String> {
        let Some(stream) = self.streams.get_mut(&id) else { return Ok(()) };
        stream.read(streams, rng, received)?;
        let Some(request) = stream.request else { return stream.refuse(streams, id) };
        if stream.sender.is_none() && id.dir() == Dir::Bi {
            let reset = request.server_reset.map(|after| (after, code::SERVER_RESET));
            let mut sender = Sender::new(id, Vec::new(), request.download_pattern(), request.download, reset);
            sender.pump(streams)?;
            stream.sender = Some(sender);
        }
        if request.push.is_some() && !std::mem::replace(&mut stream.pushed, true) {
            self.waiting.push(request);
        }
        stream.check_end(id, request)
    }

    /// Opens the waiting push streams that the client's stream limit allows.
    fn push(&mut self, streams: &mut Streams) -> Result<(), String> {
        while let Some(request) = self.waiting.last().copied() {
            let Some(id) = streams.open(Dir::Uni) else { break };
            self.waiting.pop();
            let length = request.push.unwrap_or(0);
            let head = [request.key.to_be_bytes(), length.to_be_bytes()].concat();
            let mut sender = Sender::new(id, head, request.push_pattern(), length, None);
            sender.pump(streams)?;
            self.pushes.insert(id, sender);
        }
        Ok(())
    }

    fn with_sender(
        &mut self,
        id: StreamId,
        f: impl FnOnce(&mut Sender) -> Result<(), String>,
    ) -> Result<(), String> {
        let sender = match self.pushes.get_mut(&id) {
            Some(sender) => Some(sender),
            None => self.streams.get_mut(&id).and_then(|stream| stream.sender.as_mut()),
        };
        sender.map_or(Ok(()), f)
    }

    fn forget_done(&mut self) {
        self.streams.retain(|id, stream| {
            let sent =
                id.dir() == Dir::Uni || stream.sender.as_ref().is_some_and(|sender| sender.end.is_some());
            let refused = stream.request.is_none();
            stream.receiver.end.is_none() || !sent && !refused
        });
        self.pushes.retain(|_, sender| sender.end.is_none());
    }
}

impl ServerStream {
    fn new(id: StreamId) -> Self {
        Self {
            head: Vec::new(),
            request: None,
            pushed: false,
            receiver: Receiver::new(id, None),
            sender: None,
        }
    }

    fn read(&mut self, streams: &mut Streams, rng: &mut Rng, received: &mut u64) -> Result<(), String> {
        loop {
            let (head, request) = (&mut self.head, &mut self.request);
            self.receiver.pump(streams, rng, |offset, data| {
                let (first, rest) = data.split_at((Request::LEN - head.len()).min(data.len()));
                head.extend_from_slice(first);
                *received += data.len() as u64;
                if request.is_none() {
                    *request = Request::decode(head);
                }
                let offset = (offset + first.len() as u64).saturating_sub(Request::LEN as u64);
                match request {
                    Some(request) if !request.upload_pattern().matches(offset, rest) => {
                        Err(format!("upload of {request:?} differs after {offset} bytes"))
                    }
                    _ => Ok(()),
                }
            })?;
            // The offset at which to stop is known only from the request. More bytes may already have been
            // read.
            let stop = self.request.and_then(|request| request.server_stop);
            if self.receiver.end.is_some() || self.receiver.stop.is_some() || stop.is_none() {
                return Ok(());
            }
            self.receiver.stop = stop.map(|after| (after, code::SERVER_STOP));
        }
    }

    /// Refuses to respond on a stream that the client reset before the request arrived.
    fn refuse(&mut self, streams: &mut Streams, id: StreamId) -> Result<(), String> {
        match self.receiver.end {
            None => Ok(()),
            Some(End::Reset(code::CLIENT_RESET)) => {
                if id.dir() == Dir::Bi {
                    // Errors do not matter: the client may have stopped the stream already.
                    let _ = streams.reset(id, code::NO_REQUEST);
                }
                Ok(())
            }
            Some(end) => Err(format!("stream {id}: {end:?} before the request was complete")),
        }
    }

    /// Checks that an ended upload ended as announced.
    fn check_end(&self, id: StreamId, request: Request) -> Result<(), String> {
        let as_announced = match self.receiver.end {
            None | Some(End::Reset(code::CLIENT_RESET)) => true,
            Some(End::Complete) => self.receiver.read == Request::LEN as u64 + request.upload,
            Some(End::Stopped(_)) => request.server_stop.is_some(),
            Some(End::Reset(_)) => false,
        };
        if as_announced {
            Ok(())
        } else {
            Err(format!("stream {id}: {:?} at {} of {request:?}", self.receiver.end, self.receiver.read))
        }
    }
}
