//! Small requests at fixed intervals, and the delay of each response.

use core::time::Duration;

use anabranch_wire::Time;

use crate::app::RequestClient;

use super::scene::{RunResult, Scene, stalled};

/// Sizes, interval and number of the requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) request: u64,
    pub(super) answer: u64,
    pub(super) every: Duration,
    pub(super) count: u32,
}

pub(super) fn play(scene: &Scene<'_>, plan: Plan) -> Result<RunResult, String> {
    let client = |dial| RequestClient::new(dial, [plan.request, plan.answer], plan.every, plan.count);
    let mut pair = scene.pair(client, scene.server())?;
    let host = pair.client;
    let outcome = pair.sim.run(scene.deadline(), |sim| sim.application::<RequestClient>(host).is_done());
    let now = pair.sim.now();
    let client = pair.sim.application::<RequestClient>(host);
    let unanswered = client.requests.iter().position(|request| request.answered.is_none());
    let failure = match (&client.failure, client.dial.paths.refused, unanswered) {
        (Some(failure), _, _) => failure.clone(),
        (None, Some(refused), _) => format!("a path was not opened: {refused}"),
        (None, None, None) if client.is_done() => String::new(),
        (None, None, None) => format!("{}: {} requests made", stalled(outcome, now), client.requests.len()),
        (None, None, Some(index)) => {
            format!("{}: request {index} of {} is not answered", stalled(outcome, now), plan.count)
        }
    };
    let seconds = |from: Time, to: Time| to.saturating_since(from).as_secs_f64();
    let answered = client.requests.iter().filter_map(|one| Some((one.made, one.answered?)));
    let times = answered.clone().map(|(made, _)| seconds(Time::ZERO, made)).collect();
    let delays = answered.map(|(made, answered)| seconds(made, answered)).collect();
    let last = client.requests.iter().filter_map(|request| request.answered).max();
    let result = RunResult {
        transfer_time: last.filter(|_| failure.is_empty()),
        failure,
        last_byte: last,
        handshake: client.connected,
        request_times_s: times,
        request_delays_s: delays,
        ..RunResult::default()
    };
    let handle = client.dial.handle();
    Ok(result.with_counts(&mut pair, handle, scene.receiver()))
}
