use std::time::Duration;

use anabranch_wire::Version;

use super::super::case::all;
use super::*;

fn case(name: &str) -> Case {
    all().into_iter().find(|case| case.name == name).unwrap()
}

fn ended(code: i32, output: &str) -> Ended {
    let (output, log) = (output.to_owned(), "reason\n".to_owned());
    Ended { code: Some(code), timed_out: false, output, log, elapsed: Duration::from_millis(1500) }
}

fn fails(name: &str, output: &str, seen: &Seen, why: &str) {
    match judge(&case(name), &ended(0, output), Some(seen)) {
        Outcome::Failed(reason) => assert!(reason.contains(why), "{name}: {reason}"),
        other => panic!("{name}: {other:?}"),
    }
}

fn passes(name: &str, output: &str, seen: &Seen) {
    let outcome = judge(&case(name), &ended(0, output), Some(seen));
    assert!(matches!(outcome, Outcome::Pass(_)), "{name}: {outcome:?}");
}

#[test]
fn a_clients_status_comes_first() {
    let transfer = case("transfer");
    assert_eq!(judge(&transfer, &ended(0, "{}"), None), Outcome::Pass("1.5 s".into()));
    assert_eq!(judge(&transfer, &ended(1, "{}"), None), Outcome::Failed("client: reason".into()));
    assert_eq!(judge(&transfer, &ended(127, ""), None), Outcome::Unsupported("client: reason".into()));
    let hanging = Ended { code: None, timed_out: true, ..ended(0, "") };
    assert_eq!(judge(&transfer, &hanging, None), Outcome::Failed("client took longer than 60 s".into()));
}

#[test]
fn what_a_client_reports_must_be_there() {
    let seen = Seen::default();
    passes("resumption", r#"{"resumed":true}"#, &seen);
    fails("resumption", r#"{"resumed":false}"#, &seen, "resumed = false");
    fails("resumption", "", &seen, "resumed = null");
    passes("datagrams", r#"{"echoed":90}"#, &seen);
    fails("datagrams", r#"{"echoed":89}"#, &seen, "echoed = 89");
}

#[test]
fn what_is_to_happen_on_the_wire_must_be_seen() {
    let none = Seen::default();
    passes("retry", "{}", &Seen { retries: 1, tokens: 1, ..none.clone() });
    fails("retry", "{}", &Seen { retries: 1, ..none.clone() }, "token");
    fails("retry", "{}", &none, "no Retry");
    let v1 = Seen { versions: [Version::V1].into(), ..none.clone() };
    passes("handshake", "{}", &v1);
    fails("handshake", "{}", &Seen { retries: 1, ..v1.clone() }, "unasked");
    fails("v2", "{}", &v1, "Handshake packets of versions");
    fails("v2", "{}", &Seen { versions: [Version::V1, Version::V2].into(), ..none.clone() }, "versions");
    passes("versionnegotiation", "{}", &Seen { negotiations: 1, ..none.clone() });
    fails("versionnegotiation", "{}", &none, "no Version Negotiation");
    let report = r#"{"zero_rtt_accepted":true}"#;
    passes("zerortt", report, &Seen { zero_rtt: 1, ..none.clone() });
    fails("zerortt", report, &none, "no 0-RTT");
    passes("blackhole", "{}", &Seen { last_to_client: Duration::from_secs(8), ..none.clone() });
    fails("blackhole", "{}", &Seen { last_to_client: Duration::from_secs(6), ..none.clone() }, "after 6.0 s");
    assert_eq!(judge(&case("retry"), &ended(0, "{}"), None), Outcome::Failed("nobody watched".into()),);
}

#[test]
fn the_amplification_limit_must_be_kept_and_felt() {
    let seen = Seen { unvalidated: 3600, ..Seen::default() };
    passes("amplificationlimit", "{}", &seen);
    fails("amplificationlimit", "{}", &Seen { excess: 1, ..seen.clone() }, "1 bytes above");
    fails("amplificationlimit", "{}", &Seen { unvalidated: 900, ..seen }, "only 900");
}

#[test]
fn a_migrated_client_is_served_at_two_addresses() {
    passes("connectionmigration", "{}", &Seen { addresses_served: 2, ..Seen::default() });
    fails("connectionmigration", "{}", &Seen { addresses_served: 1, ..Seen::default() }, "1 addresses");
}
