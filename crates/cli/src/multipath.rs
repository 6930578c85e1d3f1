//! Options about several paths at once (RFC 10069), and what is said about paths.

use std::net::SocketAddr;
use std::time::Duration;

use anabranch::paths::{InvalidPath, Survey};
use anabranch::{
    Candidate, Connection, ConnectionStats, MAX_PATHS, MultipathConfig, Numbering, NumberingChoice, PathInfo,
    PathManager, PathPolicy, PathRule, schedule,
};
use clap::Args;
use serde_json::{Value, json};

use crate::exit::{self, Exit, Failure, Result};

/// Interval at which an interface that is down is checked while nothing else can be used.
const LOOK: Duration = Duration::from_millis(200);

/// Options for the use of several paths.
#[derive(Args, Clone, Debug)]
pub(crate) struct Sharing {
    /// Paths that may be open at the same time; by itself it lets a client offer several and open none
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_PATHS)))]
    max_paths: Option<u32>,
    /// Scheduler: it chooses the path of the next packet
    #[arg(long, value_name = "NAME", default_value = MultipathConfig::default().scheduler().name())]
    scheduler: schedule::Algorithm,
    /// Packet number spaces: `multiple` or `single`. A client that is told so insists on it, a server prefers
    /// it; unless told, a client offers both and a server prefers `multiple`
    #[arg(long, value_name = "NAME")]
    numbering: Option<Numbering>,
}

impl Sharing {
    fn config(&self, choice: fn(Numbering) -> NumberingChoice) -> MultipathConfig {
        let defaults = MultipathConfig::default();
        let max_paths = self.max_paths.unwrap_or(defaults.max_paths());
        let numbering = self.numbering.map_or(defaults.numbering(), choice);
        defaults.with_max_paths(max_paths).with_scheduler(self.scheduler).with_numbering(numbering)
    }
}

/// A client's paths: one unless it is told otherwise.
#[derive(Args, Clone, Debug)]
pub(crate) struct ClientPaths {
    /// Use every network that this host is in, if the server uses several paths, too; `anabranch paths` shows
    /// which
    #[arg(long)]
    multipath: bool,
    /// Use these interfaces or addresses and no others, in order of preference; may be repeated, and means
    /// --multipath. One that does not exist is an error, one that is down is used once it is up
    #[arg(long = "path", value_name = "IF|ADDR[,backup][,weight=N][,count=N]")]
    rules: Vec<PathRule>,
    #[command(flatten)]
    sharing: Sharing,
}

impl ClientPaths {
    /// Creates options for one path; with `max_paths` the client tells the server that there could be more.
    pub(crate) fn offering(max_paths: Option<u32>) -> Self {
        let scheduler = MultipathConfig::default().scheduler();
        Self {
            multipath: false,
            rules: Vec::new(),
            sharing: Sharing { max_paths, scheduler, numbering: None },
        }
    }

    /// Creates options for every interface, or for those that these rules name.
    pub(crate) fn naming(rules: Vec<PathRule>) -> Self {
        Self { multipath: true, rules, ..Self::offering(None) }
    }

    pub(crate) fn config(&self) -> Option<MultipathConfig> {
        (self.is_managed() || self.sharing.max_paths.is_some())
            .then(|| self.sharing.config(NumberingChoice::Only))
    }

    pub(crate) fn is_managed(&self) -> bool {
        self.multipath || !self.rules.is_empty()
    }

    pub(crate) fn policy(&self) -> PathPolicy {
        let max_paths = self.sharing.max_paths.unwrap_or(MultipathConfig::default().max_paths());
        PathPolicy::default().allowing(self.rules.clone()).with_max_paths(max_paths as usize)
    }

    /// Returns the candidates for a server with these addresses, in the order in which they are to be tried.
    /// Interfaces that are named have to exist; if all of them are down, waits for one of them, for as long
    /// as `patience`.
    pub(crate) async fn candidates(
        &self,
        remotes: &[SocketAddr],
        patience: Duration,
    ) -> Result<Vec<Candidate>> {
        if !self.is_managed() {
            return Ok(Candidate::to_any_of(remotes));
        }
        let policy = self.policy();
        let survey = policy.survey().await;
        check(&survey)?;
        for unusable in &survey.invalid {
            exit::note(format_args!("anabranch: {unusable}; it is used once that changes"));
        }
        let found = async {
            loop {
                let candidates = policy.candidates(remotes).await;
                // Something is up, and does not lead there: that will not change by waiting.
                let up = policy.survey().await.invalid.len() < self.rules.len().max(1);
                if up || !candidates.is_empty() {
                    return candidates;
                }
                tokio::time::sleep(LOOK).await;
            }
        };
        let names: Vec<_> = self.rules.iter().map(|rule| rule.pattern.to_string()).collect();
        let names = names.join(", ");
        let Ok(candidates) = tokio::time::timeout(patience, found).await else {
            let what =
                format!("{names}: not up within {} s, and no other may be used", patience.as_secs_f64());
            return Err(Failure::new(Exit::NoPath, what).or("see `anabranch paths`, or name other paths"));
        };
        match remotes.first() {
            Some(remote) if candidates.is_empty() => {
                let what = format!("no address of {names} leads to {}", remote.ip());
                Err(Failure::new(Exit::NoPath, what).or("see `anabranch paths`, or name other paths"))
            }
            _ => Ok(candidates),
        }
    }

    /// Has paths opened on a connection, and followed as interfaces come and go until it ends, if several are
    /// wanted.
    pub(crate) fn manage(&self, connection: &Connection) -> Managed {
        // Who names one path wants one.
        let wants_one = !self.multipath && matches!(&self.rules[..], [one] if one.count == 1);
        let manager = self.is_managed().then(|| connection.manage_paths(self.policy()));
        Managed { manager, wants_one }
    }
}

/// Returns an error if a rule names an interface or address that this host does not have.
pub(crate) fn check(survey: &Survey) -> Result {
    match survey.invalid.iter().find(|invalid| matches!(invalid, InvalidPath::Missing(_))) {
        Some(missing) => {
            Err(Failure::new(Exit::NoPath, missing).or("`anabranch paths` shows what there is to name"))
        }
        None => Ok(()),
    }
}

/// The paths that were asked for on a connection.
#[derive(Debug)]
pub(crate) struct Managed {
    manager: Option<PathManager>,
    wants_one: bool,
}

impl Managed {
    /// Returns the reason that the connection has had one path although several were wanted; `None` if it has
    /// had several, or none were wanted.
    pub(crate) fn why_single(&self, connection: &Connection) -> Option<String> {
        let manager = self.manager.as_ref()?;
        let stats = connection.stats();
        let open = stats.all_paths().filter(|path| path.validated).count() as u64 + stats.merged.paths;
        if open > 1 {
            return None;
        }
        if !connection.is_multipath() {
            return Some("the server does not use several paths at once".to_owned());
        }
        if self.wants_one {
            return None;
        }
        let attempts = manager.attempts();
        if attempts.is_empty() {
            return Some("the transfer was over before another path could be opened".to_owned());
        }
        let others: Vec<_> = attempts.iter().filter(|attempt| !attempt.is_open).collect();
        if others.is_empty() {
            let survey = manager.survey();
            let left_out = survey.interfaces.iter().filter_map(|interface| {
                let why = interface.unused.filter(|_| interface.name != "lo")?;
                Some(format!("{}: {why}", interface.name))
            });
            let left_out: Vec<_> = left_out.collect();
            let list =
                if left_out.is_empty() { String::new() } else { format!(" ({})", left_out.join("; ")) };
            return Some(format!("no other interface counts{list}; see `anabranch paths`"));
        }
        let why = others.iter().map(|attempt| {
            let why = attempt.error.as_deref().unwrap_or("was still being opened");
            format!("{} ({} to {}): {why}", attempt.interface, attempt.local, attempt.remote)
        });
        Some(why.collect::<Vec<_>>().join("; "))
    }
}

/// A server's paths: as many as its clients want, up to a limit.
#[derive(Args, Clone, Debug)]
pub(crate) struct ServerPaths {
    /// Do not let clients use several paths at once
    #[arg(long)]
    no_multipath: bool,
    #[command(flatten)]
    sharing: Sharing,
}

impl ServerPaths {
    pub(crate) fn config(&self) -> Option<MultipathConfig> {
        (!self.no_multipath).then(|| self.sharing.config(NumberingChoice::Prefer))
    }
}

/// Returns a path of a connection, with what it has carried so far.
pub(crate) fn facts(path: &PathInfo) -> Value {
    json!({
        "id": path.id.0,
        "local": path.tuple.local.to_string(),
        "remote": path.tuple.remote.to_string(),
        "bytes": path.bytes_received,
        "bytes_sent": path.bytes_sent,
        "rtt_ms": path.rtt_via.map(|_| path.smoothed_rtt.as_secs_f64() * 1e3),
        "rtt_via": path.rtt_via.map(|via| via.0),
        "lost_packets": path.recovery.lost_packets,
        "state": path.state.name(),
        "idle": path.idle.filter(|_| path.closure.is_none()).map(|idle| idle.name()),
        "closed": path.closure.map(|closure| json!({
            "after_s": closure.after.as_secs_f64(),
            "code": closure.code,
            "reason": closure.reason(),
            "by_peer": closure.by_peer,
        })),
    })
}

/// Returns all paths that a connection has had, those that are gone first. Paths that ended too long ago to
/// be known one by one are one entry.
pub(crate) fn all_facts(stats: &ConnectionStats) -> Vec<Value> {
    let merged = (stats.merged.paths > 0).then(|| {
        json!({
            "id": null,
            "paths": stats.merged.paths,
            "bytes": stats.merged.bytes_received,
            "bytes_sent": stats.merged.bytes_sent,
            "lost_packets": stats.merged.lost_packets,
            "state": "abandoned",
        })
    });
    merged.into_iter().chain(stats.all_paths().map(facts)).collect()
}

/// Returns a smoothed round-trip time, and on which path its acknowledgments came back; a dash before the
/// first sample.
pub(crate) fn round_trip(rtt: Duration, via: Option<u32>) -> String {
    via.map_or_else(
        || "RTT –".to_owned(),
        |via| format!("RTT {:.1} ms (via path {via})", rtt.as_secs_f64() * 1e3),
    )
}

/// Returns a path in a few words for people.
pub(crate) fn words(path: &PathInfo) -> String {
    let state = match path.closure {
        Some(closure) => format!(
            "closed {}after {:.1} s: {}",
            if closure.by_peer { "by the peer " } else { "" },
            closure.after.as_secs_f64(),
            closure.reason()
        ),
        None => {
            let idle = path.idle.map(|idle| format!(", idle: {idle}")).unwrap_or_default();
            format!("{}{idle}", path.state)
        }
    };
    format!(
        "path {} from {}: {} bytes, {}, {state}",
        path.id.0,
        path.tuple.local.ip(),
        path.bytes_received,
        round_trip(path.smoothed_rtt, path.rtt_via.map(|via| via.0)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_trip_says_how_it_was_measured() {
        let rtt = Duration::from_micros(42_160);
        assert_eq!(round_trip(rtt, Some(0)), "RTT 42.2 ms (via path 0)");
        assert_eq!(round_trip(rtt, None), "RTT –");
    }
}
