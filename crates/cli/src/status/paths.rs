//! Paths of connections, for reports.

use anabranch::{Connection, PathAttempt, PathInfo};

use super::rates::Rates;
use super::report::PathReport;

/// Maximum number of closed paths of a connection that are reported: the newest ones.
const MAX_CLOSED: usize = 4;

/// Key of a path: the number of its connection, and its path ID.
pub(crate) type PathKey = (u64, u32);

/// Returns the reports of a connection's paths. `attempts` are those of its path manager, from which the
/// interfaces come.
pub(crate) fn of<K: Ord>(
    (number, connection): (u64, &Connection),
    attempts: &[PathAttempt],
    rates: &mut Rates<K>,
    key: impl Fn(PathKey) -> K,
) -> Vec<PathReport> {
    let stats = connection.stats();
    let older = stats.closed.len().saturating_sub(MAX_CLOSED);
    let mut report = |path: &PathInfo| {
        let [sent, received] = rates.rate(key((number, path.id.0)), [path.bytes_sent, path.bytes_received]);
        let local = path.tuple.local;
        let attempt =
            attempts.iter().find(|attempt| attempt.local == local.ip() && !attempt.interface.is_empty());
        let packets = path.recovery.sent_packets;
        let lost = path.recovery.lost_packets;
        PathReport {
            connection: number,
            id: Some(path.id.0),
            interface: attempt.map(|attempt| attempt.interface.clone()),
            local: local.to_string(),
            remote: path.tuple.remote.to_string(),
            state: if path.closure.is_some() { "closed".to_owned() } else { path.state.name().to_owned() },
            idle: path.idle.filter(|_| path.closure.is_none()).map(|idle| idle.name().to_owned()),
            why: path.closure.map(|closure| closure.reason().to_owned()),
            rtt_ms: path.rtt_via.map(|_| path.smoothed_rtt.as_secs_f64() * 1e3),
            sent,
            received,
            sent_packets: packets,
            lost_packets: lost,
            loss_percent: (packets > 0).then(|| lost as f64 * 100.0 / packets as f64),
        }
    };
    stats.paths.iter().chain(stats.closed.iter().skip(older)).map(&mut report).collect()
}

/// Returns the reports of those attempts of a path manager whose paths are not open.
pub(crate) fn attempted(attempts: &[PathAttempt]) -> impl Iterator<Item = PathReport> {
    attempts.iter().filter(|attempt| !attempt.is_open).map(|attempt| PathReport {
        interface: Some(attempt.interface.clone()).filter(|name| !name.is_empty()),
        local: attempt.local.to_string(),
        remote: attempt.remote.to_string(),
        state: if attempt.error.is_some() { "failed" } else { "opening" }.to_owned(),
        why: attempt.error.clone(),
        ..PathReport::default()
    })
}
