//! What ends a server.

use std::io::Read;

use tokio::signal::unix::{SignalKind, signal};

use crate::exit::{Failure, Result};

/// Waits for SIGINT or SIGTERM.
pub(crate) async fn stop() -> Result {
    let failed = |error| Failure::io("cannot wait for signals", &error);
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
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
