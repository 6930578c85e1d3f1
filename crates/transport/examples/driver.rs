//! A blocking driver of the core over `std::net::UdpSocket` in sixty lines, with two applications: `cargo run
//! -p anabranch-transport --example driver`. A server that echoes and a client that sends a request run in
//! two threads, each with its own socket, clock and endpoint.

use std::error::Error;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anabranch_tls::rustls::RootCertStore;
use anabranch_tls::rustls::pki_types::PrivatePkcs8KeyDer;
use anabranch_transport::stream::{ReadError, StreamEvent};
use anabranch_transport::{
    ClientConfig, Datagram, Endpoint, EndpointConfig, Event, FourTuple, Handle, ServerConfig, TransmitBuf,
};
use anabranch_wire::{Dir, Time, VarInt};
use bytes::Bytes;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Maximum time for which the socket blocks. Without any timer it would block forever.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

struct Driver {
    endpoint: Endpoint,
    socket: UdpSocket,
    address: SocketAddr,
    started: Instant,
    buffer: TransmitBuf,
}

impl Driver {
    #[allow(
        clippy::disallowed_methods,
        reason = "a driver has the clock and the randomness that the core has not"
    )]
    fn new(server: Option<ServerConfig>) -> Result<Self> {
        let started = Instant::now();
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        // Source of the endpoint's secrets and of all its random choices.
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(|error| error.to_string())?;
        let mut endpoint = Endpoint::new(&EndpointConfig::new(seed), server.map(Arc::new));
        endpoint.set_auto_accept(true);
        let (address, buffer) = (socket.local_addr()?, TransmitBuf::new(1));
        Ok(Self { endpoint, socket, address, started, buffer })
    }

    /// Returns the time since the start. The core needs no other clock.
    fn now(&self) -> Time {
        Time::ZERO + self.started.elapsed()
    }

    /// Sends all pending datagrams, then waits for a datagram or for the endpoint's timer.
    fn turn(&mut self) -> Result<()> {
        while let Some(transmit) = self.endpoint.poll_transmit(self.now(), &mut self.buffer) {
            for payload in self.buffer.filled(&transmit).chunks(transmit.segment_size) {
                self.socket.send_to(payload, transmit.tuple.remote)?;
            }
        }
        let timer = self.endpoint.poll_timeout().map(|at| at.saturating_since(self.now()));
        let wait = timer.unwrap_or(LONGEST_WAIT).clamp(Duration::from_micros(1), LONGEST_WAIT);
        self.socket.set_read_timeout(Some(wait))?;
        let mut payload = [0; 65_535];
        if let Ok((len, remote)) = self.socket.recv_from(&mut payload) {
            let tuple = FourTuple { local: self.address, remote };
            let datagram = Datagram { tuple, ecn: None, payload: &mut payload[..len] };
            self.endpoint.handle_batch(self.now(), &mut [datagram]);
        }
        self.endpoint.handle_timeout(self.now());
        Ok(())
    }

    /// Reads all available data of a stream. Returns `true` at its end.
    fn read(&mut self, handle: Handle, id: anabranch_wire::StreamId, into: &mut Vec<u8>) -> Result<bool> {
        let connection = self.endpoint.connection(handle).ok_or("the connection is gone")?;
        loop {
            match connection.streams().take(id, usize::MAX) {
                Ok(bytes) => into.extend_from_slice(&bytes),
                Err(ReadError::Blocked) => return Ok(false),
                Err(ReadError::Finished) => return Ok(true),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Echoes streams until the client closes the connection.
fn serve(mut driver: Driver) -> Result<()> {
    loop {
        driver.turn()?;
        while let Some((handle, event)) = driver.endpoint.poll_event() {
            match event {
                Event::Stream(StreamEvent::Readable(id)) => {
                    let mut text = Vec::new();
                    let ended = driver.read(handle, id, &mut text)?;
                    let Some(connection) = driver.endpoint.connection(handle) else { continue };
                    connection.streams().write(id, &text)?;
                    if ended {
                        connection.streams().finish(id)?;
                    }
                }
                Event::Closed(_) => return Ok(()),
                _ => {}
            }
        }
    }
}

fn main() -> Result<()> {
    let identity = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let (certificate, key) = (identity.cert.der().clone(), identity.signing_key.serialize_der());
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone())?;
    let tls = anabranch_tls::ServerConfig::builder()
        .certificate(vec![certificate], PrivatePkcs8KeyDer::from(key).into())
        .alpn(["echo"]);
    let server = Driver::new(Some(ServerConfig::new(tls.build()?)))?;
    let tuple = |local| FourTuple { local, remote: server.address };
    let mut client = Driver::new(None)?;
    let tls = anabranch_tls::ClientConfig::builder().roots(roots).alpn(["echo"]).build()?;
    let (now, tuple) = (client.now(), tuple(client.address));
    let handle = client.endpoint.connect(now, &ClientConfig::new(tls), tuple, "localhost")?;
    let thread = std::thread::spawn(move || serve(server));
    let (mut stream, mut echo) = (None, Vec::new());
    // Runs until the end of the closing period, in which lost CONNECTION_CLOSE frames are repeated.
    while !client.endpoint.is_empty() {
        client.turn()?;
        while let Some((_, event)) = client.endpoint.poll_event() {
            let Some(connection) = client.endpoint.connection(handle) else { continue };
            match event {
                Event::Connected { .. } => {
                    let id = connection.streams().open(Dir::Bi).ok_or("no stream is allowed")?;
                    connection.streams().write(id, b"hello, core")?;
                    connection.streams().finish(id)?;
                    stream = Some(id);
                }
                Event::Stream(StreamEvent::Readable(id))
                    if Some(id) == stream && client.read(handle, id, &mut echo)? =>
                {
                    println!("{}", String::from_utf8_lossy(&echo));
                    let now = client.now();
                    let Some(connection) = client.endpoint.connection(handle) else { continue };
                    connection.close(now, VarInt::from_u32(0), Bytes::new());
                }
                _ => {}
            }
        }
    }
    thread.join().map_err(|_| "the server's thread has panicked")?
}
