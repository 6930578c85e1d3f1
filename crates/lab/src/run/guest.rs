//! A download between two programs that speak the guest protocol.

use anabranch_guest::Workload;
use anabranch_wire::Side;

use crate::guest::{GuestPair, Programs};

use super::guest_counts::GuestCounts;
use super::scene::{RunResult, Scene, stalled};

/// Runs the download.
pub(super) fn play(scene: &Scene<'_>, bytes: u64, programs: &Programs) -> Result<RunResult, String> {
    let links = scene.links()?;
    #[cfg(test)]
    scene.options.hook.iter().for_each(|hook| hook(scene.job));
    let workload = Workload::Download { bytes };
    let mut pair = GuestPair::new(scene.seed(), links, workload, programs, scene.options.limits)?;
    let [client, server] = [pair.client, pair.server];
    let outcome = pair.sim.run(scene.deadline(), |sim| {
        let [client, server] = [client, server].map(|host| sim.guest(host));
        client.done().is_some() || client.failure().is_some() || server.failure().is_some()
    });
    let now = pair.sim.now();
    let end = pair.sim.guest(client);
    let failure = match (end.done(), pair.failure(), outcome) {
        (Some(_), _, _) if end.progress().delivered != bytes => {
            format!("the client is done with {} of {bytes} bytes", end.progress().delivered)
        }
        (Some(_), _, _) => String::new(),
        (None, Some(failure), _) => failure,
        (None, None, outcome) => {
            let why = stalled(outcome, now);
            format!("{why}: {} of {bytes} bytes have come", end.progress().delivered)
        }
    };
    let sender = pair.sim.guest(server).progress();
    let percent = |repeated: u64| repeated as f64 * 100.0 / bytes as f64;
    let counts = GuestCounts { repeated_percent: sender.repeated.map(percent), lost_packets: sender.lost };
    let result = RunResult {
        failure,
        transfer_time: end.done(),
        last_byte: end.done(),
        handshake: end.connected(),
        guest: Some(counts),
        ..RunResult::default()
    };
    let links = pair.links.clone();
    Ok(result.with_links(pair.sim.network(), &links, Side::Client))
}
