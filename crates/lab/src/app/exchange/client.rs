//! The client of an exchange.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use anabranch_transport::stream::{StreamEvent, Streams};
use anabranch_transport::{ClientConfig, Connection, Endpoint, Event, FourTuple, Handle};
use anabranch_wire::{Dir, Side, StreamId, Time};
use bytes::Bytes;

use super::super::{Application, End, Pattern, Receiver, Sender};
use super::{PUSH_HEAD, Request, code, datagram, datagram_index};
use crate::random::Rng;

/// One stream of the client.
#[derive(Clone, Debug)]
pub struct StreamPlan {
    /// Unidirectional streams have no download.
    pub dir: Dir,
    /// What the server is told.
    pub request: Request,
    /// Reset the stream in place of finishing it, after this many bytes of request and upload.
    pub reset: Option<u64>,
    /// Stop the download after this many bytes.
    pub stop: Option<u64>,
}

/// One connection; the next one begins when it is closed.
#[derive(Clone, Debug, Default)]
pub struct ConnectionPlan {
    /// Its streams, opened in this order as soon as the server allows.
    pub streams: Vec<StreamPlan>,
    /// DATAGRAM messages to send, of these lengths; the server sends each back.
    pub datagrams: Vec<usize>,
    /// Ask for a key update whenever this many streams are done; 0 for never.
    pub key_update_every: usize,
}

/// Runs connections one after the other and checks what comes back.
#[derive(Debug)]
pub struct ExchangeClient {
    config: ClientConfig,
    tuple: FourTuple,
    server_name: String,
    plans: VecDeque<ConnectionPlan>,
    rng: Rng,
    current: Option<Running>,
    /// What went wrong.
    pub faults: Vec<String>,
    /// Bytes that came and were what they should be.
    pub received: u64,
    /// Messages that came back.
    pub echoed: u64,
    /// Connections in which early data could be sent and was accepted.
    pub early: u32,
    /// Connections in which it was refused.
    pub refused: u32,
    /// Connections whose handshake completed.
    pub connected: u32,
    /// The current connection once its handshake is confirmed, with the time.
    pub confirmed: Option<(Handle, Time)>,
    /// Path changes that were reported.
    pub moves: u32,
}

/// A connection as it goes on.
#[derive(Debug)]
struct Running {
    handle: Handle,
    plan: ConnectionPlan,
    unopened: VecDeque<StreamPlan>,
    streams: BTreeMap<StreamId, ClientStream>,
    pushes: BTreeMap<StreamId, Pushed>,
    /// Pushes that are still to come, by key.
    expected_pushes: BTreeMap<u64, u64>,
    datagrams: VecDeque<(u64, usize)>,
    echoes: BTreeSet<u64>,
    done: usize,
    closing: bool,
    began_early: bool,
}

#[derive(Debug)]
struct ClientStream {
    plan: StreamPlan,
    sender: Sender,
    receiver: Option<Receiver>,
}

#[derive(Debug)]
struct Pushed {
    receiver: Receiver,
    head: Vec<u8>,
}

impl ExchangeClient {
    /// Will run `plans` from the host that `tuple` names as local, towards `server_name` at the remote address.
    pub fn new(
        config: ClientConfig,
        tuple: FourTuple,
        server_name: &str,
        plans: impl IntoIterator<Item = ConnectionPlan>,
        rng: Rng,
    ) -> Self {
        Self {
            config,
            tuple,
            server_name: server_name.to_owned(),
            plans: plans.into_iter().collect(),
            rng,
            current: None,
            faults: Vec::new(),
            received: 0,
            echoed: 0,
            early: 0,
            refused: 0,
            connected: 0,
            confirmed: None,
            moves: 0,
        }
    }

    /// Whether all connections have been run.
    pub fn is_done(&self) -> bool {
        self.current.is_none() && self.plans.is_empty()
    }

    /// What is missing, for people.
    pub fn missing(&self) -> String {
        match &self.current {
            None => format!("{} connections not begun", self.plans.len()),
            Some(running) => format!(
                "{} connections not begun, {} streams unopened, {:?} open, {} pushes to come, {} datagrams, closing: {}",
                self.plans.len(),
                running.unopened.len(),
                running.streams.keys(),
                running.expected_pushes.len() + running.pushes.len(),
                running.datagrams.len(),
                running.closing
            ),
        }
    }

    fn next_connection(&mut self, now: Time, endpoint: &mut Endpoint) {
        self.confirmed = None;
        let Some(plan) = self.plans.pop_front() else { return };
        match endpoint.connect(now, &self.config, self.tuple, &self.server_name) {
            Ok(handle) => {
                // Another port for the next one: this one's may still be closing.
                self.tuple.local.set_port(self.tuple.local.port() + 1);
                self.current = Some(Running::new(handle, plan));
                self.progress(now, endpoint, true);
            }
            Err(error) => self.faults.push(format!("connect: {error}")),
        }
    }

    /// Does whatever can be done now.
    fn progress(&mut self, now: Time, endpoint: &mut Endpoint, early: bool) {
        let Some(running) = &mut self.current else { return };
        let Some(connection) = endpoint.connection(running.handle) else { return };
        if early {
            running.began_early = connection.has_early_keys();
        }
        let result = running.open(connection.streams()).and_then(|()| {
            if !early {
                running.send_datagrams(connection)?;
            }
            running.settle();
            running.close_if_done(now, connection)
        });
        self.note(result);
    }

    fn note(&mut self, result: Result<(), String>) {
        if let Err(fault) = result {
            self.faults.push(fault);
        }
    }

    fn on_stream(&mut self, now: Time, endpoint: &mut Endpoint, event: StreamEvent) {
        let Some(running) = &mut self.current else { return };
        let Some(connection) = endpoint.connection(running.handle) else { return };
        let streams = connection.streams();
        let result = match event {
            StreamEvent::Opened(dir) => running.accept(streams, dir, &mut self.rng, &mut self.received),
            StreamEvent::Readable(id) => running.read(streams, id, &mut self.rng, &mut self.received),
            StreamEvent::Writable(id) => running.with_sender(id, |sender| sender.pump(streams)),
            StreamEvent::Finished(id) => running.with_sender(id, Sender::on_finished),
            StreamEvent::Stopped(id, reason) => running.stopped(id, reason),
            StreamEvent::Available(_) => Ok(()),
        };
        let done = running.settle();
        let every = running.plan.key_update_every;
        if every > 0 && (running.done - done..running.done).any(|n| (n + 1) % every == 0) {
            connection.update_keys();
        }
        self.note(result);
        self.progress(now, endpoint, false);
    }

    fn on_closed(&mut self, now: Time, endpoint: &mut Endpoint, reason: &str) {
        let Some(running) = self.current.take() else { return };
        if !running.closing {
            self.current = Some(running);
            self.faults.push(format!("connection ended early: {reason}; {}", self.missing()));
            self.current = None;
        }
        self.next_connection(now, endpoint);
    }

    fn on_datagrams(&mut self, endpoint: &mut Endpoint) {
        let Some(running) = &mut self.current else { return };
        let Some(connection) = endpoint.connection(running.handle) else { return };
        while let Some(message) = connection.datagrams().recv() {
            match datagram_index(0, &message) {
                Some(index) if running.echoes.insert(index) => self.echoed += 1,
                other => self
                    .faults
                    .push(format!("datagram {other:?} of {} bytes is damaged or a double", message.len())),
            }
        }
    }
}

impl Application for ExchangeClient {
    fn start(&mut self, now: Time, endpoint: &mut Endpoint) {
        self.next_connection(now, endpoint);
    }

    fn on_event(&mut self, now: Time, endpoint: &mut Endpoint, handle: Handle, event: Event) {
        if self.current.as_ref().is_none_or(|running| running.handle != handle) {
            if !matches!(event, Event::NewToken(_)) {
                self.faults.push(format!("{event:?} of a connection that is over"));
            }
            return;
        }
        match event {
            Event::Connected { early_data_accepted } => {
                self.connected += 1;
                let early = self.current.as_ref().is_some_and(|running| running.began_early);
                self.early += u32::from(early && early_data_accepted);
                self.refused += u32::from(early && !early_data_accepted);
                self.progress(now, endpoint, false);
            }
            Event::Confirmed => self.confirmed = Some((handle, now)),
            Event::Stream(event) => self.on_stream(now, endpoint, event),
            Event::DatagramReceived => self.on_datagrams(endpoint),
            Event::DatagramsUnblocked => self.progress(now, endpoint, false),
            Event::NewToken(token) => self.config.token = token,
            Event::PathChanged { .. } => self.moves += 1,
            Event::Closed(error) => self.on_closed(now, endpoint, &error.to_string()),
            Event::HandshakeDataReady => {}
        }
    }
}

impl Running {
    fn new(handle: Handle, plan: ConnectionPlan) -> Self {
        Self {
            handle,
            unopened: plan.streams.iter().cloned().collect(),
            streams: BTreeMap::new(),
            pushes: BTreeMap::new(),
            expected_pushes: BTreeMap::new(),
            datagrams: (0..).zip(plan.datagrams.iter().copied()).collect(),
            echoes: BTreeSet::new(),
            done: 0,
            closing: false,
            began_early: false,
            plan,
        }
    }

    fn open(&mut self, streams: &mut Streams) -> Result<(), String> {
        while let Some(plan) = self.unopened.front() {
            let Some(id) = streams.open(plan.dir) else { break };
            let Some(plan) = self.unopened.pop_front() else { break };
            let request = plan.request;
            let reset = plan.reset.map(|after| (after, code::CLIENT_RESET));
            let mut sender =
                Sender::new(id, request.encode(), request.upload_pattern(), request.upload, reset);
            sender.pump(streams)?;
            let receiver = (plan.dir == Dir::Bi)
                .then(|| Receiver::new(id, plan.stop.map(|after| (after, code::CLIENT_STOP))));
            // A request that is reset may never reach the server, and then nothing is pushed.
            if let Some(push) = request.push.filter(|_| plan.reset.is_none()) {
                self.expected_pushes.insert(request.key, push);
            }
            self.streams.insert(id, ClientStream { plan, sender, receiver });
        }
        Ok(())
    }

    fn send_datagrams(&mut self, connection: &mut Connection) -> Result<(), String> {
        use anabranch_transport::datagram::SendDatagramError;
        while let Some(&(index, len)) = self.datagrams.front() {
            let len = len.min(connection.datagrams().max_len().unwrap_or(0));
            match connection.datagrams().send(Bytes::from(datagram(0, index, len))) {
                Ok(()) => {}
                Err(SendDatagramError::Blocked) => break,
                Err(error) => return Err(format!("datagram of {len} bytes: {error}")),
            }
            self.datagrams.pop_front();
        }
        Ok(())
    }

    fn read(
        &mut self,
        streams: &mut Streams,
        id: StreamId,
        rng: &mut Rng,
        received: &mut u64,
    ) -> Result<(), String> {
        if let Some(push) = self.pushes.get_mut(&id) {
            push.read(streams, rng, received)?;
            return self.settle_push(id);
        }
        let Some(stream) = self.streams.get_mut(&id) else { return Ok(()) };
        let Some(receiver) = &mut stream.receiver else {
            return Err(format!("stream {id} is readable but for sending only"));
        };
        let pattern = stream.plan.request.download_pattern();
        receiver.pump(streams, rng, |offset, data| {
            *received += data.len() as u64;
            check(id, pattern, offset, data)
        })?;
        stream.check_end(id)
    }

    fn accept(
        &mut self,
        streams: &mut Streams,
        dir: Dir,
        rng: &mut Rng,
        received: &mut u64,
    ) -> Result<(), String> {
        while let Some(id) = streams.accept(dir) {
            if dir == Dir::Bi || id.initiator() != Side::Server {
                return Err(format!("the server opened stream {id}"));
            }
            self.pushes.insert(id, Pushed { receiver: Receiver::new(id, None), head: Vec::new() });
            self.read(streams, id, rng, received)?;
        }
        Ok(())
    }

    fn with_sender(
        &mut self,
        id: StreamId,
        f: impl FnOnce(&mut Sender) -> Result<(), String>,
    ) -> Result<(), String> {
        self.streams.get_mut(&id).map_or(Ok(()), |stream| f(&mut stream.sender))
    }

    fn stopped(&mut self, id: StreamId, reason: u64) -> Result<(), String> {
        let Some(stream) = self.streams.get_mut(&id) else { return Ok(()) };
        stream.sender.on_stopped(reason);
        match (stream.plan.request.server_stop, reason) {
            (Some(_), code::SERVER_STOP) => Ok(()),
            _ => Err(format!("stream {id} was stopped with code {reason}")),
        }
    }

    /// Forgets streams that are done; says how many.
    fn settle(&mut self) -> usize {
        let before = self.streams.len();
        self.streams.retain(|_, stream| {
            stream.sender.end.is_none() || stream.receiver.as_ref().is_some_and(|half| half.end.is_none())
        });
        let done = before - self.streams.len();
        self.done += done;
        done
    }

    fn settle_push(&mut self, id: StreamId) -> Result<(), String> {
        let Some(push) = self.pushes.get(&id) else { return Ok(()) };
        let Some(end) = push.receiver.end else { return Ok(()) };
        let key = push.announced().map(|(key, _)| key);
        let expected = key.and_then(|key| self.expected_pushes.remove(&key));
        let read = push.receiver.read.checked_sub(PUSH_HEAD as u64);
        // The push of a request that was reset comes unexpectedly, but not unannounced.
        let reset = key.is_some_and(|key| {
            self.plan.streams.iter().any(|plan| plan.request.key == key && plan.reset.is_some())
        });
        if end != End::Complete || !(reset || read == expected && read.is_some()) {
            return Err(format!("pushed stream {id}: {end:?} after {read:?} of {expected:?} bytes"));
        }
        self.pushes.remove(&id);
        Ok(())
    }

    fn close_if_done(&mut self, now: Time, connection: &mut Connection) -> Result<(), String> {
        let done = self.unopened.is_empty()
            && self.streams.is_empty()
            && self.pushes.is_empty()
            && self.expected_pushes.is_empty()
            && self.datagrams.is_empty();
        if !done || self.closing || connection.is_handshaking() {
            return Ok(());
        }
        self.closing = true;
        let streams = connection.streams();
        let left = (streams.pending_bytes(), streams.buffered_bytes());
        connection.close(now, code::DONE, Bytes::from_static(b"done"));
        if left == (0, 0) { Ok(()) } else { Err(format!("{left:?} bytes pending and buffered at the end")) }
    }
}

impl ClientStream {
    /// Whether a download that has ended did so as planned.
    fn check_end(&self, id: StreamId) -> Result<(), String> {
        let Some((receiver, end)) = self.receiver.as_ref().and_then(|half| Some((half, half.end?))) else {
            return Ok(());
        };
        let request = self.plan.request;
        let as_planned = match end {
            End::Complete => receiver.read == request.download && request.server_reset.is_none(),
            End::Stopped(_) => self.plan.stop.is_some(),
            End::Reset(code::SERVER_RESET) => request.server_reset.is_some(),
            End::Reset(code::NO_REQUEST) => self.plan.reset.is_some(),
            End::Reset(_) => false,
        };
        if as_planned {
            Ok(())
        } else {
            Err(format!("stream {id}: {end:?} at {} of {:?}", receiver.read, self.plan))
        }
    }
}

impl Pushed {
    fn announced(&self) -> Option<(u64, u64)> {
        let (key, length) = self.head.split_first_chunk()?;
        Some((u64::from_be_bytes(*key), u64::from_be_bytes(length.try_into().ok()?)))
    }

    fn read(&mut self, streams: &mut Streams, rng: &mut Rng, received: &mut u64) -> Result<(), String> {
        let head = &mut self.head;
        self.receiver.pump(streams, rng, |offset, data| {
            let (first, rest) = data.split_at((PUSH_HEAD - head.len()).min(data.len()));
            head.extend_from_slice(first);
            *received += data.len() as u64;
            let Some(key) = head.first_chunk().map(|key| u64::from_be_bytes(*key)) else { return Ok(()) };
            let request = Request { key, ..Request::default() };
            let offset = (offset + first.len() as u64).saturating_sub(PUSH_HEAD as u64);
            if request.push_pattern().matches(offset, rest) {
                Ok(())
            } else {
                Err(format!("push {key:#x} differs after {offset} bytes"))
            }
        })
    }
}

fn check(id: StreamId, pattern: Pattern, offset: u64, data: &[u8]) -> Result<(), String> {
    if pattern.matches(offset, data) {
        Ok(())
    } else {
        Err(format!("stream {id} differs in the {} bytes after {offset}", data.len()))
    }
}
