//! Interop cases: flags of server and client, the link between them, and the required observations.

use std::net::{IpAddr, Ipv4Addr};
use std::ops::RangeInclusive;
use std::time::Duration;

use anabranch_lab::link::{Blackout, Limit, LinkSpec, Rate};
use anabranch_wire::{Time, Version};

use super::described::Described;

pub(super) const KB: usize = 1_000;
pub(super) const MB: usize = 1_000_000;

/// Link of the interop runner's simple cases: 10 Mbit/s, 30 ms, a queue of 25 packets.
const LINK_RATE: u64 = 10_000_000;
const LINK_RTT: Duration = Duration::from_millis(30);
const LINK_QUEUE: usize = 25;
/// Rate of the link on which addresses change. It is slow enough for several changes during one transfer.
const CHANGING_RATE: u64 = 20_000_000;
/// Times at which the addresses change, in milliseconds.
const CHANGES: [u64; 2] = [1_000, 2_500];
/// Address to which the client of `rebind-addr` appears to move.
const OTHER_LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

/// Idle timeout for the handshake cases, in which half of all round trips fail. Probe intervals double,
/// beginning at one second, until a round trip succeeds. After half a minute about one in 200 connections is
/// still incomplete; after two minutes there should be none.
const PERSISTENT: &[&str] = &["--idle-ms", "120000"];

/// Work of a client.
#[derive(Clone, Debug)]
pub(super) enum Work {
    /// Fetch of files: number and size of each group.
    Files(Vec<(usize, usize)>),
    /// Exchange of this number of DATAGRAM frames.
    Datagrams(u64),
    /// Number of connections, and maximum number of concurrent ones.
    Handshakes(usize, usize),
    /// No work besides the case itself.
    None,
}

/// Condition that must hold, besides a successful client and correct files.
#[derive(Clone, Debug)]
pub(super) enum Check {
    /// The server sent Retry, and the client returned the token.
    Retry,
    /// The server did not send Retry.
    NoRetry,
    /// The server sent Version Negotiation.
    VersionNegotiation,
    /// The server's Handshake packets had only this version.
    Version(Version),
    /// The client sent 0-RTT packets.
    ZeroRtt,
    /// The server respected the amplification limit, and had more data to send than it allows.
    Amplification,
    /// The client still received data this long after the start.
    AliveAt(Duration),
    /// The server sent to this number of client addresses.
    Addresses(usize),
    /// The client's report contains this value.
    Reported(&'static str, Expected),
}

/// Expected value in the client's report.
#[derive(Clone, Debug)]
pub(super) enum Expected {
    /// `true`
    True,
    /// This string.
    Is(&'static str),
    /// A number that is at least this one.
    AtLeast(f64),
}

/// Interop case.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) name: &'static str,
    /// Subject of the case, in a few words.
    pub(super) about: &'static str,
    /// Flags of the server.
    pub(super) server: &'static [&'static str],
    /// Flags of the client, including `--case`.
    pub(super) client: &'static [&'static str],
    pub(super) work: Work,
    /// `true` if files are fetched over HTTP/3 by all programs. Otherwise HTTP/3 is used only if the client or
    /// the server program supports nothing else.
    pub(super) http3: bool,
    /// Link between client and server. If `None`, they communicate directly and their traffic is not
    /// observed.
    pub(super) link: Option<LinkSpec>,
    /// `true` if the link serves only to observe the traffic.
    pub(super) only_watched: bool,
    pub(super) checks: Vec<Check>,
    pub(super) ipv6: bool,
    /// `true` if the server sends nine certificates.
    pub(super) long_chain: bool,
    /// Datagrams of the client, counted from 1, that are lost.
    pub(super) drop: Option<RangeInclusive<u64>>,
    /// `true` if the link corrupts packets, including unauthenticated ones.
    pub(super) damage: bool,
    /// Maximum duration of the client's run.
    pub(super) patience: Duration,
    /// `true` if the case is quick and reliable enough to run for every change.
    pub(super) smoke: bool,
}

impl Described for Case {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }
}

impl Case {
    pub(super) fn new(name: &'static str, about: &'static str) -> Self {
        Self {
            name,
            about,
            server: &[],
            client: &["--case", "transfer"],
            work: Work::None,
            http3: false,
            link: None,
            only_watched: false,
            checks: Vec::new(),
            ipv6: false,
            long_chain: false,
            drop: None,
            damage: false,
            patience: Duration::from_secs(60),
            smoke: false,
        }
    }

    pub(super) fn server(self, server: &'static [&'static str]) -> Self {
        Self { server, ..self }
    }

    pub(super) fn client(self, client: &'static [&'static str]) -> Self {
        Self { client, ..self }
    }

    /// Sets the files that the client fetches: number and size of each group.
    pub(super) fn files(self, files: &[(usize, usize)]) -> Self {
        Self { work: Work::Files(files.to_vec()), ..self }
    }

    fn work(self, work: Work) -> Self {
        Self { work, ..self }
    }

    pub(super) fn link(self, link: LinkSpec) -> Self {
        Self { link: Some(link), ..self }
    }

    /// Returns the case with a relay that only observes.
    pub(super) fn watched(self) -> Self {
        Self { only_watched: true, ..self.link(LinkSpec::default()) }
    }

    pub(super) fn check(mut self, check: Check) -> Self {
        self.checks.push(check);
        self
    }

    fn damaged(self, probability: f64) -> Self {
        Self { damage: true, ..self.link(simple_link().corrupt(probability)) }
    }

    fn patience(self, seconds: u64) -> Self {
        Self { patience: Duration::from_secs(seconds), ..self }
    }

    /// Returns true if the case can be run by fetching files, over any protocol.
    pub(super) fn is_about_files(&self) -> bool {
        matches!(self.work, Work::Files(_) | Work::Handshakes(..))
    }

    fn smoke(self) -> Self {
        Self { smoke: true, ..self }
    }
}

pub(super) fn simple_link() -> LinkSpec {
    LinkSpec::unlimited(LINK_RTT).queue(Rate::constant(LINK_RATE), Limit::Packets(LINK_QUEUE))
}

/// Returns a link that is up for `up` seconds and then down for `down` seconds, repeatedly.
fn flapping(up: u64, down: u64) -> LinkSpec {
    let window = Time::from_millis(up * 1000)..Time::from_millis((up + down) * 1000);
    simple_link().both(Blackout::new([window]).every(Duration::from_secs(up + down)))
}

pub(super) fn changing_link(ip: Option<IpAddr>) -> LinkSpec {
    let link = LinkSpec::new(CHANGING_RATE, Duration::from_millis(40));
    // The address alternates between both addresses; the port changes each time.
    let mut other = ip;
    CHANGES.iter().fold(link, |link, at| {
        let link = link.rebind(Time::from_millis(*at), other, 1);
        other = None;
        link
    })
}

/// Returns a check that data still arrives several round trips after the last change.
fn alive_after_changes() -> Check {
    Check::AliveAt(Duration::from_millis(CHANGES[CHANGES.len() - 1] + 300))
}

/// Name of the stateless reset case, which is run differently from the others.
pub(super) const STATELESS_RESET: &str = "statelessreset";

/// Returns all cases, in the order of the matrix.
pub(super) fn all() -> Vec<Case> {
    [basic(), of_the_handshake(), on_a_changing_link(), on_a_bad_link()].concat()
}

fn basic() -> Vec<Case> {
    use Expected::AtLeast;
    let three_files = &[(1, 2 * MB), (1, 3 * MB), (1, 5 * MB)];
    vec![
        Case::new("handshake", "1 KB over one connection, no Retry")
            .client(&["--case", "handshake"])
            .files(&[(1, KB)])
            .watched()
            .check(Check::NoRetry)
            .check(Check::Version(Version::V1))
            .smoke(),
        Case::new("transfer", "2 + 3 + 5 MB on three streams").files(three_files).smoke(),
        Case::new("chacha20", "only TLS_CHACHA20_POLY1305_SHA256 offered")
            .client(&["--case", "chacha20"])
            .files(&[(1, 3 * MB)])
            .smoke(),
        Case::new("multiplexing", "1,999 streams of 32 bytes")
            .client(&["--case", "multiplexing"])
            .files(&[(1999, 32)])
            .smoke(),
        Case::new("keyupdate", "the client updates keys in the middle")
            .client(&["--case", "keyupdate"])
            .files(&[(1, 3 * MB)])
            .check(Check::Reported("key_updates", AtLeast(1.0)))
            .smoke(),
        Case::new("ecn", "marks are validated at both ends")
            .client(&["--case", "ecn"])
            .files(&[(1, 3 * MB)])
            .smoke(),
        Case {
            http3: true,
            ..Case::new("http3", "5 KB, 10 KB, 500 KB and 5 MB over HTTP/3, all at once")
                .files(&[(1, 5 * KB), (1, 10 * KB), (1, 500 * KB), (1, 5 * MB)])
                .smoke()
        },
        Case::new("datagrams", "100 DATAGRAM frames and their echoes")
            .client(&["--case", "datagram"])
            .work(Work::Datagrams(100))
            .check(Check::Reported("echoed", AtLeast(90.0)))
            .smoke(),
        Case { ipv6: true, ..Case::new("ipv6", "2 + 3 + 5 MB over IPv6").files(three_files).smoke() },
    ]
}

fn of_the_handshake() -> Vec<Case> {
    use Expected::True;
    vec![
        Case::new("retry", "every client has to prove its address")
            .server(&["--retry"])
            .files(&[(1, KB)])
            .watched()
            .check(Check::Retry)
            .smoke(),
        Case::new("resumption", "a second connection from a ticket")
            .client(&["--case", "resumption"])
            .files(&[(2, 5 * KB)])
            .check(Check::Reported("resumed", True))
            .smoke(),
        Case::new("zerortt", "40 requests in 0-RTT")
            .client(&["--case", "zerortt"])
            .files(&[(41, 32)])
            .watched()
            .check(Check::ZeroRtt)
            .check(Check::Reported("zero_rtt_accepted", True))
            .smoke(),
        Case::new("v2", "QUIC version 2")
            .server(&["--v2"])
            .client(&["--case", "v2", "--v2"])
            .files(&[(1, MB)])
            .watched()
            .check(Check::Version(Version::V2))
            .smoke(),
        Case::new("versionnegotiation", "a version that the server does not have")
            .client(&["--case", "versionnegotiation"])
            .files(&[(1, KB)])
            .watched()
            .check(Check::VersionNegotiation)
            .smoke(),
        Case {
            long_chain: true,
            drop: Some(2..=7),
            ..Case::new("amplificationlimit", "nine certificates; the client's datagrams 2 to 7 get lost")
                .files(&[(1, 5 * KB)])
                .watched()
                .check(Check::Amplification)
        },
    ]
}

fn on_a_changing_link() -> Vec<Case> {
    vec![
        Case::new("rebind-port", "the client's port changes twice, unknown to it")
            .files(&[(1, 10 * MB)])
            .link(changing_link(None))
            .check(alive_after_changes()),
        Case::new("rebind-addr", "the client's address changes there and back, unknown to it")
            .files(&[(1, 10 * MB)])
            .link(changing_link(Some(OTHER_LOOPBACK)))
            .check(alive_after_changes()),
        Case::new("connectionmigration", "the client moves to another socket")
            .client(&["--case", "migration"])
            .files(&[(1, 5 * MB)])
            .link(changing_link(None))
            .check(Check::Addresses(2)),
        Case::new(
            STATELESS_RESET,
            "the server is killed and comes back with the same key, then with another one",
        ),
    ]
}

fn on_a_bad_link() -> Vec<Case> {
    vec![
        Case::new("longrtt", "750 ms each way")
            .client(&["--case", "handshake"])
            .files(&[(1, 100 * KB)])
            .link(
                LinkSpec::unlimited(Duration::from_millis(1500))
                    .queue(Rate::constant(LINK_RATE), Limit::Packets(LINK_QUEUE)),
            ),
        Case::new("handshakeloss", "50 connections, 30 % loss")
            .server(PERSISTENT)
            .client(&["--case", "handshake", "--idle-ms", "120000"])
            .work(Work::Handshakes(50, 10))
            .link(simple_link().loss(0.3))
            .patience(300),
        Case::new("handshakecorruption", "50 connections, 30 % damaged")
            .server(PERSISTENT)
            .client(&["--case", "handshake", "--idle-ms", "120000"])
            .work(Work::Handshakes(50, 10))
            .damaged(0.3)
            .patience(300),
        Case::new("transferloss", "2 MB, 2 % loss")
            .files(&[(1, 2 * MB)])
            .link(simple_link().loss(0.02))
            .smoke(),
        Case::new("transfercorruption", "2 MB, 2 % damaged").files(&[(1, 2 * MB)]).damaged(0.02),
        Case::new("blackhole", "5 s up, 2 s down, again and again")
            .files(&[(1, 10 * MB)])
            .link(flapping(5, 2))
            .check(Check::AliveAt(Duration::from_secs(7))),
        Case::new("goodput", "10 MB over 10 Mbit/s; at least three quarters of it used")
            .files(&[(1, 10 * MB)])
            .link(simple_link())
            .check(Check::Reported("goodput_mbps", Expected::AtLeast(7.5))),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::described::assert_unique_names;
    use super::*;

    #[test]
    fn names_are_unique_and_checks_have_somebody_who_watches() {
        let cases = all();
        assert_unique_names(&cases);
        for case in &cases {
            let on_the_wire = |check: &Check| !matches!(check, Check::Reported(..));
            assert!(case.link.is_some() || !case.checks.iter().any(on_the_wire), "{}", case.name);
        }
    }

    #[test]
    fn addresses_change_within_the_transfer() {
        let link = changing_link(Some(OTHER_LOOPBACK));
        let ips: Vec<_> = link.rebindings().iter().map(|rebinding| rebinding.ip).collect();
        assert_eq!(ips, [Some(OTHER_LOOPBACK), None]);
        let fastest = Duration::from_secs(10 * MB as u64 * 8 / CHANGING_RATE);
        assert!(fastest > Duration::from_millis(CHANGES[1] + 1000));
    }
}
