//! Adapter of quiche to the guest protocol: a connection and its application, driven by the steps that the
//! lab sends.

use std::collections::VecDeque;
use std::time::Instant;

use anabranch_guest::{Hello, Outgoing, Path, Progress, Role, Stack, Step, Workload};
use quiche::{Config, CongestionControlAlgorithm, Connection, ConnectionId, Error, RecvInfo};

use crate::{clock, config};

/// ID of the only stream, the client's first bidirectional one.
const STREAM: u64 = 0;
/// Maximum number of bytes that are read or written at once.
const PIECE: usize = 64 * 1024;

/// Endpoint with one connection, the state of its application, and the packets that pacing delays.
pub struct Quiche {
    hello: Hello,
    path: Path,
    config: Config,
    connection: Option<Connection>,
    /// Packets that quiche has created, with the instants at which its pacing lets them leave.
    paced: VecDeque<(Instant, Vec<u8>)>,
    buffer: Vec<u8>,
    /// Bytes of the request that the server has received so far.
    request: Vec<u8>,
    /// Number of bytes that the server must still write; `None` before the request is complete and after the
    /// last byte.
    left: Option<u64>,
    progress: Progress,
}

impl Quiche {
    pub fn new(hello: &Hello, congestion: CongestionControlAlgorithm) -> Result<Self, String> {
        Ok(Self {
            path: hello.paths[0],
            config: config::of(hello, congestion)?,
            connection: None,
            paced: VecDeque::new(),
            buffer: vec![0; PIECE],
            request: Vec::new(),
            left: None,
            progress: Progress::default(),
            hello: hello.clone(),
        })
    }

    /// Returns a connection ID that is derived from the seed and the role.
    fn id(&self) -> ConnectionId<'static> {
        let end = u64::from(self.hello.role == Role::Server);
        ConnectionId::from_vec((self.hello.seed << 1 | end).to_be_bytes().repeat(2))
    }

    fn receive(&mut self, step: &Step<'_>) -> Result<(), String> {
        for datagram in &step.datagrams {
            let mut payload = datagram.payload.to_vec();
            if self.connection.is_none() && self.hello.role == Role::Server {
                let (id, Path { local, remote }) = (self.id(), self.path);
                let connection = quiche::accept(&id, None, local, remote, &mut self.config);
                self.connection = Some(connection.map_err(|error| error.to_string())?);
            }
            let Some(connection) = &mut self.connection else { continue };
            let info = RecvInfo { from: datagram.remote, to: datagram.local };
            match connection.recv(&mut payload, info) {
                Ok(_) | Err(Error::Done) => {}
                // Errors after the transfer is complete do not matter.
                Err(_) if self.progress.done => {}
                Err(error) => return Err(format!("a datagram was not taken: {error}")),
            }
        }
        Ok(())
    }

    /// Lets the application read and write as much as the connection permits.
    fn work(&mut self) -> Result<(), String> {
        let Some(connection) = &mut self.connection else { return Ok(()) };
        if connection.is_established() && !self.progress.connected {
            self.progress.connected = true;
            if self.hello.role == Role::Client {
                let Workload::Download { bytes } = self.hello.workload;
                let request = bytes.to_be_bytes();
                connection.stream_send(STREAM, &request, true).map_err(|error| error.to_string())?;
            }
        }
        let at_end = self.read()?;
        let Some(connection) = &mut self.connection else { return Ok(()) };
        match self.hello.role {
            Role::Client if at_end && !self.progress.done => {
                let Workload::Download { bytes } = self.hello.workload;
                if self.progress.delivered != bytes {
                    return Err(format!("the stream ended after {} bytes", self.progress.delivered));
                }
                self.progress.done = true;
                // Fails if the connection is closed already.
                let _ = connection.close(true, 0, b"");
            }
            Role::Client => {}
            Role::Server => {
                if at_end {
                    self.left = self.request[..].try_into().ok().map(u64::from_be_bytes);
                }
                self.write()?;
            }
        }
        Ok(())
    }

    /// Reads all bytes that have arrived. Returns whether the end of the stream was reached.
    fn read(&mut self) -> Result<bool, String> {
        let Some(connection) = &mut self.connection else { return Ok(false) };
        while connection.stream_readable(STREAM) {
            match connection.stream_recv(STREAM, &mut self.buffer) {
                Ok((len, end)) => {
                    match self.hello.role {
                        Role::Client => self.progress.delivered += len as u64,
                        Role::Server => self.request.extend_from_slice(&self.buffer[..len]),
                    }
                    if end {
                        return Ok(true);
                    }
                }
                Err(Error::Done) => break,
                Err(error) => return Err(format!("the stream cannot be read: {error}")),
            }
        }
        Ok(false)
    }

    fn write(&mut self) -> Result<(), String> {
        let Some(connection) = &mut self.connection else { return Ok(()) };
        let zeros = [0; PIECE];
        while let Some(left) = self.left {
            let piece = left.min(PIECE as u64) as usize;
            match connection.stream_send(STREAM, &zeros[..piece], piece as u64 == left) {
                Ok(taken) if taken as u64 == left => self.left = None,
                Ok(0) | Err(Error::Done) => break,
                Ok(taken) => self.left = Some(left - taken as u64),
                Err(error) => return Err(format!("the stream cannot be written: {error}")),
            }
        }
        Ok(())
    }

    /// Sends packets that are due, and takes further ones from quiche until pacing delays one or none are
    /// left.
    fn send(&mut self, now: Instant, out: &mut Outgoing<'_>) -> Result<(), String> {
        loop {
            while self.paced.front().is_some_and(|(at, _)| *at <= now) {
                let Some((_, payload)) = self.paced.pop_front() else { break };
                if !out.send(self.path.local, self.path.remote, 0, &payload) {
                    return Err("more datagrams at one instant than an answer holds".to_owned());
                }
            }
            let Some(connection) = &mut self.connection else { return Ok(()) };
            if !self.paced.is_empty() {
                return Ok(());
            }
            match connection.send(&mut self.buffer) {
                Ok((len, info)) => self.paced.push_back((info.at, self.buffer[..len].to_vec())),
                Err(Error::Done) => return Ok(()),
                Err(error) => return Err(format!("nothing can be sent: {error}")),
            }
            self.work()?;
        }
    }

    fn play(&mut self, step: &Step<'_>, out: &mut Outgoing<'_>) -> Result<(), String> {
        let now = clock::set(step.now);
        if step.number == 0 && self.hello.role == Role::Client {
            let (id, Path { local, remote }) = (self.id(), self.path);
            let name = Some(self.hello.server_name.as_str());
            let connection = quiche::connect(name, &id, local, remote, &mut self.config);
            self.connection = Some(connection.map_err(|error| error.to_string())?);
        }
        self.receive(step)?;
        if let Some(connection) = &mut self.connection
            && connection.timeout_instant().is_some_and(|at| at <= now)
        {
            connection.on_timeout();
        }
        self.work()?;
        self.send(now, out)?;
        let Some(connection) = &mut self.connection else { return Ok(()) };
        if connection.is_closed() && self.hello.role == Role::Client && !self.progress.done {
            let why = connection.peer_error().or(connection.local_error());
            return Err(format!("the connection is closed: {why:?}"));
        }
        let due = [connection.timeout_instant(), self.paced.front().map(|(at, _)| *at)];
        let next = due.into_iter().flatten().min();
        // A timeout that was just handled and is due again is postponed by a nanosecond, so that virtual time
        // advances.
        self.progress.deadline =
            next.map(|at| clock::nanos(at, (now, step.now))).map(|at| at.max(step.now + 1));
        let stats = connection.stats();
        self.progress.repeated = Some(stats.stream_retrans_bytes);
        self.progress.lost = Some(stats.lost as u64);
        Ok(())
    }
}

impl Stack for Quiche {
    fn step(&mut self, step: &Step<'_>, out: &mut Outgoing<'_>) -> Progress {
        match self.play(step, out) {
            Ok(()) => self.progress.clone(),
            Err(reason) => Progress::failed(reason),
        }
    }
}
