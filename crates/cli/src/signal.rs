//! Signals that end a command early.

use std::io::Read;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::{Failure, Result};

/// SIGINT and SIGTERM, caught from the moment that this is made, and SIGHUP unless it is ignored.
pub(crate) struct Stop {
    terminate: Signal,
    interrupt: Signal,
    /// The terminal is gone.
    hangup: Option<Signal>,
}

impl Stop {
    pub(crate) fn catch() -> Result<Self> {
        let catch = |kind| signal(kind).map_err(|error| Failure::io("cannot catch signals", &error));
        Ok(Self {
            terminate: catch(SignalKind::terminate())?,
            interrupt: catch(SignalKind::interrupt())?,
            hangup: (!hangup_is_ignored()).then(|| catch(SignalKind::hangup())).transpose()?,
        })
    }

    pub(crate) async fn wait(&mut self) {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => _ = hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            () = hangup => {}
        }
    }
}

/// Returns whether this process is to outlive its terminal, as under `nohup`. Where nobody can tell, it may
/// be so.
fn hangup_is_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // The first bit is that of the first signal, which SIGHUP is.
    ignored.is_none_or(|mask| mask & 1 == 1)
}

/// Waits for the end of standard input, so that a server does not outlive the runner that started it.
pub(crate) async fn end_of_input() {
    let (tell, told) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let mut ignored = [0; 256];
        while matches!(std::io::stdin().lock().read(&mut ignored), Ok(1..)) {}
        let _ = tell.send(());
    });
    // The thread only ends by telling.
    let _ = told.await;
}
