//! Faults and gaps of other stacks that have been looked into. They are shown as what they are, and fail no run.

use super::judge::Outcome;
use super::watch::Seen;

/// A failure that is not this project's.
struct Known {
    server: &'static str,
    case: &'static str,
    /// Whether this is what happened, by what was seen and what the failure says.
    applies: fn(&Seen, &str) -> bool,
    /// Whether the server never said that it could do it.
    gap: bool,
    why: &'static str,
}

/// One full packet of the usual path MTUs, in bytes.
const PACKET: u64 = 1500;

const KNOWN: &[Known] = &[
    Known {
        server: "quinn",
        case: "amplificationlimit",
        applies: one_packet_too_much,
        gap: false,
        why: "the server sends a whole packet as long as one byte of it fits below three times the client's",
    },
    Known {
        server: "quic-go",
        case: "amplificationlimit",
        applies: one_packet_too_much,
        gap: false,
        why: "the server sends a whole packet as long as it is still below three times the client's",
    },
    Known {
        server: "quiche",
        case: "ecn",
        applies: marks_were_not_reported,
        gap: true,
        why: "quiche does not count marks",
    },
    Known {
        server: "aioquic",
        case: "ecn",
        applies: marks_were_not_reported,
        gap: true,
        why: "aioquic neither marks nor reads ECN",
    },
    Known {
        server: "ngtcp2",
        case: "zerortt",
        applies: early_data_was_refused,
        gap: false,
        why: "gtlsserver now and then refuses early data of a session it has resumed; of quic-go it takes none",
    },
];

fn one_packet_too_much(seen: &Seen, _: &str) -> bool {
    (1..PACKET).contains(&seen.excess)
}

fn marks_were_not_reported(_: &Seen, failure: &str) -> bool {
    failure.contains("did not validate the client's ECN marks")
}

fn early_data_was_refused(seen: &Seen, failure: &str) -> bool {
    seen.zero_rtt > 0 && failure.contains("0-RTT was not accepted")
}

/// What a failure of `case` with this server really is, if it is the server's.
pub(super) fn explain(server: &str, case: &str, seen: &Seen, failure: &str) -> Option<Outcome> {
    let known = KNOWN.iter().find(|known| known.server == server && known.case == case)?;
    let outcome = || match known.gap {
        true => Outcome::Unsupported(format!("server: {}", known.why)),
        false => Outcome::Foreign(format!("{failure}: {}", known.why)),
    };
    (known.applies)(seen, failure).then(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explained(server: &str, case: &str, seen: &Seen, failure: &str) -> bool {
        explain(server, case, seen, failure).is_some()
    }

    #[test]
    fn only_the_very_fault_is_excused() {
        let with = |excess| Seen { excess, ..Seen::default() };
        assert!(explained("quinn", "amplificationlimit", &with(960), ""));
        assert!(!explained("quinn", "amplificationlimit", &with(PACKET), ""));
        assert!(!explained("quinn", "amplificationlimit", &with(0), ""));
        assert!(!explained("quinn", "retry", &with(960), ""));
        assert!(!explained("anabranch", "amplificationlimit", &with(960), ""));
    }

    #[test]
    fn what_a_failure_says_counts() {
        let (seen, failure) = (Seen::default(), "the server did not validate the client's ECN marks");
        assert!(matches!(explain("quiche", "ecn", &seen, failure), Some(Outcome::Unsupported(_))));
        assert!(!explained("quiche", "ecn", &seen, "the peer did not answer"));
        assert!(!explained("quinn", "ecn", &seen, failure));
        let early = Seen { zero_rtt: 1, ..Seen::default() };
        assert!(matches!(
            explain("ngtcp2", "zerortt", &early, "0-RTT was not accepted"),
            Some(Outcome::Foreign(_))
        ));
        assert!(!explained("ngtcp2", "zerortt", &seen, "0-RTT was not accepted"));
    }
}
