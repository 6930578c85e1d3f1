//! Sockets that a new server takes over from a running one.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::path::Path;

use anabranch::{Endpoint, EndpointConfig, HandOver, ServerConfig};

use super::peer::{blocking, is_same_user};
use super::{GRANTED, MAX_ENDPOINTS, METRICS, READY};
use crate::exit::{Exit, Failure, Result};
use crate::serve::sockets::Sockets;

/// Sockets of a running server.
pub(in crate::serve) struct Inheritance {
    stream: UnixStream,
    legacies: Vec<Legacy>,
    tcp: Vec<TcpListener>,
    metrics: Vec<TcpListener>,
}

/// Sockets of one endpoint of a running server.
pub(in crate::serve) struct Legacy(HandOver);

impl Legacy {
    pub(in crate::serve) fn local_addrs(&self) -> io::Result<Vec<SocketAddr>> {
        self.0.local_addrs()
    }

    pub(in crate::serve) fn workers(&self) -> usize {
        self.0.workers()
    }

    pub(in crate::serve) fn take_over(
        self,
        secrets: &EndpointConfig,
        config: ServerConfig,
    ) -> io::Result<Endpoint> {
        Ok(Endpoint::take_over(secrets, Some(config), self.0)?)
    }
}

impl Inheritance {
    /// Asks the server that listens on the Unix socket `path` for its sockets; `None` if there is none.
    pub(in crate::serve) async fn receive(path: &Path) -> Result<Option<Self>> {
        let failed = |error| Failure::io(format_args!("cannot take over at {}", path.display()), &error);
        let stream = match tokio::net::UnixStream::connect(path).await {
            Ok(stream) => stream,
            // Nobody has served there, or the server has ended without removing its socket.
            Err(error)
                if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) =>
            {
                return Ok(None);
            }
            Err(error) => return Err(failed(error)),
        };
        if !is_same_user(&stream).map_err(failed)? {
            let what = format!("{} belongs to a process of another user", path.display());
            return Err(Failure::new(Exit::Usage, what));
        }
        let stream = blocking(stream).map_err(failed)?;
        let received = tokio::task::spawn_blocking(move || Self::read(stream)).await;
        let received = received.map_err(io::Error::other).flatten().map_err(failed)?;
        received.map(Some).map_err(|reason| {
            Failure::new(Exit::Io, format!("the running server hands nothing over: {reason}"))
        })
    }

    /// Receives the sockets, or the reason why there are none.
    fn read(mut stream: UnixStream) -> io::Result<std::result::Result<Self, String>> {
        let mut head = [0; 2];
        stream.read_exact(&mut head)?;
        let [kind, count] = head;
        if kind != GRANTED {
            let mut reason = vec![0; usize::from(count)];
            stream.read_exact(&mut reason)?;
            return Ok(Err(String::from_utf8_lossy(&reason).into_owned()));
        }
        if usize::from(count) > MAX_ENDPOINTS {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut inherited = Self { stream, legacies: Vec::new(), tcp: Vec::new(), metrics: Vec::new() };
        for _ in 0..count {
            let mut hand_over = HandOver::receive(&inherited.stream)?;
            for (number, descriptor) in hand_over.take_further() {
                let listeners = if number == METRICS { &mut inherited.metrics } else { &mut inherited.tcp };
                listeners.push(descriptor.into());
            }
            inherited.legacies.push(Legacy(hand_over));
        }
        Ok(Ok(inherited))
    }

    /// Returns the listeners for TCP. Sockets for QUIC are in [`Inheritance::take_legacies`].
    pub(in crate::serve) fn sockets(&mut self, tcp: bool) -> Sockets {
        let listeners = std::mem::take(&mut self.tcp);
        Sockets { udp: Vec::new(), tcp: if tcp { listeners } else { Vec::new() } }
    }

    /// Returns the listener for metrics, if it is wanted on the same address.
    pub(in crate::serve) fn scraped(&mut self, wanted: Option<SocketAddr>) -> Option<TcpListener> {
        let is_wanted =
            |listener: &TcpListener| {
                listener.local_addr().ok().zip(wanted).is_some_and(|(own, wanted)| {
                    own == wanted || wanted.port() == 0 && own.ip() == wanted.ip()
                })
            };
        self.metrics.drain(..).find(is_wanted)
    }

    pub(in crate::serve) fn take_legacies(&mut self) -> Vec<Legacy> {
        std::mem::take(&mut self.legacies)
    }

    /// Tells the old process that this one accepts clients.
    pub(super) fn tell_ready(mut self) -> io::Result<()> {
        self.stream.write_all(&[READY])
    }
}
