//! Known faults and gaps of other stacks, which have been investigated. They are reported as such, and do not
//! make a run fail.

use super::case::STATELESS_RESET;
use super::judge::Outcome;
use super::watch::Seen;

/// Failure that is not this project's fault.
struct Known {
    /// Peers with this failure, in the role of clients if `client` is set and otherwise of servers.
    peers: &'static [&'static str],
    client: bool,
    case: &'static str,
    /// Function that recognizes the failure from the observed traffic and the error message.
    applies: fn(&Seen, &str) -> bool,
    /// `true` if the peer never claimed to support the case.
    gap: bool,
    why: &'static str,
}

/// Size of a full packet with the usual path MTU, in bytes.
const PACKET: u64 = 1500;

/// Names of quiche and of its fork.
const QUICHES: &[&str] = &["quiche", "quiceh"];

/// Reason for failures of quiche's server (see peers/README.md).
const QUICHE_LOSES_SIGHT: &str = "quiche's server, and that of its fork quiceh, does not survive a change of the client's \
                                  address while much is in flight, whoever the client is";

const QUICHE_KNOWS_NO_RESETS: &str =
    "the peer's program finds connections by connection ID, of which a reset has none";

const QUICHE_SENDS_NO_RESETS: &str =
    "the stack sends no stateless resets by itself, and the peer's program sends none";

/// Reason for failures of aioquic's server: our second probe is a PING, which may arrive first.
const FIRST_IS_A_PROBE: &str = "aioquic closes if the first Initial packet that it can read has no CRYPTO frame, as a probe may \
                                (RFC 9002 section 6.2.4)";

const GO_GIVES_NO_TICKETS: &str = "the server of x/net/quic sends no session tickets";

const GO_DOES_NOT_FOLLOW: &str = "x/net/quic says of itself that address migration is not supported";
/// Reason for a missing Version Negotiation packet: our client offers version 2, whose Initial packets have the
/// type that 0-RTT packets have in version 1.
const TYPES_OF_VERSION_1: &str = "the server reads the types of version 1 in packets of other versions (RFC 8999 section 5.1), and \
                                  so takes an Initial packet of version 2 for 0-RTT, which it does not answer";

/// Reason for failures of tquic's server after a change of the client's address.
const TQUIC_DOES_NOT_MOVE: &str = "tquic's server validates a client's new address and never sends to it (RFC 9000 section 9.3), which \
                                   its source names as left to do";

const KNOWN: &[Known] = &[
    Known {
        peers: &["quinn"],
        client: false,
        case: "amplificationlimit",
        applies: one_packet_too_much,
        gap: false,
        why: "the server sends a whole packet as long as one byte of it fits below three times the client's",
    },
    Known {
        peers: &["quic-go"],
        client: false,
        case: "amplificationlimit",
        applies: one_packet_too_much,
        gap: false,
        why: "the server sends a whole packet as long as it is still below three times the client's",
    },
    Known {
        peers: QUICHES,
        client: false,
        case: "ecn",
        applies: marks_were_not_reported,
        gap: true,
        why: "quiche and its fork quiceh do not count marks",
    },
    Known {
        peers: &["aioquic"],
        client: false,
        case: "ecn",
        applies: marks_were_not_reported,
        gap: true,
        why: "aioquic neither marks nor reads ECN",
    },
    Known {
        peers: QUICHES,
        client: false,
        case: "rebind-port",
        applies: client_was_left_alone,
        gap: false,
        why: QUICHE_LOSES_SIGHT,
    },
    Known {
        peers: QUICHES,
        client: false,
        case: "rebind-addr",
        applies: client_was_left_alone,
        gap: false,
        why: QUICHE_LOSES_SIGHT,
    },
    Known {
        peers: QUICHES,
        client: false,
        case: "connectionmigration",
        applies: client_was_left_alone,
        gap: false,
        why: QUICHE_LOSES_SIGHT,
    },
    Known {
        peers: &["aioquic"],
        client: false,
        case: "handshakecorruption",
        applies: probe_came_first,
        gap: false,
        why: FIRST_IS_A_PROBE,
    },
    Known {
        peers: &["aioquic"],
        client: false,
        case: "handshakeloss",
        applies: probe_came_first,
        gap: false,
        why: FIRST_IS_A_PROBE,
    },
    Known {
        peers: &["aioquic"],
        client: true,
        case: STATELESS_RESET,
        applies: reset_was_not_noticed,
        gap: true,
        why: "aioquic keeps reset tokens and never looks for them in what it receives",
    },
    Known {
        peers: QUICHES,
        client: true,
        case: STATELESS_RESET,
        applies: reset_was_not_noticed,
        gap: true,
        why: QUICHE_KNOWS_NO_RESETS,
    },
    Known {
        peers: QUICHES,
        client: false,
        case: STATELESS_RESET,
        applies: reset_was_not_noticed,
        gap: true,
        why: QUICHE_SENDS_NO_RESETS,
    },
    Known {
        peers: &["noq"],
        client: false,
        case: "http3",
        applies: protocol_is_unknown,
        gap: true,
        why: "no crate brings HTTP/3 to noq",
    },
    Known {
        peers: &["ngtcp2"],
        client: false,
        case: "zerortt",
        applies: early_data_was_refused,
        gap: false,
        why: "gtlsserver now and then refuses early data of a session it has resumed; of quic-go it takes none",
    },
    Known {
        peers: &["x-net"],
        client: false,
        case: "http3",
        applies: protocol_is_unknown,
        gap: true,
        why: "golang.org/x/net offers no HTTP/3",
    },
    Known {
        peers: &["x-net"],
        client: false,
        case: "datagrams",
        applies: datagrams_are_not_offered,
        gap: true,
        why: "x/net/quic has no DATAGRAM frames",
    },
    Known {
        peers: &["msquic"],
        client: false,
        case: "http3",
        applies: protocol_is_unknown,
        gap: true,
        why: "msquic has no HTTP/3",
    },
    Known {
        peers: &["msquic"],
        client: true,
        case: "zerortt",
        applies: early_data_came_twice,
        gap: false,
        why: "servers of other stacks (quic-go, tquic, qh3) cannot open the 0-RTT packets of this msquic either",
    },
    Known {
        peers: &["qh3"],
        client: false,
        case: "amplificationlimit",
        applies: never_answered,
        gap: false,
        why: "qh3's server fails with \"packet builder capacity exhausted\" where the anti-amplification limit leaves less than it \
              wants to send, also without any loss",
    },
    Known {
        peers: &["qh3"],
        client: true,
        case: "amplificationlimit",
        applies: chain_was_not_accepted,
        gap: false,
        why: "qh3 accepts the chain of nine certificates neither with its root nor with an authority in the middle as anchor, also \
              without any loss; OpenSSL does, with the root",
    },
    Known {
        peers: &["qh3"],
        client: true,
        case: STATELESS_RESET,
        applies: ended_without_a_reason,
        gap: true,
        why: "qh3 ends the connection at once, with the error code 0, and does not say that a reset was the reason",
    },
    Known {
        peers: &["curl-cffi"],
        client: true,
        case: "multiplexing",
        applies: second_connection,
        gap: false,
        why: "libcurl makes a second connection for one of a thousand transfers, although it is to wait for the first (PIPEWAIT), \
              and all requests on the first are answered",
    },
    Known {
        peers: &["x-net"],
        client: false,
        case: "resumption",
        applies: session_was_not_resumed,
        gap: true,
        why: GO_GIVES_NO_TICKETS,
    },
    Known {
        peers: &["x-net"],
        client: false,
        case: "zerortt",
        applies: no_ticket_came,
        gap: true,
        why: GO_GIVES_NO_TICKETS,
    },
    Known {
        peers: &["x-net"],
        client: false,
        case: "rebind-port",
        applies: client_was_left_alone,
        gap: true,
        why: GO_DOES_NOT_FOLLOW,
    },
    Known {
        peers: &["x-net"],
        client: false,
        case: "rebind-addr",
        applies: client_was_left_alone,
        gap: true,
        why: GO_DOES_NOT_FOLLOW,
    },
    Known {
        peers: &["x-net"],
        client: false,
        case: "connectionmigration",
        applies: client_was_left_alone,
        gap: true,
        why: GO_DOES_NOT_FOLLOW,
    },
    Known {
        peers: &["x-net"],
        client: false,
        case: STATELESS_RESET,
        applies: reset_was_not_noticed,
        gap: true,
        why: "x/net/quic sends no stateless_reset_token for the connection ID of the handshake",
    },
    Known {
        peers: &["qh3"],
        client: false,
        case: "ecn",
        applies: marks_were_not_reported,
        gap: true,
        why: "qh3 neither marks nor reads ECN",
    },
    Known {
        peers: &["s2n-quic"],
        client: false,
        case: "zerortt",
        applies: tickets_allow_no_early_data,
        gap: true,
        why: "s2n-quic has no 0-RTT, so its tickets allow none",
    },
    Known {
        peers: &["s2n-quic", "tquic"],
        client: false,
        case: "versionnegotiation",
        applies: never_answered,
        gap: false,
        why: TYPES_OF_VERSION_1,
    },
    Known {
        peers: &["tquic"],
        client: false,
        case: "ecn",
        applies: marks_were_not_reported,
        gap: true,
        why: "tquic neither marks nor reads ECN",
    },
    Known {
        peers: &["tquic"],
        client: false,
        case: "datagrams",
        applies: datagrams_are_unsupported,
        gap: true,
        why: "tquic 1.6.0 has no DATAGRAM frames",
    },
    Known {
        peers: &["tquic"],
        client: false,
        case: "rebind-port",
        applies: client_was_left_alone,
        gap: false,
        why: TQUIC_DOES_NOT_MOVE,
    },
    Known {
        peers: &["tquic"],
        client: false,
        case: "rebind-addr",
        applies: client_was_left_alone,
        gap: false,
        why: TQUIC_DOES_NOT_MOVE,
    },
    Known {
        peers: &["tquic"],
        client: false,
        case: "connectionmigration",
        applies: peer_had_an_internal_error,
        gap: false,
        why: TQUIC_DOES_NOT_MOVE,
    },
];

fn one_packet_too_much(seen: &Seen, _: &str) -> bool {
    (1..PACKET).contains(&seen.excess)
}

fn marks_were_not_reported(_: &Seen, failure: &str) -> bool {
    failure.contains("did not validate the client's ECN marks")
}

fn protocol_is_unknown(_: &Seen, failure: &str) -> bool {
    ["support any known protocol", "no application protocol in common"].iter().any(|w| failure.contains(w))
}

fn datagrams_are_not_offered(_: &Seen, failure: &str) -> bool {
    failure.contains("the peer does not support datagrams")
}

fn chain_was_not_accepted(_: &Seen, failure: &str) -> bool {
    failure.contains("the server certificate is unacceptable")
}

fn early_data_came_twice(_: &Seen, failure: &str) -> bool {
    failure.contains("0-RTT was not accepted")
}

fn ended_without_a_reason(_: &Seen, failure: &str) -> bool {
    failure.contains("does not speak of a reset: closed with error 0x0")
}

fn second_connection(_: &Seen, failure: &str) -> bool {
    failure.contains("2 connections were made")
}

fn session_was_not_resumed(_: &Seen, failure: &str) -> bool {
    failure.contains("the second handshake was a full one")
}

fn no_ticket_came(_: &Seen, failure: &str) -> bool {
    failure.contains("gave no ticket")
}

fn probe_came_first(_: &Seen, failure: &str) -> bool {
    failure.contains("Packet contains no CRYPTO frame")
}

fn reset_was_not_noticed(_: &Seen, failure: &str) -> bool {
    failure.contains("after the restart")
}

fn client_was_left_alone(_: &Seen, failure: &str) -> bool {
    ["never answered", "answered until", "did not answer", "took longer"].iter().any(|w| failure.contains(w))
}

fn tickets_allow_no_early_data(_: &Seen, failure: &str) -> bool {
    failure.contains("gave no ticket that allows 0-RTT")
}

fn never_answered(seen: &Seen, failure: &str) -> bool {
    seen.negotiations == 0 && failure.contains("never answered")
}

fn datagrams_are_unsupported(_: &Seen, failure: &str) -> bool {
    failure.contains("does not support datagrams")
}

fn peer_had_an_internal_error(_: &Seen, failure: &str) -> bool {
    failure.contains("closed by the peer's transport: INTERNAL_ERROR")
}

fn early_data_was_refused(seen: &Seen, failure: &str) -> bool {
    seen.zero_rtt > 0 && failure.contains("0-RTT was not accepted")
}

/// Returns the outcome for a failure of `case` between `client` and `server` if it is a known failure of the
/// peer.
pub(super) fn explain(client: &str, server: &str, case: &str, seen: &Seen, failure: &str) -> Option<Outcome> {
    let theirs = |known: &&Known| known.peers.contains(&if known.client { client } else { server });
    let known = KNOWN.iter().find(|known| theirs(known) && known.case == case)?;
    let role = if known.client { "client" } else { "server" };
    let outcome = || match known.gap {
        true => Outcome::Unsupported(format!("{role}: {}", known.why)),
        false => Outcome::Foreign(format!("{failure}: {}", known.why)),
    };
    (known.applies)(seen, failure).then(outcome)
}

#[cfg(test)]
mod tests;
