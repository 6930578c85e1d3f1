//! Faults of other stacks that have been looked into. They are shown as what they are, and fail no run.

use super::watch::Seen;

/// A fault that is not this project's.
struct Known {
    server: &'static str,
    case: &'static str,
    /// Whether this is what happened.
    applies: fn(&Seen) -> bool,
    why: &'static str,
}

/// One full packet of the usual path MTUs, in bytes.
const PACKET: u64 = 1500;

const KNOWN: &[Known] = &[
    Known {
        server: "quinn",
        case: "amplificationlimit",
        applies: one_packet_too_much,
        why: "the server sends a whole packet as long as one byte of it fits below three times the client's",
    },
    Known {
        server: "quic-go",
        case: "amplificationlimit",
        applies: one_packet_too_much,
        why: "the server sends a whole packet as long as it is still below three times the client's",
    },
];

fn one_packet_too_much(seen: &Seen) -> bool {
    (1..PACKET).contains(&seen.excess)
}

/// Why a failure of `case` with this server is the server's.
pub(super) fn explain(server: &str, case: &str, seen: &Seen) -> Option<&'static str> {
    let known = KNOWN.iter().find(|known| known.server == server && known.case == case)?;
    (known.applies)(seen).then_some(known.why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_very_fault_is_excused() {
        let with = |excess| Seen { excess, ..Seen::default() };
        assert!(explain("quinn", "amplificationlimit", &with(960)).is_some());
        assert!(explain("quinn", "amplificationlimit", &with(PACKET)).is_none());
        assert!(explain("quinn", "amplificationlimit", &with(0)).is_none());
        assert!(explain("quinn", "retry", &with(960)).is_none());
        assert!(explain("anabranch", "amplificationlimit", &with(960)).is_none());
    }
}
