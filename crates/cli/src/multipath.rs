//! Options for several paths at once (RFC 10069), and output about paths.

use std::net::SocketAddr;
use std::time::Duration;

use anabranch::paths::{InvalidPath, Survey};
use anabranch::{
    Candidate, Connection, ConnectionStats, MAX_PATHS, MultipathConfig, Numbering, NumberingChoice, PathInfo,
    PathManager, PathPolicy, PathRule, schedule,
};
use clap::Args;
use serde_json::{Value, json};

use crate::algorithm;
use crate::exit::{self, Exit, Failure, Result};

/// Interval between checks of interfaces that are down, while no other interface can be used.
const LOOK: Duration = Duration::from_millis(200);

/// Options for the use of several paths.
#[derive(Args, Clone, Debug)]
pub(crate) struct Sharing {
    /// Maximum number of open paths. If a client has neither --multipath nor --path, it offers this many paths to
    /// the server but opens only one
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_PATHS)))]
    max_paths: Option<u32>,
    /// Scheduler, which chooses the path of the next packet
    #[arg(long, value_name = "NAME", default_value = MultipathConfig::default().scheduler().name(),
          value_parser = algorithm::scheduler)]
    scheduler: schedule::Algorithm,
    /// Packet number spaces: `multiple` (one for each path, RFC 10069) or `single`. With this option a client
    /// accepts nothing else, and a server prefers it. By default a client offers both and a server prefers
    /// `multiple`
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

/// A client's paths; one path by default.
#[derive(Args, Clone, Debug)]
pub(crate) struct ClientPaths {
    /// Use every network of this host, if the server supports several paths at once; `anabranch paths` shows
    /// them
    #[arg(long)]
    multipath: bool,
    /// Use these interfaces or addresses and no others, in order of preference; may be repeated, and implies
    /// --multipath. One that does not exist is an error; one that is down is used once it is up
    #[arg(long = "path", value_name = "IF|ADDR[,backup][,weight=N][,count=N]")]
    rules: Vec<PathRule>,
    #[command(flatten)]
    sharing: Sharing,
}

impl ClientPaths {
    /// Creates options for one path. With `max_paths` the client announces to the server that it supports
    /// several.
    pub(crate) fn offering(max_paths: Option<u32>) -> Self {
        let scheduler = MultipathConfig::default().scheduler();
        Self {
            multipath: false,
            rules: Vec::new(),
            sharing: Sharing { max_paths, scheduler, numbering: None },
        }
    }

    /// Creates options for every interface, or only for those in `rules` if there are any.
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

    /// Returns the candidates for a server with the addresses `remotes`, in the order of the attempts.
    /// Interfaces that rules name must exist. If all of them are down, waits up to `patience` for one of
    /// them.
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
                // If an interface is up but does not lead to the server, waiting would not help.
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

    /// Starts a path manager for the connection if the options ask for several paths. The manager opens
    /// paths, and adds and removes paths as interfaces change.
    pub(crate) fn manage(&self, connection: &Connection) -> Managed {
        // A single rule for a single path asks for no second path.
        let wants_one = !self.multipath && matches!(&self.rules[..], [one] if one.count == 1);
        let manager = self.is_managed().then(|| connection.manage_paths(self.policy()));
        Managed { manager, wants_one }
    }
}

/// Fails if a rule names an interface or address that this host does not have.
pub(crate) fn check(survey: &Survey) -> Result {
    match survey.invalid.iter().find(|invalid| matches!(invalid, InvalidPath::Missing(_))) {
        Some(missing) => {
            Err(Failure::new(Exit::NoPath, missing).or("`anabranch paths` shows what there is to name"))
        }
        None => Ok(()),
    }
}

/// Path manager of a connection, if the options ask for one.
#[derive(Debug)]
pub(crate) struct Managed {
    manager: Option<PathManager>,
    wants_one: bool,
}

impl Managed {
    /// Returns the reason why the connection had only one path although the options asked for several.
    /// Returns `None` if it had several, or if the options asked for only one.
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

/// A server's paths: as many as its clients open, up to a limit.
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

/// Returns a path of a connection and its counters, as JSON.
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
            "code": closure.code.get(),
            "reason": closure.reason(),
            "by_peer": closure.by_peer,
        })),
    })
}

/// Returns all paths of a connection, closed ones first. The oldest closed paths, of which only totals are
/// stored, form one entry.
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

/// Formats a smoothed round-trip time, and the path `via` on which the acknowledgment of its newest sample
/// returned. Returns a dash before the first sample.
pub(crate) fn round_trip(rtt: Duration, via: Option<u32>) -> String {
    via.map_or_else(
        || "RTT –".to_owned(),
        |via| format!("RTT {:.1} ms (via path {via})", rtt.as_secs_f64() * 1e3),
    )
}

/// Returns a short description of a path for people.
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
