//! What ends a command early.

use std::io::Read;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::{Failure, Result};

/// SIGINT and SIGTERM, caught from the moment that this is made.
pub(crate) struct Stop {
    terminate: Signal,
    interrupt: Signal,
}

impl Stop {
    pub(crate) fn catch() -> Result<Self> {
        let catch = |kind| signal(kind).map_err(|error| Failure::io("cannot catch signals", &error));
        Ok(Self { terminate: catch(SignalKind::terminate())?, interrupt: catch(SignalKind::interrupt())? })
    }

    pub(crate) async fn wait(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
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
