//! Events of a server's traffic.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;

use super::shared::Shared;
use crate::rate::Meter;

/// Interval of these events while connections are open.
const EVERY: Duration = Duration::from_secs(1);

/// Emits a progress event every second until the server ends; returns at once if events are not requested.
pub(super) async fn tell(shared: Arc<Shared>) {
    let mut meter = Meter::new(Instant::now(), 0);
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    while shared.events.are_wanted() {
        ticks.tick().await;
        let (connections, sent, received) = shared.metrics.moved();
        meter.sample(Instant::now(), sent);
        if connections > 0 {
            let rate = meter.rate() * 8.0 / 1e6;
            let fields = || json!({ "connections": connections, "bytes_sent": sent, "bytes": received, "rate_mbps": rate });
            shared.events.tell("progress", fields);
        }
    }
    std::future::pending::<()>().await;
}

/// Emits the event with the total traffic.
pub(super) fn tell_end(shared: &Shared) {
    shared.events.tell("end", || {
        let (_, sent, received) = shared.metrics.moved();
        json!({ "bytes_sent": sent, "bytes": received, "exit": 0 })
    });
}
