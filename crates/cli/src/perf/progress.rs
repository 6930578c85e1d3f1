//! Progress of a measurement, for people and for programs.

use std::time::{Duration, Instant};

use anabranch::Connection;
use serde_json::json;

use super::rate;
use super::work::Moved;
use crate::events::{self, Events};
use crate::exit::{self, Result};
use crate::rate::Meter;
use crate::{multipath, size};

/// Interval of events.
const INTERVAL: Duration = Duration::from_secs(1);

/// Prints the number of bytes that have arrived, at the interval `every`, until this future is dropped.
pub(super) async fn tell(connection: &Connection, moved: &Moved, every: Option<Duration>) -> Result<u64> {
    let Some(every) = every else { return std::future::pending().await };
    let begin = Instant::now();
    let (mut before, mut then) = (0, 0.0);
    let mut ticks = tokio::time::interval_at((begin + every).into(), every);
    loop {
        ticks.tick().await;
        let (now, bytes) = (begin.elapsed().as_secs_f64(), moved.arrived(connection));
        let (new, rate) = (size::words(bytes - before), rate(bytes - before, now - then));
        exit::say(format_args!("{then:>6.1} to {now:>6.1} s  {new:>9}  {rate:>13}"))?;
        (before, then) = (bytes, now);
    }
}

/// Emits an event with the number of bytes that have arrived, every second, until this future is dropped.
pub(super) async fn tell_events(events: &Events, connection: &Connection, moved: &Moved) {
    let mut meter = Meter::new(Instant::now(), 0);
    let mut ticks = tokio::time::interval_at((Instant::now() + INTERVAL).into(), INTERVAL);
    while events.are_wanted() {
        ticks.tick().await;
        let bytes = moved.arrived(connection);
        meter.sample(Instant::now(), bytes);
        events.tell("progress", || {
            let paths: Vec<_> = connection.paths().iter().map(multipath::facts).collect();
            let connection = events::id(connection);
            json!({ "connection": connection, "bytes": bytes, "rate_mbps": meter.rate() * 8.0 / 1e6, "paths": paths })
        });
    }
    std::future::pending::<()>().await;
}
