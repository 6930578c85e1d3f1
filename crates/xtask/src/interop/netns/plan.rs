//! Cases of the public runner: test cases of both endpoints, the route between them, and the evidence that
//! their traces must contain.

use std::time::Duration;

use super::super::case::{self, Case, Check, Expected, Work, changing_link, simple_link};
use super::evidence::Evidence;
use super::network::ROUTER_OTHER;

/// Minimum rate in Mbit/s of a client on 10 Mbit/s and of the TCP connection that competes with it.
pub(super) const FAIR_ENOUGH: f64 = 2.0;

/// Route of datagrams between the endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// Through the lab's relay on the router, to which the server's names resolve.
    Relay,
    /// Through the kernel's forwarding.
    Direct,
    /// Through the kernel's forwarding at 10 Mbit/s, with a competing TCP connection.
    Contended,
}

/// Case, with its settings for the public runner's contract.
#[derive(Clone, Debug)]
pub(super) struct Play {
    pub(super) case: Case,
    /// Values of TESTCASE for client and server.
    pub(super) names: [&'static str; 2],
    pub(super) route: Route,
    /// Name of the server in URLs.
    pub(super) host: &'static str,
    /// Minimum length of the files' names; 0 for no minimum.
    pub(super) name_length: usize,
    /// Number of connections that the client makes.
    pub(super) connections: usize,
    pub(super) evidence: Vec<Evidence>,
}

impl Play {
    /// Returns the case of this name, over its own link or the runner's simple link.
    fn of(name: &'static str, client: &'static str, server: &'static str) -> Self {
        let known = case::all().into_iter().find(|case| case.name == name);
        let mut case = known.unwrap_or_else(|| Case::new(name, ""));
        if case.link.is_none() || case.only_watched {
            case.link = Some(simple_link());
        }
        let host = if case.ipv6 { "server6" } else { "server4" };
        Self {
            case,
            names: [client, server],
            route: Route::Relay,
            host,
            name_length: 0,
            connections: 1,
            evidence: Vec::new(),
        }
    }

    fn shows(mut self, evidence: Evidence) -> Self {
        self.evidence.push(evidence);
        self
    }

    fn route(mut self, route: Route) -> Self {
        self.route = route;
        self.case.link = None;
        // Without a relay nothing observes the traffic, so only checks of the client's report remain.
        self.case.checks.retain(|check| matches!(check, Check::Reported(..)));
        self
    }

    fn connections(self, connections: usize) -> Self {
        Self { connections, ..self }
    }

    fn files(mut self, files: &[(usize, usize)]) -> Self {
        self.case.work = Work::Files(files.to_vec());
        self
    }
}

/// Returns all cases, in the public runner's order.
pub(super) fn plan() -> Vec<Play> {
    [of_the_handshake(), of_the_transfer(), of_a_bad_link(), of_addresses(), of_goodput()].concat()
}

fn of_the_handshake() -> Vec<Play> {
    vec![
        Play::of("handshake", "handshake", "handshake"),
        Play::of("longrtt", "handshake", "handshake").shows(Evidence::HelloRepeated),
        Play::of("chacha20", "chacha20", "chacha20"),
        Play::of("retry", "retry", "retry").shows(Evidence::Retry),
        Play::of("resumption", "resumption", "resumption")
            .connections(2)
            .shows(Evidence::NoSecondCertificate),
        Play { name_length: 250, ..Play::of("zerortt", "zerortt", "zerortt") }
            .files(&[(40, 32)])
            .connections(2)
            .shows(Evidence::EarlyData { most_later: 250 * 40 / 2 }),
        Play::of("v2", "v2", "v2").files(&[(1, 1024)]).shows(Evidence::Upgrade),
        Play::of("amplificationlimit", "transfer", "transfer"),
    ]
}

fn of_the_transfer() -> Vec<Play> {
    vec![
        Play::of("transfer", "transfer", "transfer").shows(Evidence::WindowsWidened),
        Play::of("http3", "http3", "http3"),
        Play::of("multiplexing", "transfer", "transfer").shows(Evidence::StreamLimit { most: 1000 }),
        Play::of("keyupdate", "keyupdate", "transfer").shows(Evidence::KeyPhase),
        // The relay's sockets would remove the ECN marks.
        Play::of("ecn", "ecn", "ecn").route(Route::Direct).shows(Evidence::EcnCounts),
        Play::of("ipv6", "transfer", "transfer").shows(Evidence::OnlyIpv6),
    ]
}

fn of_a_bad_link() -> Vec<Play> {
    vec![
        Play::of("blackhole", "transfer", "transfer"),
        Play::of("handshakeloss", "multiconnect", "multiconnect").files(&[(50, 1024)]).connections(50),
        Play::of("transferloss", "transfer", "transfer"),
        Play::of("handshakecorruption", "multiconnect", "multiconnect").files(&[(50, 1024)]).connections(50),
        Play::of("transfercorruption", "transfer", "transfer"),
    ]
}

fn of_addresses() -> Vec<Play> {
    let mut rebind_addr = Play::of("rebind-addr", "transfer", "transfer").shows(Evidence::PathsValidated);
    rebind_addr.case.link = Some(changing_link(Some(ROUTER_OTHER)));
    vec![
        Play::of("rebind-port", "transfer", "transfer").shows(Evidence::PathsValidated),
        rebind_addr,
        // The preferred address is the server's own and bypasses the relay.
        Play { host: "server46", ..Play::of("connectionmigration", "transfer", "connectionmigration") }
            .route(Route::Direct)
            .files(&[(1, 2_000_000)])
            .shows(Evidence::PathsValidated)
            .shows(Evidence::PreferredAddress),
    ]
}

fn of_goodput() -> Vec<Play> {
    let mut crosstraffic =
        Play::of("crosstraffic", "transfer", "transfer").route(Route::Contended).files(&[(1, 25_000_000)]);
    crosstraffic.case.about =
        "25 MB over 10 Mbit/s beside a TCP connection (CUBIC); each gets a fifth at least";
    crosstraffic.case.patience = Duration::from_secs(180);
    crosstraffic.case.checks.push(Check::Reported("goodput_mbps", Expected::AtLeast(FAIR_ENOUGH)));
    vec![Play::of("goodput", "transfer", "transfer"), crosstraffic]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn cases_have_files_and_a_link_where_there_is_a_relay() {
        let plan = plan();
        let names: BTreeSet<_> = plan.iter().map(|play| play.case.name).collect();
        assert_eq!(names.len(), plan.len());
        for play in &plan {
            assert!(
                matches!(&play.case.work, Work::Files(groups) if !groups.is_empty()),
                "{}",
                play.case.name
            );
            assert_eq!(play.case.link.is_some(), play.route == Route::Relay, "{}", play.case.name);
            assert!(!play.case.about.is_empty(), "{}", play.case.name);
        }
    }
}
