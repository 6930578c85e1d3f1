use super::*;
use crate::interop::program::OURS;

fn explained(server: &str, case: &str, seen: &Seen, failure: &str) -> bool {
    explain(OURS, server, case, seen, failure).is_some()
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
    assert!(matches!(explain(OURS, "quiche", "ecn", &seen, failure), Some(Outcome::Unsupported(_))));
    assert!(!explained("quiche", "ecn", &seen, "the peer did not answer"));
    assert!(!explained("quinn", "ecn", &seen, failure));
    let late = "ended 8.0 s after the restart: timed out";
    assert!(explain("aioquic", OURS, STATELESS_RESET, &seen, late).is_some());
    assert!(explain(OURS, "aioquic", STATELESS_RESET, &seen, late).is_none());
    assert!(explained("quiche", "rebind-port", &seen, "client took longer than 60 s"));
    assert!(!explained("quiche", "rebind-port", &seen, "file differs"));
    assert!(!explained("quinn", "rebind-port", &seen, "client took longer than 60 s"));
    assert!(explained("noq", "http3", &seen, "alert 120: peer doesn't support any known protocol"));
    assert!(!explained("noq", "http3", &seen, "file differs"));
    // A stalled connection also causes these errors. It could be this project's fault, so they are not
    // explained.
    for case in ["download-reordering", "download-both", "upload-reordering", "upload-both"] {
        for said in ["the connection timed out", "closed by the peer: 0xa", "panicked at src/stream.rs"] {
            assert!(explain("quiceh", OURS, case, &seen, said).is_none());
            assert!(explain(OURS, "quiceh", case, &seen, said).is_none());
        }
    }
    let full = "client: anabranch: the second handshake was a full one";
    assert!(matches!(explain(OURS, "x-net", "resumption", &seen, full), Some(Outcome::Unsupported(_))));
    assert!(explain("x-net", OURS, "resumption", &seen, full).is_none());
    assert!(
        !explained("x-net", "resumption", &seen, "file differs")
            && !explained("quinn", "resumption", &seen, full)
    );
    let unanswered = "client: anabranch: the peer has never answered";
    assert!(explained("tquic", "versionnegotiation", &seen, unanswered));
    assert!(!explained("tquic", "handshake", &seen, unanswered));
    assert!(!explained("msquic", "versionnegotiation", &seen, unanswered));
    let negotiated = Seen { negotiations: 1, ..Seen::default() };
    assert!(!explained("tquic", "versionnegotiation", &negotiated, unanswered));
    let closed = "closed by the peer's transport: INTERNAL_ERROR:";
    assert!(explained("tquic", "connectionmigration", &seen, closed));
    assert!(!explained(
        "tquic",
        "connectionmigration",
        &seen,
        "closed by the peer's transport: PROTOCOL_VIOLATION:"
    ));
    let early = Seen { zero_rtt: 1, ..Seen::default() };
    assert!(matches!(
        explain(OURS, "ngtcp2", "zerortt", &early, "0-RTT was not accepted"),
        Some(Outcome::Foreign(_))
    ));
    assert!(!explained("ngtcp2", "zerortt", &seen, "0-RTT was not accepted"));
}
