//! The paths of one connection, as shown to people during a transfer.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Instant;

use anabranch::{ConnectionStats, PathId, PathInfo, PathState};
use serde_json::Value;

use crate::multipath;
use crate::rate::{self, Meter};

/// Maximum number of paths shown for a connection; paths in use come before closed ones.
const MAX_SHOWN: usize = 8;

/// Observations of a connection's paths.
#[derive(Debug)]
pub(super) struct Paths {
    /// The connection's name.
    connection: String,
    known: BTreeMap<PathId, Seen>,
}

/// Observations of one path.
#[derive(Debug)]
struct Seen {
    info: PathInfo,
    meter: Meter,
}

impl Paths {
    pub(super) fn new(connection: String) -> Self {
        Self { connection, known: BTreeMap::new() }
    }

    /// Records the newest state. Returns a line for each path that began to fail, recovered or was closed.
    pub(super) fn look(&mut self, now: Instant, stats: &ConnectionStats) -> Vec<String> {
        let mut news = Vec::new();
        for path in stats.all_paths() {
            let seen = self
                .known
                .entry(path.id)
                .or_insert_with(|| Seen { info: path.clone(), meter: Meter::new(now, path.bytes_received) });
            let before = state(&seen.info);
            seen.info = path.clone();
            seen.meter.sample(now, path.bytes_received);
            let after = state(path);
            let fails = |state: &str| state.starts_with("failing") || state.starts_with("closed");
            if before != after && (fails(&before) || fails(&after)) {
                let from = canonical(path.tuple.local);
                let again = if fails(&after) { "" } else { "works again, " };
                news.push(format!("path {} from {from}: {again}{after}", path.id));
            }
        }
        news
    }

    /// Returns the paths that are shown, ordered by path ID.
    fn shown(&self) -> Vec<&Seen> {
        let mut shown: Vec<&Seen> = self.known.values().collect();
        shown.sort_by_key(|seen| (is_closed(&seen.info), std::cmp::Reverse(seen.info.id)));
        shown.truncate(MAX_SHOWN);
        shown.sort_by_key(|seen| seen.info.id);
        shown
    }

    /// Returns a line for each path.
    pub(super) fn lines(&self) -> Vec<String> {
        self.shown().into_iter().map(Seen::line).collect()
    }

    /// Returns a JSON value for each open path.
    pub(super) fn facts(&self) -> Vec<Value> {
        let open = self.known.values().filter(|seen| !is_closed(&seen.info));
        open.map(|seen| {
            let mut facts = multipath::facts(&seen.info);
            facts["connection"] = self.connection.as_str().into();
            facts["rate_mbps"] = (seen.meter.rate() * 8.0 / 1e6).into();
            facts
        })
        .collect()
    }
}

impl Seen {
    fn line(&self) -> String {
        let path = &self.info;
        let (local, remote) = (canonical(path.tuple.local), canonical(path.tuple.remote));
        let rtt = multipath::round_trip(path.smoothed_rtt, path.rtt_via.map(|via| via.0));
        let rate = rate::words(if is_closed(path) { 0.0 } else { self.meter.rate() });
        format!("  path {} {rate:>12}  {:<24} {local} → {remote}  {rtt}", path.id, state(path))
    }
}

fn is_closed(path: &PathInfo) -> bool {
    path.closure.is_some() || path.state == PathState::Abandoned
}

/// Describes the state of a path in a few words.
fn state(path: &PathInfo) -> String {
    if let Some(closure) = path.closure {
        let by = if closure.by_peer { " by the peer" } else { "" };
        return format!("closed{by}: {}", closure.reason());
    }
    match path.state {
        PathState::Opening => "validating",
        PathState::Open => "active",
        PathState::Backup => "standby",
        PathState::Failing => "failing: no answer",
        PathState::Abandoned => "closed",
        _ => "unknown",
    }
    .to_owned()
}

fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}
