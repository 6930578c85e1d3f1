//! Cases of the tunnel.

use super::super::described::Described;

/// Case of the tunnel.
pub(in crate::interop) struct Case {
    name: &'static str,
    about: &'static str,
    pub(super) work: Work,
}

/// Traffic of a case.
pub(super) enum Work {
    Udp(Udp),
    Ip(Ip),
}

/// Work of a case with UDP flows.
pub(super) enum Udp {
    /// The target at this host echoes payloads of these lengths.
    Echo(&'static str, &'static [usize]),
    /// The proxy refuses the target.
    Refused(Refused),
    /// The client ends the flow, and the proxy closes its socket.
    EndedByClient,
    /// The proxy ends the flow, and the client notices.
    EndedByProxy,
}

/// Target that a proxy refuses, with the statuses and the causes (RFC 9209 §2.3) that are right.
pub(super) struct Refused {
    pub(super) host: &'static str,
    /// Refusals of our proxy.
    pub(super) ours: &'static [(u16, &'static str)],
    /// Refusals of the peer.
    pub(super) theirs: &'static [(u16, &'static str)],
}

/// Work of a case with IP packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ip {
    Address,
    Ping,
    Udp,
    TooBig,
    TooBigBack,
}

impl Ip {
    /// Returns the name of the work, as the peer's program calls it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Address => "address",
            Self::Ping => "ping",
            Self::Udp => "udp",
            Self::TooBig => "too-big",
            Self::TooBigBack => "too-big-back",
        }
    }
}

/// Refusals if a name does not exist, or if nobody can be asked.
const UNRESOLVED: &[(u16, &str)] = &[(502, "dns_error"), (504, "dns_timeout")];

/// Returns all cases.
pub(super) fn all() -> Vec<Case> {
    let udp = |name, about, work| Case { name, about, work: Work::Udp(work) };
    let ip = |name, about, work| Case { name, about, work: Work::Ip(work) };
    let unreachable = Refused {
        host: "fe80::1",
        ours: &[(502, "destination_ip_prohibited")],
        theirs: &[(500, "destination_ip_unroutable")],
    };
    let unresolved = Refused { host: "nowhere.invalid", ours: UNRESOLVED, theirs: UNRESOLVED };
    vec![
        udp("udp-small", "payloads of one byte, IPv4 only", Udp::Echo("127.0.0.1", &[1, 1, 1])),
        udp("udp-large", "payloads of 1,200 bytes, IPv4 only", Udp::Echo("127.0.0.1", &[1_200, 1_200])),
        udp("udp-ipv6", "both to an IPv6 address", Udp::Echo("::1", &[1, 1_200])),
        udp("udp-name", "both to a name, which the proxy resolves", Udp::Echo("localhost", &[1, 1_200])),
        udp(
            "udp-unreachable",
            "a target that the proxy cannot reach or may not: 502 or 500, with the cause",
            Udp::Refused(unreachable),
        ),
        udp(
            "udp-unresolved",
            "a name that does not exist: 502, or 504 without a resolver, with the cause",
            Udp::Refused(unresolved),
        ),
        udp(
            "udp-end-client",
            "the client ends the flow, and the proxy's socket to the target is closed",
            Udp::EndedByClient,
        ),
        udp("udp-end-proxy", "the proxy ends the flow, and the client notices", Udp::EndedByProxy),
        ip("ip-address", "an address of each family is assigned, and routes are advertised", Ip::Address),
        ip("ip-ping", "echo requests are answered", Ip::Ping),
        ip("ip-udp", "datagrams of 1,000 bytes are echoed", Ip::Udp),
        ip(
            "ip-too-big",
            "the sender of 1,500 bytes at the client learns that they do not fit; 1,280 do",
            Ip::TooBig,
        ),
        ip(
            "ip-too-big-back",
            "a host behind the proxy learns the same, and its 1,500 bytes arrive in fragments",
            Ip::TooBigBack,
        ),
    ]
}

impl Case {
    /// Returns whether the case is one with IP packets.
    pub(super) fn is_ip(&self) -> bool {
        matches!(self.work, Work::Ip(_))
    }
}

impl Described for Case {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::described::assert_unique_names;
    use super::*;

    #[test]
    fn names_are_unique_and_say_the_kind() {
        let cases = all();
        assert_unique_names(&cases);
        for case in cases {
            assert_eq!(case.name.starts_with("ip-"), case.is_ip(), "{}", case.name);
        }
    }
}
