//! Multipath cases: the links between the two endpoints, the plans of both for their paths, and the required
//! observations.

use std::time::Duration;

use anabranch_lab::link::LinkSpec;
use anabranch_lab::relay::Direction;
use anabranch_wire::Time;

use crate::interop::described::Described;

const MB: u64 = 1_000_000;
/// Rate and round-trip time of every path's link, unless the case specifies others.
const RATE: u64 = 50_000_000;
const RTT: Duration = Duration::from_millis(20);
/// Rate and round-trip time of links in cases with a backup. A busy machine stops processes for tens of
/// milliseconds; with this round-trip time that is shorter than a probe timeout, so that the other path does not
/// count as silent and its backup is not used.
const SLOW_RATE: u64 = 20_000_000;
const SLOW_RTT: Duration = Duration::from_millis(100);
/// Number of bytes that most cases transfer. Over two links of [`RATE`] this takes about a second.
const WORK: u64 = 10 * MB;
/// Time at which links change, in milliseconds from a path's first datagram.
const CHANGE: u64 = 400;
/// Time in milliseconds that is longer than every case.
const EVER: u64 = 3_600_000;

/// Upper limit of the percentage of data on a backup. Available paths over two such links would carry half each.
const BACKUP_PERCENT: u64 = 10;

/// Flags that replace connection IDs after 150 ms. This project's command replaces only the IDs that its peer
/// issued.
const REPLACES_IDS: &[&str] = &["--cid-ms", "150"];
/// Flags with which noq detects a dead path. noq detects it only by its silence, and only if an idle timeout
/// is set.
const NOTICES_DEATH: &[&str] = &["--path-idle-ms", "1000"];
/// Flags with which noq sends keep-alives on each path. noq acknowledges on any path, so it might otherwise
/// send nothing on a path whose address has changed.
const SAYS_SOMETHING: &[&str] = &["--path-keep-alive-ms", "100"];

/// Time from which on a check applies.
#[derive(Clone, Copy, Debug)]
pub(super) enum Mark {
    /// A step of the client's plan, counted from 0.
    Client(usize),
    /// A step of the server's plan, counted from 0.
    Server(usize),
    /// Milliseconds after the first datagram on the link.
    Elapsed(u64),
}

/// Condition that must hold, besides success of both endpoints. The fields are the direction, the link, the
/// mark and the limit, as far as the condition has them.
#[derive(Clone, Copy, Debug)]
pub(super) enum Check {
    /// Minimum percentage of the bytes in this direction that this link carried.
    Share(Direction, usize, u64),
    /// Minimum number of bytes that the link carried from the mark on.
    Carries(Direction, usize, Mark, u64),
    /// Upper limit (exclusive) of the bytes that the link carried from the mark on, while the transfer
    /// continued. Times at which the other endpoint stalled do not count.
    Silent(Direction, usize, Mark, u64),
    /// Upper limit (exclusive) of the percentage that the link carried of all links' bytes from the mark on, while
    /// the transfer continued. Times at which the other endpoint stalled do not count.
    Spared(Direction, usize, Mark, u64),
    /// Upper limit (exclusive) of the bytes that the link carried up to the mark.
    SilentUntil(Direction, usize, Mark, u64),
    /// Minimum number of different connection IDs in packets in this direction on this link.
    Ids(Direction, usize, usize),
    /// Maximum duration of the transfer in milliseconds.
    Within(u64),
}

/// Multipath case.
#[derive(Clone, Debug)]
pub(in crate::interop) struct Case {
    pub(super) name: &'static str,
    /// Subject of the case, in a few words.
    pub(super) about: &'static str,
    /// Steps of the client. `{N}` stands for the address on link N that leads to the server.
    pub(super) client: String,
    /// Steps of the server.
    pub(super) server: &'static str,
    /// Links between the endpoints, one for each of the client's addresses.
    pub(super) links: Vec<LinkSpec>,
    /// Round-trip time of most of the links.
    pub(super) rtt: Duration,
    /// Bytes to the client, bytes to the server, and number of streams.
    pub(super) work: (u64, u64, u64),
    /// Maximum numbers of concurrent paths that client and server request.
    pub(super) paths: (u32, u32),
    /// Flags that only the server gets.
    pub(super) server_flags: &'static [&'static str],
    /// Flags that only the client gets.
    pub(super) client_flags: &'static [&'static str],
    /// Flags of an endpoint that is a peer's program.
    pub(super) peer_flags: &'static [&'static str],
    pub(super) checks: Vec<Check>,
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
    fn new(name: &'static str, about: &'static str, client: &str) -> Self {
        Self {
            name,
            about,
            client: client.to_owned(),
            server: "",
            links: vec![link(); 2],
            rtt: RTT,
            work: (WORK, 0, 1),
            paths: (4, 4),
            server_flags: &[],
            client_flags: &[],
            peer_flags: &[],
            checks: Vec::new(),
        }
    }

    fn server(self, server: &'static str) -> Self {
        Self { server, ..self }
    }

    fn upload(self) -> Self {
        Self { work: (0, WORK, 1), ..self }
    }

    /// Gives both links [`SLOW_RATE`] and [`SLOW_RTT`].
    fn slow(self) -> Self {
        Self { links: vec![LinkSpec::new(SLOW_RATE, SLOW_RTT); 2], rtt: SLOW_RTT, ..self }
    }

    fn link(mut self, number: usize, link: LinkSpec) -> Self {
        self.links.resize_with(self.links.len().max(number + 1), self::link);
        self.links[number] = link;
        self
    }

    /// Adds a NAT to this link that changes its port in the middle of the case.
    fn rebinds(self, link: usize) -> Self {
        let rebound = self::link().rebind(Time::from_millis(CHANGE), None, 1);
        Self { peer_flags: SAYS_SOMETHING, ..self.link(link, rebound) }
    }

    /// Makes this link fail in the middle of the case.
    fn dies(self, link: usize) -> Self {
        Self { peer_flags: NOTICES_DEATH, ..self.link(link, dead_from(CHANGE)) }.check(Within(12_000))
    }

    fn check(mut self, check: Check) -> Self {
        self.checks.push(check);
        self
    }

    /// Requires that each link carries at least 15 % of the bytes sent in direction `way`.
    fn shared(self, way: Direction) -> Self {
        self.check(Share(way, 0, 15)).check(Share(way, 1, 15))
    }
}

fn link() -> LinkSpec {
    LinkSpec::new(RATE, RTT)
}

fn dead_from(ms: u64) -> LinkSpec {
    link().blackout(Time::from_millis(ms)..Time::from_millis(EVER))
}

/// Returns all cases, in the order of the matrix.
pub(super) fn all() -> Vec<Case> {
    [moving(), closing(), marking(), changing(), limited()].concat()
}

use Check::{Carries, Ids, Share, Silent, SilentUntil, Spared, Within};
use Direction::{ToClient, ToServer};
use Mark::{Client, Elapsed, Server};

fn moving() -> Vec<Case> {
    const TWO: &str = "open {1}; start";
    vec![
        Case { work: (MB, 0, 1), ..Case::new("open", "a second path is opened and validated", TWO) }
            .check(Carries(ToServer, 1, Elapsed(0), 1200))
            .check(Carries(ToClient, 1, Elapsed(0), 1200)),
        Case::new("download", "10 MB to the client over two paths", TWO).shared(ToClient),
        Case::new("upload", "10 MB to the server over two paths", TWO).upload().shared(ToServer),
        Case {
            work: (WORK / 2, WORK / 2, 1),
            ..Case::new("both-ways", "5 MB each way at once over two paths", TWO)
        }
        .shared(ToClient)
        .shared(ToServer),
        Case { work: (WORK, 0, 20), ..Case::new("streams", "10 MB on twenty streams over two paths", TWO) }
            .shared(ToClient),
        Case::new("three", "10 MB over three paths", "open {1}; open {2}; start")
            .link(2, link())
            .shared(ToClient)
            .check(Share(ToClient, 2, 10)),
        Case::new("uneven", "the second path has a fifth of the rate and five times the delay", TWO)
            .link(1, LinkSpec::new(RATE / 5, RTT * 5))
            .check(Share(ToClient, 0, 15))
            .check(Share(ToClient, 1, 2)),
        Case::new("loss", "2 % loss on the second path", TWO)
            .link(1, link().loss(0.02))
            .check(Share(ToClient, 1, 1)),
        Case {
            client_flags: &["--case", "chacha20"],
            ..Case::new("chacha20", "nonces of two paths for ChaCha20-Poly1305", TWO)
        }
        .shared(ToClient),
        Case {
            server_flags: &["--retry"],
            ..Case::new("retry", "the client has to prove its address before", TWO)
        }
        .shared(ToClient),
    ]
}

fn closing() -> Vec<Case> {
    vec![
        Case::new(
            "abandon-client",
            "the client abandons the second path in the middle",
            "open {1}; start; at 3000000; abandon 1",
        )
        .server("gone 1")
        .check(Silent(ToClient, 1, Client(3), 60_000)),
        Case::new(
            "abandon-server",
            "the server abandons the second path in the middle",
            "open {1}; start; gone 1",
        )
        .server("wait 300; abandon 1")
        .check(Silent(ToClient, 1, Client(2), 60_000)),
        Case::new(
            "abandon-first",
            "the client abandons the path of the handshake in the middle",
            "open {1}; start; at 3000000; abandon 0",
        )
        .server("gone 0")
        .check(Silent(ToClient, 0, Client(3), 60_000)),
        Case::new(
            "abandon-upload",
            "the client abandons the path of the handshake in the middle of an upload",
            "open {1}; start; wait 300; abandon 0",
        )
        .upload()
        .server("gone 0")
        .check(Silent(ToServer, 0, Client(3), 60_000)),
        Case::new(
            "reopen",
            "the second path is abandoned and opened anew",
            "open {1}; start; at 2000000; abandon 1; open {1}",
        )
        .check(Carries(ToClient, 1, Client(4), 500_000)),
        Case {
            paths: (2, 2),
            work: (2 * MB, 0, 1),
            ..Case::new("churn", "paths 1 to 8, one after the other, where two may be open", &churn())
        }
        .check(Share(ToClient, 1, 5)),
    ]
}

/// Returns steps that open and abandon paths one after the other, and keep the last one.
fn churn() -> String {
    let passing: String = (1..8).map(|path| format!("open {{1}}; abandon {path}; ")).collect();
    format!("{passing}open {{1}}; start")
}

fn marking() -> Vec<Case> {
    vec![
        Case::new(
            "backup-client",
            "the client wants the second path as a backup, in the middle; 20 Mbit/s, 100 ms",
            "open {1}; start; at 3000000; backup 1",
        )
        .slow()
        .check(Spared(ToClient, 1, Client(3), BACKUP_PERCENT)),
        Case::new(
            "backup-server",
            "the server wants the first path as a backup, in the middle of an upload; 20 Mbit/s, 100 ms",
            "open {1}; start",
        )
        .slow()
        .upload()
        .server("wait 600; backup 0")
        .check(Spared(ToServer, 0, Server(1), BACKUP_PERCENT)),
        Case::new(
            "available",
            "the second path is opened as a backup and made available in the middle; 20 Mbit/s, 100 ms",
            "open {1} backup; start; at 3000000; available 1",
        )
        .slow()
        .check(SilentUntil(ToClient, 1, Client(3), 200_000))
        .check(Carries(ToClient, 1, Client(3), MB)),
        Case::new(
            "take-over",
            "the first path is abandoned while the second is a backup",
            "open {1} backup; start; at 3000000; abandon 0",
        )
        .server("gone 0")
        .check(Silent(ToClient, 0, Client(3), 60_000))
        .check(Carries(ToClient, 1, Client(3), 5 * MB)),
    ]
}

fn changing() -> Vec<Case> {
    const TWO: &str = "open {1}; start";
    vec![
        Case::new("rebind", "the NAT of the second path changes its port in the middle", TWO)
            .rebinds(1)
            .check(Carries(ToClient, 1, Elapsed(CHANGE + 300), 200_000)),
        Case::new("rebind-first", "the NAT of the first path changes its port in the middle", TWO)
            .rebinds(0)
            .check(Carries(ToClient, 0, Elapsed(CHANGE + 300), 200_000)),
        Case::new("rebind-upload", "the same in the middle of an upload", TWO)
            .upload()
            .rebinds(1)
            .check(Carries(ToServer, 1, Elapsed(CHANGE + 300), 200_000)),
        Case::new(
            "keyupdate-client",
            "the client updates keys while two paths are in use",
            "open {1}; start; at 3000000; update",
        )
        .shared(ToClient)
        .check(Carries(ToClient, 0, Client(3), MB))
        .check(Carries(ToClient, 1, Client(3), MB)),
        Case::new("keyupdate-server", "the server updates keys while two paths are in use", TWO)
            .server("wait 300; update")
            .check(Carries(ToClient, 0, Server(1), MB))
            .check(Carries(ToClient, 1, Server(1), MB)),
        Case {
            peer_flags: REPLACES_IDS,
            work: (2 * WORK, 0, 1),
            ..Case::new("rotate", "connection IDs of both paths are replaced all the time", TWO)
        }
        .shared(ToClient),
        Case::new("death", "the second path dies in the middle", TWO).dies(1).check(Share(ToClient, 1, 5)),
        Case::new("death-first", "the path of the handshake dies in the middle", TWO)
            .dies(0)
            .check(Share(ToClient, 1, 15)),
        Case::new("death-upload", "the path of the handshake dies in the middle of an upload", TWO)
            .upload()
            .dies(0)
            .check(Share(ToServer, 1, 15)),
        Case::new("still-born", "nobody answers on the second path", "try {1}; start")
            .link(1, dead_from(0))
            .check(Share(ToClient, 0, 99)),
    ]
}

fn limited() -> Vec<Case> {
    vec![
        Case {
            paths: (4, 2),
            ..Case::new(
                "limit",
                "the server wants two paths, a third is refused",
                "open {1}; refused {2}; start",
            )
        }
        .link(2, link())
        .shared(ToClient),
        Case {
            work: (WORK, 0, 1),
            ..Case::new("same-addresses", "both paths run to the same address", "open {0}; start")
        }
        .check(Ids(ToServer, 0, 2))
        .check(Ids(ToClient, 0, 2)),
        Case {
            paths: (4, 0),
            work: (MB, 0, 1),
            ..Case::new("single-server", "the server does not want multipath", "refused {1}; start")
        }
        .check(Share(ToClient, 0, 100)),
        Case {
            paths: (0, 4),
            work: (MB, 0, 1),
            ..Case::new("single-client", "the client does not want multipath", "refused {1}; start")
        }
        .check(Share(ToClient, 0, 100)),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::super::described::assert_unique_names;
    use super::*;

    #[test]
    fn names_are_unique_and_what_is_named_exists() {
        let cases = all();
        assert_unique_names(&cases);
        for case in &cases {
            let steps = |plan: &str| plan.split(';').filter(|step| !step.trim().is_empty()).count();
            for check in &case.checks {
                let (Share(_, link, _) | Carries(_, link, ..) | Silent(_, link, ..) | Spared(_, link, ..)) =
                    *check
                else {
                    continue;
                };
                assert!(link < case.links.len(), "{}", case.name);
                if let Carries(_, _, mark, _)
                | Silent(_, _, mark, _)
                | Spared(_, _, mark, _)
                | SilentUntil(_, _, mark, _) = *check
                {
                    let there = match mark {
                        Client(step) => step < steps(&case.client),
                        Server(step) => step < steps(case.server),
                        Elapsed(_) => true,
                    };
                    assert!(there, "{}", case.name);
                }
            }
        }
    }
}
