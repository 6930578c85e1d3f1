//! Download until the last byte arrives or the connection is closed.

use crate::app::DownloadClient;
use crate::experiment::End;
use crate::sim::Outcome;

use super::scene::{RunResult, Scene, stalled};

pub(super) fn play(scene: &Scene<'_>, bytes: u64, until: End) -> Result<RunResult, String> {
    let mut pair = scene.pair(|dial| DownloadClient::new(dial, &[bytes]), scene.server())?;
    let host = pair.client;
    let outcome = pair.sim.run(scene.deadline(), |sim| {
        let client = sim.application::<DownloadClient>(host);
        client.failure.is_some()
            || client.finished.is_some() && (until == End::LastByte || scene.recorder.closed().is_some())
    });
    let now = pair.sim.now();
    let client = pair.sim.application::<DownloadClient>(host);
    let end = match until {
        End::LastByte => client.finished,
        End::Closed => client.finished.and(scene.recorder.closed()),
    };
    let failure = match (&client.failure, client.dial.paths.refused, end) {
        (Some(failure), _, _) => failure.clone(),
        (None, Some(refused), _) => format!("a path was not opened: {refused}"),
        (None, None, Some(_)) => String::new(),
        (None, None, None) => missing(bytes, client, outcome, now),
    };
    let result = RunResult {
        failure,
        transfer_time: end,
        last_byte: client.finished,
        handshake: client.connected,
        ..RunResult::default()
    };
    let handle = client.dial.handle();
    Ok(result.with_counts(&mut pair, handle, scene.receiver()))
}

fn missing(bytes: u64, client: &DownloadClient, outcome: Outcome, now: anabranch_wire::Time) -> String {
    let why = stalled(outcome, now);
    match client.finished {
        Some(_) => format!("{why}: the server has not answered CONNECTION_CLOSE"),
        None => format!("{why}: {} of {bytes} bytes have come", client.received),
    }
}
