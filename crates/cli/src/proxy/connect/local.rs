//! TCP listeners for programs, and the password that programs must send.

use std::fs::File;
use std::future::Future;
use std::io::Read;
use std::net::{SocketAddr, TcpListener as StdTcpListener};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::exit::{Exit, Failure, Result};
use crate::listen::HostPort;
use crate::options::cannot_listen;

/// Maximum number of connections of programs that one listener serves at the same time. Further ones wait in the kernel's
/// queue.
pub(crate) const MAX_PROGRAMS: usize = 1_024;
/// Maximum time until a program has sent its request.
pub(crate) const MAX_HELLO: Duration = Duration::from_secs(10);
/// Maximum length of a file with a name and a password, in bytes.
const MAX_FILE: u64 = 1_024;
/// Pause after a connection could not be accepted, for instance because the process has no free descriptors.
const REST: Duration = Duration::from_millis(100);

/// Socket that accepts connections of programs.
#[derive(Debug)]
pub(crate) struct Local {
    listener: TcpListener,
    address: SocketAddr,
}

impl Local {
    /// Binds the first address of a place that is an address of this host.
    pub(crate) async fn bind(place: &HostPort) -> Result<Option<Self>> {
        for address in addresses(place).await? {
            match StdTcpListener::bind(address).and_then(Self::new) {
                Ok(local) => return Ok(Some(local)),
                // A name such as `localhost` may resolve to an address that is not one of this host.
                Err(error) if error.kind() == std::io::ErrorKind::AddrNotAvailable && !place.is_address() => {
                }
                Err(error) => return Err(cannot_listen(address, &error)),
            }
        }
        Err(Failure::new(Exit::Io, format!("{place} is no address of this host")))
    }

    /// Wraps a listener.
    ///
    /// # Errors
    /// Fails if the socket cannot be used without blocking.
    pub(super) fn new(listener: StdTcpListener) -> std::io::Result<Self> {
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Accepts connections, and serves each in a task, until `closing` is cancelled. Then waits until all are served. Dropping
    /// the future aborts their tasks.
    pub(crate) async fn accept<F>(self, closing: CancellationToken, serve: impl Fn(TcpStream) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let room = Arc::new(Semaphore::new(MAX_PROGRAMS));
        let mut serving = JoinSet::new();
        loop {
            let next = async {
                // The semaphore is never closed.
                let permit = Arc::clone(&room).acquire_owned().await.ok();
                (permit, self.listener.accept().await)
            };
            let (permit, accepted) = tokio::select! {
                () = closing.cancelled() => break,
                next = next => next,
            };
            while serving.try_join_next().is_some() {}
            match accepted {
                Ok((stream, _)) => {
                    let served = serve(stream);
                    serving.spawn(async move {
                        served.await;
                        drop(permit);
                    });
                }
                // The program has closed its connection already, or the process has no free descriptors.
                Err(_) => tokio::time::sleep(REST).await,
            }
        }
        drop(self.listener);
        while serving.join_next().await.is_some() {}
    }
}

/// Returns the addresses of a place; the IPv4 loopback address if the place has no host.
pub(crate) async fn addresses(place: &HostPort) -> Result<Vec<SocketAddr>> {
    match &place.resolve().await?[..] {
        [] if place.host.is_none() => Ok(vec![([127, 0, 0, 1], place.port).into()]),
        addresses => Ok(addresses.to_vec()),
    }
}

/// Name and password that programs must send, kept as a SHA-256 digest.
#[derive(Clone)]
pub(crate) struct Guard(Vec<u8>);

impl Guard {
    /// Reads `NAME:PASSWORD` from a file.
    pub(crate) fn load(path: &Path) -> Result<Self> {
        let wrong = |what: &dyn std::fmt::Display| {
            Failure::new(Exit::Usage, format!("{}: {what}", path.display())).or("write NAME:PASSWORD into it")
        };
        let file = File::open(path).map_err(|error| wrong(&error))?;
        let mut text = String::new();
        file.take(MAX_FILE + 1).read_to_string(&mut text).map_err(|error| wrong(&error))?;
        if text.len() as u64 > MAX_FILE {
            return Err(wrong(&"too long"));
        }
        match text.trim_end_matches(['\r', '\n']).split_once(':') {
            Some((name, password)) if !name.is_empty() && !password.is_empty() => {
                Ok(Self::of(name, password))
            }
            _ => Err(wrong(&"no name and password")),
        }
    }

    fn of(name: &str, password: &str) -> Self {
        Self(digest(&SHA256, format!("{name}:{password}").as_bytes()).as_ref().to_vec())
    }

    /// Returns whether name and password are the right ones. The comparison takes constant time.
    pub(crate) fn admits(&self, name: &str, password: &str) -> bool {
        verify_slices_are_equal(&self.0, &Self::of(name, password).0).is_ok()
    }
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Guard(…)")
    }
}

#[cfg(test)]
mod tests;
