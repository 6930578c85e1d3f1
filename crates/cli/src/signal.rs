//! Signals that end a command early.

use std::io::Read;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::{Failure, Result};

/// Receivers of SIGINT and SIGTERM, and of SIGHUP unless the process ignores it. Signals are caught from the
/// creation of this value on.
pub(crate) struct Stop {
    terminate: Signal,
    interrupt: Signal,
    /// SIGHUP: the terminal was closed.
    hangup: Option<Signal>,
}

impl Stop {
    pub(crate) fn catch() -> Result<Self> {
        let hangup = (!hangup_is_ignored()).then(|| catch(SignalKind::hangup())).transpose()?;
        Ok(Self { hangup, ..Self::catch_without_hangup()? })
    }

    /// Catches SIGINT and SIGTERM, for commands to which SIGHUP means something else.
    pub(crate) fn catch_without_hangup() -> Result<Self> {
        Ok(Self {
            terminate: catch(SignalKind::terminate())?,
            interrupt: catch(SignalKind::interrupt())?,
            hangup: None,
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

/// SIGHUP as a request to read the configuration again.
pub(crate) struct Again(Option<Signal>);

impl Again {
    /// Catches the signals that end a command, and SIGHUP as a request if there `is_file` that can be read again. Without a
    /// file, SIGHUP ends the command.
    pub(crate) fn catch(is_file: bool) -> Result<(Stop, Self)> {
        Ok(match is_file {
            true => (Stop::catch_without_hangup()?, Self(Some(hangup()?))),
            false => (Stop::catch()?, Self(None)),
        })
    }

    /// Waits for the next request.
    pub(crate) async fn wait(&mut self) {
        match &mut self.0 {
            Some(signal) => _ = signal.recv().await,
            None => std::future::pending().await,
        }
    }
}

/// Catches SIGHUP, for commands that read their configuration again.
pub(crate) fn hangup() -> Result<Signal> {
    catch(SignalKind::hangup())
}

fn catch(kind: SignalKind) -> Result<Signal> {
    signal(kind).map_err(|error| Failure::io("cannot catch signals", &error))
}

/// Returns whether the process ignores SIGHUP, as under `nohup`. Returns `true` if that cannot be determined.
fn hangup_is_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // SIGHUP is signal 1, so its bit is the first one.
    ignored.is_none_or(|mask| mask & 1 == 1)
}

/// Waits until standard input ends, so that a server ends with the runner that started it.
pub(crate) async fn end_of_input() {
    let (tell, told) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let mut ignored = [0; 256];
        while matches!(std::io::stdin().lock().read(&mut ignored), Ok(1..)) {}
        let _ = tell.send(());
    });
    // The thread ends only after it has notified us.
    let _ = told.await;
}
