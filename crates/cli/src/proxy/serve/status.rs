//! State of a proxy, for `anabranch status`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::shared::Shared;
use crate::status::paths::{self, PathKey};
use crate::status::publish::Source;
use crate::status::rates::Rates;
use crate::status::report::{FlowsReport, KindReport, PathReport, Report, UserReport};

/// Maximum number of connections whose paths are candidates for a report: the newest ones.
const MAX_SAMPLED: usize = 256;
/// Maximum number of paths that are reported: those with the highest rates.
const MAX_PATHS: usize = 20;
/// Maximum number of users that are reported: those with the highest rates.
const MAX_USERS: usize = 20;

/// Key of a counter whose rate is reported.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Path(PathKey),
    User(String),
    All,
}

/// Source of a proxy's reports.
#[derive(Debug)]
pub(super) struct State {
    shared: Arc<Shared>,
    begun: Instant,
    rates: Rates<Key>,
}

impl State {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, begun: Instant::now(), rates: Rates::new() }
    }

    fn users(&mut self) -> Vec<UserReport> {
        let totals = self.shared.proxy.totals();
        let user = |(user, totals): (String, anabranch::proxy::server::UserTotals)| {
            let [sent, received] = self.rates.rate(Key::User(user.clone()), [totals.sent, totals.received]);
            UserReport { user, flows: totals.flows, sent, received, dropped_datagrams: totals.dropped }
        };
        let mut users: Vec<_> = totals.into_iter().map(user).collect();
        let order = |user: &UserReport| {
            (user.sent.rate() + user.received.rate(), (user.sent.bytes + user.received.bytes) as f64)
        };
        users.sort_by(|a, b| order(b).partial_cmp(&order(a)).unwrap_or(std::cmp::Ordering::Equal));
        users
    }

    /// Returns the sums of all users' tunnels as one kind, `all`.
    fn flows(&mut self, users: &[UserReport]) -> FlowsReport {
        let sum = |count: fn(&UserReport) -> u64| users.iter().map(count).sum::<u64>();
        let moved = [sum(|user| user.sent.bytes), sum(|user| user.received.bytes)];
        let [sent, received] = self.rates.rate(Key::All, moved);
        let ended = self.shared.metrics.ended();
        let active = sum(|user| user.flows as u64);
        let kind = KindReport {
            kind: "all".to_owned(),
            active,
            opened: active + ended.opened,
            failed: ended.refused,
            sent,
            received,
        };
        FlowsReport { kinds: vec![kind], top: Vec::new() }
    }

    /// Returns the number of open connections, and the paths that are reported.
    fn paths(&mut self) -> (usize, Vec<PathReport>) {
        let open = self.shared.metrics.connections();
        let newest = &open[open.len().saturating_sub(MAX_SAMPLED)..];
        let of = |(number, connection): &(u64, anabranch::Connection)| {
            paths::of((*number, connection), &[], &mut self.rates, Key::Path)
        };
        let mut paths: Vec<_> = newest.iter().flat_map(of).collect();
        let rate = |path: &PathReport| path.sent.rate() + path.received.rate();
        paths.sort_by(|a, b| rate(b).total_cmp(&rate(a)));
        paths.truncate(MAX_PATHS);
        paths.sort_by_key(|path| (path.connection, path.id));
        (open.len(), paths)
    }
}

impl Source for State {
    fn report(&mut self, interval: Option<Duration>) -> Report {
        self.rates.begin(interval);
        let mut users = self.users();
        let flows = self.flows(&users);
        users.truncate(MAX_USERS);
        let (connections, paths) = self.paths();
        let state = if self.shared.stopping.is_cancelled() { "stopping" } else { "serving" };
        Report {
            role: "serve".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            up_s: self.begun.elapsed().as_secs_f64(),
            proxy: None,
            state: state.to_owned(),
            why: None,
            connections,
            addresses: Vec::new(),
            paths,
            flows,
            dropped: None,
            users,
        }
    }
}
