//! Upload until the last byte arrives at the server.

use crate::app::{UploadClient, UploadServer};

use super::scene::{RunResult, Scene, stalled};

pub(super) fn play(scene: &Scene<'_>, bytes: u64) -> Result<RunResult, String> {
    let mut pair = scene.pair(|dial| UploadClient::new(dial, bytes), UploadServer::default())?;
    let (host, server) = (pair.client, pair.server);
    let outcome = pair.sim.run(scene.deadline(), |sim| {
        let client_failed = sim.application::<UploadClient>(host).failure.is_some();
        let server = sim.application::<UploadServer>(server);
        client_failed || server.finished.is_some() || server.failure.is_some()
    });
    let now = pair.sim.now();
    let server = pair.sim.application::<UploadServer>(server);
    let (received, finished, refused_there) = (server.received, server.finished, server.failure.clone());
    let client = pair.sim.application::<UploadClient>(host);
    let failure = match (client.failure.clone().or(refused_there), client.dial.paths.refused, finished) {
        (Some(failure), _, None) => failure,
        (_, Some(refused), _) => format!("a path was not opened: {refused}"),
        (_, None, Some(_)) if received == bytes => String::new(),
        (None, None, None) => {
            format!("{}: {received} of {bytes} bytes have come", stalled(outcome, now))
        }
        _ => format!("{received} bytes have come instead of {bytes}"),
    };
    let connected = client.connected;
    let result = RunResult {
        failure,
        transfer_time: finished,
        last_byte: finished,
        handshake: connected,
        ..RunResult::default()
    };
    // The counts of received bytes are those of the client's connection, which receives nothing in an upload.
    Ok(result.with_counts(&mut pair, None, scene.receiver()))
}
