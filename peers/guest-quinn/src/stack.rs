//! Adapter of quinn-proto or noq-proto to the guest protocol: an endpoint with one connection and its
//! application, driven by the steps that the lab sends.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anabranch_guest::{Datagram, Hello, Outgoing, Progress, Role, Stack, Step, Workload};
use anabranch_seeded::{VirtualClock, seed_thread};
use anabranch_wire::Time;
use bytes::{Bytes, BytesMut};
use proto::congestion::ControllerFactory;
use proto::{
    Connection, ConnectionHandle, DatagramEvent, Dir, EcnCodepoint, Endpoint, Event, ReadError, StreamEvent,
    StreamId, Transmit, VarInt, WriteError,
};

use crate::{flavor, settings};

/// Maximum number of datagrams of a batch, as with segmentation offload.
const BATCH: usize = 10;
/// Maximum number of bytes that a server writes to its stream at once.
const PIECE: usize = 256 * 1024;

/// Endpoint with its only connection and the state of its application.
pub struct Quinn {
    hello: Hello,
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
    clock: Arc<VirtualClock>,
    /// Instant of the stack's clock at which virtual time begins.
    origin: Instant,
    opener: flavor::Opener,
    zeros: Vec<u8>,
    transport: Arc<proto::TransportConfig>,
    /// Stream of the download.
    stream: Option<StreamId>,
    /// Bytes of the request that the server has received so far.
    request: Vec<u8>,
    /// Number of bytes that the server must still write; `None` before the request is complete and after the
    /// last byte.
    left: Option<u64>,
    progress: Progress,
}

impl Quinn {
    pub fn new(hello: &Hello, factory: Arc<dyn ControllerFactory + Send + Sync>) -> Result<Self, String> {
        seed_thread(hello.seed ^ u64::from(hello.role == Role::Server) << 63);
        let clock = VirtualClock::new();
        let transport = settings::transport(hello, factory)?;
        let server = match hello.role {
            Role::Client => None,
            Role::Server => {
                let mut config = settings::server(hello, &clock)?;
                config.transport_config(Arc::clone(&transport));
                Some(Arc::new(config))
            }
        };
        let endpoint = flavor::endpoint(settings::endpoint(), server, settings::seed(hello));
        Ok(Self {
            endpoint,
            connection: None,
            clock,
            origin: Instant::now(),
            opener: flavor::Opener::new(hello),
            zeros: vec![0; PIECE],
            transport,
            stream: None,
            request: Vec::new(),
            left: None,
            progress: Progress::default(),
            hello: hello.clone(),
        })
    }

    fn connect(&mut self, now: Instant) -> Result<(), String> {
        let mut config = settings::client(&self.hello, &self.clock)?;
        config.transport_config(Arc::clone(&self.transport));
        let remote = self.hello.paths[0].remote;
        let connected = self.endpoint.connect(now, config, remote, &self.hello.server_name);
        self.connection = Some(connected.map_err(|error| error.to_string())?);
        Ok(())
    }

    fn receive(
        &mut self,
        now: Instant,
        datagram: &Datagram<'_>,
        out: &mut Outgoing<'_>,
    ) -> Result<(), String> {
        let mut buffer = Vec::new();
        let ecn = EcnCodepoint::from_bits(datagram.ecn);
        let payload = BytesMut::from(datagram.payload);
        let event = flavor::handle(&mut self.endpoint, now, datagram, ecn, payload, &mut buffer);
        match event {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                if let Some((own, connection)) = &mut self.connection
                    && *own == handle
                {
                    connection.handle_event(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) if self.connection.is_none() => {
                match self.endpoint.accept(incoming, now, &mut buffer, None) {
                    Ok(connected) => self.connection = Some(connected),
                    Err(error) => return Err(format!("the connection was not accepted: {:?}", error.cause)),
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => self.endpoint.ignore(incoming),
            Some(DatagramEvent::Response(transmit)) => self.send(&transmit, &buffer, out)?,
            None => {}
        }
        Ok(())
    }

    fn send(&self, transmit: &Transmit, buffer: &[u8], out: &mut Outgoing<'_>) -> Result<(), String> {
        let from = |ip| self.hello.paths.iter().find(|path| path.local.ip() == ip).map(|path| path.local);
        let local = transmit.src_ip.and_then(from).unwrap_or(self.hello.paths[0].local);
        let ecn = transmit.ecn.map_or(0, |ecn| ecn as u8);
        for payload in buffer[..transmit.size].chunks(transmit.segment_size.unwrap_or(transmit.size).max(1)) {
            if !out.send(local, transmit.destination, ecn, payload) {
                return Err("more datagrams at one instant than an answer holds".to_owned());
            }
        }
        Ok(())
    }

    /// Lets the connection and the application act until neither has anything more to do at this instant.
    fn drive(&mut self, now: Instant, out: &mut Outgoing<'_>) -> Result<(), String> {
        loop {
            let Some((handle, connection)) = &mut self.connection else { return Ok(()) };
            let handle = *handle;
            let mut idle = true;
            while connection.poll_timeout().is_some_and(|at| at <= now) {
                connection.handle_timeout(now);
            }
            while let Some(event) = connection.poll_endpoint_events() {
                idle = false;
                if let Some(event) = self.endpoint.handle_event(handle, event) {
                    connection.handle_event(event);
                }
            }
            while let Some(event) = self.connection.as_mut().and_then(|(_, connection)| connection.poll()) {
                idle = false;
                self.event(now, event)?;
            }
            let Some((_, connection)) = &mut self.connection else { return Ok(()) };
            self.opener.attempt(now, connection)?;
            let mut buffer = Vec::new();
            while let Some(transmit) =
                self.connection.as_mut().and_then(|(_, one)| flavor::poll(one, now, BATCH, &mut buffer))
            {
                idle = false;
                self.send(&transmit, &buffer, out)?;
                buffer.clear();
            }
            if idle {
                return Ok(());
            }
        }
    }

    fn event(&mut self, now: Instant, event: Event) -> Result<(), String> {
        match event {
            Event::Connected => {
                self.progress.connected = true;
                if self.hello.role == Role::Client {
                    self.ask()?;
                }
            }
            Event::ConnectionLost { reason } if !self.progress.done => match self.hello.role {
                Role::Client => return Err(format!("the connection was lost: {reason}")),
                // The client has received everything, or reports the error itself.
                Role::Server => {}
            },
            Event::Stream(StreamEvent::Opened { dir: Dir::Bi }) => {
                if let Some((_, connection)) = &mut self.connection {
                    self.stream = self.stream.or(connection.streams().accept(Dir::Bi));
                }
                self.work(now)?;
            }
            Event::Stream(StreamEvent::Readable { .. } | StreamEvent::Writable { .. }) => self.work(now)?,
            Event::Stream(StreamEvent::Stopped { error_code, .. }) => {
                return Err(format!("the stream was stopped: {error_code}"));
            }
            _ => {}
        }
        Ok(())
    }

    /// Sends the client's request.
    fn ask(&mut self) -> Result<(), String> {
        let Some((_, connection)) = &mut self.connection else { return Ok(()) };
        let Workload::Download { bytes } = self.hello.workload;
        let id = connection.streams().open(Dir::Bi).ok_or("no stream may be opened")?;
        let mut stream = connection.send_stream(id);
        let written = stream.write(&bytes.to_be_bytes()).map_err(|error| error.to_string())?;
        stream.finish().map_err(|error| error.to_string())?;
        self.stream = Some(id);
        if written == 8 { Ok(()) } else { Err("the request was not taken".to_owned()) }
    }

    /// Reads all bytes that have arrived, and writes as many as flow control and the send window permit.
    fn work(&mut self, now: Instant) -> Result<(), String> {
        let Some(id) = self.stream else { return Ok(()) };
        let at_end = self.read(id)?;
        let Some((_, connection)) = &mut self.connection else { return Ok(()) };
        match self.hello.role {
            Role::Client if at_end => {
                let Workload::Download { bytes } = self.hello.workload;
                if self.progress.delivered != bytes {
                    return Err(format!("the stream ended after {} bytes", self.progress.delivered));
                }
                self.progress.done = true;
                connection.close(now, VarInt::from_u32(0), Bytes::new());
            }
            Role::Client => {}
            Role::Server => {
                if self.left.is_none() && at_end {
                    self.left = self.request[..].try_into().ok().map(u64::from_be_bytes);
                }
                self.write(id)?;
            }
        }
        Ok(())
    }

    /// Reads all bytes that have arrived. Returns whether the end of the stream was reached.
    fn read(&mut self, id: StreamId) -> Result<bool, String> {
        let Some((_, connection)) = &mut self.connection else { return Ok(false) };
        let mut stream = connection.recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else { return Ok(false) };
        let end = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) if self.hello.role == Role::Server => {
                    self.request.extend_from_slice(&chunk.bytes)
                }
                Ok(Some(chunk)) => self.progress.delivered += chunk.bytes.len() as u64,
                Ok(None) => break Ok(true),
                Err(ReadError::Blocked) => break Ok(false),
                Err(error) => break Err(error.to_string()),
            }
        };
        // The result shows whether flow control credit must be sent. This step sends pending frames in any
        // case.
        let _ = chunks.finalize();
        end
    }

    fn write(&mut self, id: StreamId) -> Result<(), String> {
        let Some((_, connection)) = &mut self.connection else { return Ok(()) };
        let mut stream = connection.send_stream(id);
        while let Some(left) = self.left {
            if left == 0 {
                // Fails if the client has received everything and no longer needs the stream.
                let _ = stream.finish();
                self.left = None;
                self.stream = None;
                return Ok(());
            }
            let piece = left.min(PIECE as u64) as usize;
            match stream.write(&self.zeros[..piece]) {
                Ok(written) => self.left = Some(left - written as u64),
                Err(WriteError::Blocked) => return Ok(()),
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(())
    }

    fn play(&mut self, step: &Step<'_>, out: &mut Outgoing<'_>) -> Result<(), String> {
        self.clock.set(Time::from_nanos(step.now));
        let now = self.origin + Duration::from_nanos(step.now);
        if step.number == 0 && self.hello.role == Role::Client {
            self.connect(now)?;
        }
        for datagram in &step.datagrams {
            self.receive(now, datagram, out)?;
        }
        self.drive(now, out)?;
        let Some((_, connection)) = &mut self.connection else { return Ok(()) };
        let deadline = [connection.poll_timeout(), self.opener.next()].into_iter().flatten().min();
        let nanos = |at: Instant| (at - self.origin).as_nanos() as u64;
        self.progress.deadline = deadline.map(nanos);
        (self.progress.repeated, self.progress.lost) = flavor::losses(connection);
        Ok(())
    }
}

impl Stack for Quinn {
    fn step(&mut self, step: &Step<'_>, out: &mut Outgoing<'_>) -> Progress {
        match self.play(step, out) {
            Ok(()) => self.progress.clone(),
            Err(reason) => Progress::failed(reason),
        }
    }
}
