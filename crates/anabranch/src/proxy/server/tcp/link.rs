//! State that both directions of a TCP tunnel share.

use std::io;
use std::net::Shutdown;
use std::sync::Arc;
use std::time::Duration;

use socket2::SockRef;
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;

use super::super::flow::{Flow, Outcome};

/// Maximum time for which bytes that the target sent before its RST are still read and sent to the client.
const FAREWELL: Duration = Duration::from_millis(250);

/// State of the direction from the target to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Downloading {
    Open,
    /// The target has ended the direction (FIN).
    Ended,
    Aborted(Outcome),
}

/// A connection to a target, its counters, and the state of the direction to the client.
pub(in crate::proxy::server) struct Link {
    pub(super) stream: TcpStream,
    pub(super) flow: Flow,
    downloading: watch::Sender<Downloading>,
}

impl Link {
    pub(in crate::proxy::server) fn new(stream: TcpStream, flow: Flow) -> Arc<Self> {
        Arc::new(Self { stream, flow, downloading: watch::Sender::new(Downloading::Open) })
    }

    /// Writes all of `bytes` to the target.
    pub(super) async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.stream.try_write(bytes) {
                Ok(n) => bytes = &bytes[n..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.stream.writable().await?,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Ends the direction to the target (FIN).
    pub(super) fn finish(&self) -> io::Result<()> {
        SockRef::from(&self.stream).shutdown(Shutdown::Write)
    }

    /// Records that the target has ended its direction.
    pub(super) fn end_download(&self) {
        self.change(Downloading::Ended);
    }

    /// Records that the direction to the client is aborted.
    pub(super) fn abort_download(&self, outcome: Outcome) {
        self.change(Downloading::Aborted(outcome));
    }

    fn change(&self, to: Downloading) {
        self.downloading.send_if_modified(|state| {
            let open = *state == Downloading::Open;
            if open {
                *state = to;
            }
            open
        });
    }

    /// Waits until the target has ended its direction.
    pub(super) async fn downloaded(&self) -> Outcome {
        // The sender lives as long as this value.
        let _ = self.downloading.subscribe().wait_for(|state| *state == Downloading::Ended).await;
        Outcome::Complete
    }

    /// Waits until the direction to the client is aborted, or until the kernel reports an error of the connection to the target,
    /// for instance a RST.
    pub(super) async fn aborted(&self) -> Outcome {
        tokio::select! {
            outcome = self.download_aborted() => outcome,
            // The kernel reports a RST also while no task reads or writes.
            _ = self.stream.ready(Interest::ERROR) => {
                timeout(FAREWELL, self.download_aborted()).await.unwrap_or(Outcome::ByTarget)
            }
        }
    }

    async fn download_aborted(&self) -> Outcome {
        let mut states = self.downloading.subscribe();
        let aborted = states.wait_for(|state| matches!(state, Downloading::Aborted(_))).await;
        match aborted.as_deref() {
            Ok(Downloading::Aborted(outcome)) => *outcome,
            _ => Outcome::ByTarget,
        }
    }

    /// Ends the tunnel. Unless both directions ended regularly, the target receives a RST.
    pub(super) fn end(&self, outcome: Outcome) {
        self.flow.end(outcome);
        if outcome != Outcome::Complete {
            // Otherwise the kernel sends FIN, and the target takes the abort for a regular end.
            let _ = self.stream.set_zero_linger();
        }
    }
}
