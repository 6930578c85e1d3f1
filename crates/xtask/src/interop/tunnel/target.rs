//! Target of UDP flows: a socket that echoes.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::ends::PATIENCE;

/// Interval at which slow operations are polled.
const TICK: Duration = Duration::from_millis(50);
/// Time after which a payload is sent again, since UDP may lose it.
const AGAIN: Duration = Duration::from_millis(500);
/// Silence during which an end that ends silent flows after a second ends one.
pub(super) const SILENCE: Duration = Duration::from_millis(1_800);
/// Request for an answer that fills a packet of 1,500 bytes.
const LARGE: &[u8] = b"large";
/// Length of a packet that fits on Ethernet, in bytes.
pub(super) const LINK_MTU: usize = 1_500;

/// Running echo, which ends when this value is dropped.
pub(super) struct Echo {
    socket: UdpSocket,
    sources: Arc<Mutex<Vec<SocketAddr>>>,
    over: Arc<AtomicBool>,
    echoing: Option<JoinHandle<()>>,
}

impl Echo {
    /// Starts an echo at this address, in the namespace of this thread.
    pub(super) fn start(address: SocketAddr) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("target {address}: {error}");
        let socket = UdpSocket::bind(address).map_err(failed)?;
        socket.set_read_timeout(Some(TICK)).map_err(failed)?;
        let (sources, over) = (Arc::<Mutex<Vec<_>>>::default(), Arc::<AtomicBool>::default());
        let (own, known, end) =
            (socket.try_clone().map_err(failed)?, Arc::clone(&sources), Arc::clone(&over));
        let echoing = thread::spawn(move || {
            let mut buffer = vec![0; 65_535];
            while !end.load(Ordering::Relaxed) {
                // An error reports the end of the wait, or that an earlier answer reached nobody.
                let Ok((len, from)) = own.recv_from(&mut buffer) else { continue };
                let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
                if !known.contains(&from) {
                    known.push(from);
                }
                let answer = match &buffer[..len] {
                    LARGE => vec![b'L'; LINK_MTU - headers(from)],
                    payload => payload.to_vec(),
                };
                // An answer that does not fit is one that gets lost.
                let _ = own.send_to(&answer, from);
            }
        });
        Ok(Self { socket, sources, over, echoing: Some(echoing) })
    }

    /// Returns the port.
    pub(super) fn port(&self) -> Result<u16, String> {
        self.socket.local_addr().map(|address| address.port()).map_err(|error| error.to_string())
    }

    /// Returns the addresses from which payloads came, in order.
    pub(super) fn sources(&self) -> Vec<SocketAddr> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until no socket receives at the last of these addresses any longer: this system reports that by ICMP.
    pub(super) fn ends_abandoned(mut self) -> Result<(), String> {
        self.stop();
        let last = self.sources().pop().ok_or("no payload came to the target")?;
        let begun = Instant::now();
        self.socket.connect(last).map_err(|error| error.to_string())?;
        while begun.elapsed() < PATIENCE {
            let refused = |error: std::io::Error| error.kind() == std::io::ErrorKind::ConnectionRefused;
            let sent = self.socket.send(b"still there?").map(|_| ());
            let answered = self.socket.recv(&mut [0; 100]).map(|_| ());
            if sent.is_err_and(refused) || answered.is_err_and(refused) {
                return Ok(());
            }
            // The payload may have reached the client, whose flow must be silent for a second to end.
            thread::sleep(SILENCE);
        }
        Err(format!("the proxy's socket {last} is still open"))
    }

    fn stop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        // A thread that panicked has ended, too.
        let _ = self.echoing.take().map(JoinHandle::join);
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Returns the length of the IP and UDP headers of a datagram to this address, in bytes.
pub(super) fn headers(address: SocketAddr) -> usize {
    if address.is_ipv4() { 28 } else { 48 }
}

/// Sends a payload until it comes back.
pub(super) fn echoed(socket: &UdpSocket, len: usize) -> Result<(), String> {
    let payload: Vec<u8> = (0..len).map(|at| (7 * at + len) as u8).collect();
    answered(socket, &payload, |answer| answer == payload).map_err(|why| format!("{len} bytes: {why}"))
}

/// Sends a payload until an answer arrives that `wanted` accepts.
pub(super) fn answered(
    socket: &UdpSocket,
    payload: &[u8],
    wanted: impl Fn(&[u8]) -> bool,
) -> Result<(), String> {
    let begun = Instant::now();
    let mut buffer = vec![0; 65_535];
    let mut last = "no answer".to_owned();
    socket.set_read_timeout(Some(AGAIN)).map_err(|error| error.to_string())?;
    while begun.elapsed() < PATIENCE {
        // An error reports what became of an earlier payload.
        match socket.send(payload).and_then(|_| socket.recv(&mut buffer)) {
            Ok(len) if wanted(&buffer[..len]) => return Ok(()),
            Ok(len) => last = format!("another answer, of {len} bytes"),
            Err(error) => last = error.to_string(),
        }
    }
    Err(last)
}
