//! State of a client, for `anabranch status`.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anabranch::ConnectionId;
use anabranch::proxy::client::ProxyState;
use tokio::sync::watch;

use super::link::Client;
use super::seen::{Kind, Seen};
use crate::status::paths::{self, PathKey};
use crate::status::publish::Source;
use crate::status::rates::Rates;
use crate::status::report::{DropsReport, FlowReport, FlowsReport, KindReport, Report};

/// Maximum number of tunnels that are reported individually: those with the highest rates.
const MAX_TOP: usize = 10;

/// Key of a counter whose rate is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Path(PathKey),
    Kind(Kind),
    Flow(u64),
}

/// Source of a client's reports.
#[derive(Debug)]
pub(crate) struct State {
    role: &'static str,
    current: watch::Receiver<Client>,
    begun: Instant,
    rates: Rates<Key>,
    /// Numbers of the open connections in reports.
    numbers: BTreeMap<ConnectionId, u64>,
    next: u64,
}

impl State {
    pub(crate) fn new(role: &'static str, current: watch::Receiver<Client>) -> Self {
        let numbers = BTreeMap::new();
        Self { role, current, begun: Instant::now(), rates: Rates::new(), numbers, next: 0 }
    }

    fn flows(&mut self, seen: &Seen) -> FlowsReport {
        let kind = |kind: Kind| {
            let totals = seen.totals(kind);
            let [sent, received] = self.rates.rate(Key::Kind(kind), [totals.sent, totals.received]);
            KindReport {
                kind: kind.name().to_owned(),
                active: totals.active,
                opened: totals.opened,
                failed: totals.failed,
                sent,
                received,
            }
        };
        let kinds = seen.kinds().iter().copied().map(kind).collect();
        let flow = |(id, account): (u64, std::sync::Arc<super::seen::Account>)| {
            let moved = [account.traffic.sent(), account.traffic.received()];
            let [sent, received] = self.rates.rate(Key::Flow(id), moved);
            FlowReport {
                kind: account.kind.name().to_owned(),
                target: account.target.clone(),
                age_s: account.begun.elapsed().as_secs_f64(),
                sent,
                received,
            }
        };
        let mut top: Vec<_> = seen.listed().into_iter().map(flow).collect();
        let rate = |flow: &FlowReport| flow.sent.rate() + flow.received.rate();
        top.sort_by(|a, b| rate(b).total_cmp(&rate(a)));
        top.truncate(MAX_TOP);
        FlowsReport { kinds, top }
    }
}

impl Source for State {
    fn report(&mut self, interval: Option<Duration>) -> Report {
        self.rates.begin(interval);
        let client = self.current.borrow().clone();
        let proxy = client.proxy();
        let (state, why) = state(&proxy.states().borrow());
        let attempts = proxy.path_attempts();
        let connections = proxy.connections();
        client.seen().drops().follow(&connections);
        let dropped = client.seen().drops().total();
        let before = std::mem::take(&mut self.numbers);
        let mut paths = Vec::new();
        for connection in &connections {
            let id = connection.original_dcid();
            let number = before.get(&id).copied().unwrap_or(self.next);
            self.next = self.next.max(number + 1);
            self.numbers.insert(id, number);
            paths.extend(paths::of((number, connection), &attempts, &mut self.rates, Key::Path));
        }
        paths.extend(paths::attempted(&attempts));
        Report {
            role: self.role.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            up_s: self.begun.elapsed().as_secs_f64(),
            proxy: Some(client.url().to_owned()),
            state: state.to_owned(),
            why,
            connections: connections.len() + client.proxy().fallback_connections(),
            addresses: client.seen().addresses().iter().map(ToString::to_string).collect(),
            paths,
            flows: self.flows(client.seen()),
            dropped: Some(DropsReport { full: dropped.full, expired: dropped.expired }),
            users: Vec::new(),
        }
    }
}

/// Returns the name of a client's state in reports, and its reason, if there is one.
fn state(state: &ProxyState) -> (&'static str, Option<String>) {
    match state {
        ProxyState::Idle => ("connecting", None),
        ProxyState::Connected => ("connected", None),
        ProxyState::Fallback(cause) => ("fallback", Some(cause.to_string())),
        ProxyState::Lost(reason) => ("lost", Some(reason.to_string())),
        ProxyState::Failing(cause) => ("failing", Some(cause.to_string())),
        _ => ("closed", None),
    }
}

#[cfg(test)]
mod tests {
    use anabranch::proxy::client::Target;

    use super::*;

    #[test]
    fn max_top_tunnels_are_reported_those_that_move_most() {
        let (_keep, current) = {
            let client = super::super::link::tests::client();
            watch::channel(client)
        };
        let mut state = State::new("connect", current.clone());
        let seen = current.borrow().seen().clone();
        let name = |n: usize| format!("host{n}:443").parse::<Target>().unwrap();
        let flows: Vec<_> = (0..MAX_TOP + 5).map(|n| seen.open(Kind::Tcp, &name(n))).collect();
        let first = state.report(None);
        assert_eq!((first.state.as_str(), first.role.as_str()), ("connecting", "connect"));
        for (n, flow) in flows.iter().enumerate() {
            flow.traffic().add_received(1_000 * n as u64);
        }
        seen.drops().count();
        let report = state.report(Some(Duration::from_secs(1)));
        assert_eq!(report.dropped, Some(DropsReport { full: 1, expired: 0 }));
        assert_eq!(report.flows.top.len(), MAX_TOP);
        assert_eq!(report.flows.top[0].target, name(MAX_TOP + 4).to_string());
        assert_eq!(report.flows.kinds[0].active, MAX_TOP as u64 + 5);
        assert!(report.flows.kinds[0].received.rate() > 0.8);
    }
}
