//! The client and the server, each a thread in its namespace.

use core::time::Duration;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use socket2::{Domain, Protocol, Socket, Type};

use super::tls::{self, Stream};
use super::topology::{CLIENT_PORT, PORT, SERVER, client_address};
use crate::order::{Order, Work};
use crate::stack::Stack;

/// Maximum number of bytes that are written or read at once.
pub(super) const CHUNK: usize = 256 << 10;
/// Length of a request for a download in bytes.
pub(super) const REQUEST: u64 = 8;

/// Number of bytes that the receiver of a download or an upload has received.
pub(super) type Received = AtomicU64;

/// Times that an end measured.
#[derive(Default)]
pub(super) struct Times {
    pub(super) handshake: Option<Instant>,
    pub(super) last_byte: Option<Instant>,
    /// Times at which requests were made, and at which they were answered.
    pub(super) requests: Vec<(Instant, Instant)>,
}

/// End whose work is done. Its connection remains open until this value is dropped.
pub(super) struct Ended {
    pub(super) times: Times,
    /// Keeps the connection open.
    _stream: Stream,
}

impl Stack {
    /// Returns the protocol of the stack's sockets.
    pub(super) fn protocol(self) -> Protocol {
        if self.is_multipath() { Protocol::MPTCP } else { Protocol::TCP }
    }
}

/// Opens a socket at `address` in the namespace of this thread.
pub(super) fn open(protocol: Protocol, address: (Ipv4Addr, u16)) -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(protocol))?;
    socket.bind(&SocketAddr::from(address).into())?;
    Ok(socket)
}

/// Opens the server's socket in the namespace of this thread.
pub(super) fn listen(stack: Stack) -> io::Result<TcpListener> {
    let socket = open(stack.protocol(), (SERVER, PORT))?;
    socket.listen(8)?;
    Ok(socket.into())
}

/// Serves one client.
pub(super) fn serve(order: &Order, listener: &TcpListener, received: &Received) -> io::Result<Ended> {
    let (connection, _) = listener.accept()?;
    let mut stream = tls::server(order, prepared(connection)?)?;
    let mut times = Times::default();
    let chunk = vec![0; CHUNK];
    match order.work {
        Work::Download { bytes } => {
            stream.read_exact(&mut [0; REQUEST as usize])?;
            send(&mut stream, bytes, &chunk)?;
        }
        Work::Upload { bytes } => {
            receive(&mut stream, bytes, received)?;
            times.last_byte = Some(Instant::now());
        }
        Work::Requests { request, answer, count, .. } => {
            for _ in 0..count {
                receive(&mut stream, request, &Received::default())?;
                send(&mut stream, answer, &chunk)?;
            }
        }
        Work::Competition { .. } | Work::Train { .. } => {}
    }
    Ok(Ended { times, _stream: stream })
}

/// Connects to the server and does the client's work.
pub(super) fn ask(order: &Order, received: &Received) -> io::Result<Ended> {
    let socket = open(order.stack.protocol(), (client_address(order, 0), CLIENT_PORT))?;
    socket.connect(&SocketAddr::from((SERVER, PORT)).into())?;
    let mut stream = tls::client(order, prepared(socket.into())?)?;
    let mut times = Times { handshake: Some(Instant::now()), ..Times::default() };
    match order.work {
        Work::Download { bytes } => {
            stream.write_all(&bytes.to_be_bytes())?;
            stream.flush()?;
            receive(&mut stream, bytes, received)?;
            times.last_byte = Some(Instant::now());
        }
        Work::Upload { bytes } => send(&mut stream, bytes, &vec![0; CHUNK])?,
        Work::Requests { request, answer, every_ns, count } => {
            times.requests = requests(&mut stream, [request, answer], Duration::from_nanos(every_ns), count)?;
            times.last_byte = times.requests.iter().map(|(_, answered)| *answered).max();
        }
        Work::Competition { .. } | Work::Train { .. } => {}
    }
    Ok(Ended { times, _stream: stream })
}

/// Sends requests at fixed intervals, regardless of outstanding answers. Answers arrive in the order of the
/// requests.
fn requests(
    stream: &mut Stream,
    [request, answer]: [u64; 2],
    every: Duration,
    count: u32,
) -> io::Result<Vec<(Instant, Instant)>> {
    let (made, answered) = (vec![0; request as usize], Received::default());
    let mut times = Vec::new();
    let mut open = std::collections::VecDeque::new();
    let mut next = Instant::now();
    let mut left = count;
    let mut missing = answer;
    let mut buffer = vec![0; CHUNK];
    while left > 0 || !open.is_empty() {
        let wait = next.saturating_duration_since(Instant::now());
        if left > 0 && wait.is_zero() {
            open.push_back(Instant::now());
            stream.write_all(&made)?;
            stream.flush()?;
            left -= 1;
            next += every;
            continue;
        }
        stream.set_patience((left > 0).then_some(wait))?;
        let most = usize::try_from(missing).unwrap_or(CHUNK).min(CHUNK);
        match stream.read(&mut buffer[..most]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => {
                missing -= n as u64;
                answered.fetch_add(n as u64, Ordering::Relaxed);
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                continue;
            }
            Err(error) => return Err(error),
        }
        if missing == 0 {
            times.extend(open.pop_front().map(|made| (made, Instant::now())));
            missing = answer;
        }
    }
    Ok(times)
}

/// Returns the connection, with Nagle's algorithm disabled.
pub(super) fn prepared(connection: TcpStream) -> io::Result<TcpStream> {
    connection.set_nodelay(true)?;
    Ok(connection)
}

pub(super) fn send(stream: &mut Stream, bytes: u64, chunk: &[u8]) -> io::Result<()> {
    let mut left = bytes;
    while left > 0 {
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(chunk.len());
        stream.write_all(&chunk[..most])?;
        left -= most as u64;
    }
    stream.flush()
}

pub(super) fn receive(stream: &mut Stream, bytes: u64, received: &Received) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK];
    let mut left = bytes;
    while left > 0 {
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(CHUNK);
        match stream.read(&mut buffer[..most])? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => {
                left -= n as u64;
                received.fetch_add(n as u64, Ordering::Relaxed);
            }
        }
    }
    Ok(())
}
