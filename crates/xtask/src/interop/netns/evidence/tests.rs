use super::*;

/// Returns a trace with these records.
fn trace(records: &[&str]) -> Trace {
    Trace::read(&records.iter().map(|record| format!("\u{1e}{record}\n")).collect::<String>())
}

fn packet(name: &str, kind: &str, more: &str, frames: &str) -> String {
    format!(
        r#"{{"time":2,"name":"quic:{name}","data":{{"header":{{"packet_type":"{kind}"{more}}},"raw":{{"length":100}},"frames":[{frames}]}}}}"#
    )
}

const ALPN: &str = r#"{"name":"quic:alpn_information","data":{"chosen_alpn":{"string_value":"hq-interop"}}}"#;

fn ok(evidence: &Evidence, client: &[Trace], server: &[Trace]) -> bool {
    verify(evidence, client, server).is_ok()
}

#[test]
fn connections_are_counted_and_errors_seen() {
    let good = trace(&[ALPN]);
    let failed = r#"{"name":"quic:connection_closed","data":{"trigger":"error","connection_error":"frame_encoding_error"}}"#;
    let closed = r#"{"name":"quic:connection_closed","data":{"initiator":"local","trigger":"application"}}"#;
    assert_eq!(verify_all(&[good.clone(), trace(&[ALPN, closed])], 2, "hq-interop"), Ok(()));
    assert!(verify_all(std::slice::from_ref(&good), 2, "hq-interop").is_err());
    assert!(verify_all(&[good.clone(), trace(&[])], 1, "hq-interop").is_err());
    assert!(verify_all(&[good], 1, "h3").is_err());
    let why = verify_all(&[trace(&[ALPN, failed])], 1, "hq-interop").unwrap_err();
    assert!(why.contains("frame_encoding_error"), "{why}");
}

#[test]
fn handshakes_leave_their_marks() {
    let hello =
        packet("packet_sent", "initial", r#","version":"00000001""#, r#"{"frame_type":"crypto","offset":0}"#);
    let once = [trace(&[&hello])];
    assert!(!ok(&Evidence::HelloRepeated, &once, &[]));
    assert!(ok(&Evidence::HelloRepeated, &[trace(&[&hello, &hello])], &[]));

    let parameters = |initiator, more| {
        format!(r#"{{"name":"quic:parameters_set","data":{{"initiator":"{initiator}"{more}}}}}"#)
    };
    let retried = [trace(&[&parameters("remote", r#","retry_source_connection_id":"01""#)])];
    assert!(ok(&Evidence::Retry, &retried, &[]));
    assert!(!ok(&Evidence::Retry, &[trace(&[&parameters("remote", "")])], &[]));

    let flight = |length| {
        let crypto = format!(r#"{{"frame_type":"crypto","offset":0,"raw":{{"length":{length}}}}}"#);
        trace(&[&packet("packet_received", "handshake", "", &crypto)])
    };
    assert!(ok(&Evidence::NoSecondCertificate, &[flight(700), flight(190)], &[]));
    assert!(!ok(&Evidence::NoSecondCertificate, &[flight(700), flight(690)], &[]));
    assert!(!ok(&Evidence::NoSecondCertificate, &[flight(700)], &[]));

    let two = packet("packet_sent", "handshake", r#","version":"6b3343cf""#, "");
    let one = packet("packet_sent", "handshake", r#","version":"00000001""#, "");
    assert!(ok(&Evidence::Upgrade, &[trace(&[&hello, &two])], &[trace(&[&two])]));
    assert!(!ok(&Evidence::Upgrade, &[trace(&[&hello, &two])], &[trace(&[&two, &one])]));
    assert!(!ok(&Evidence::Upgrade, &[trace(&[&two])], &[trace(&[&two])]));
}

#[test]
fn early_data_must_arrive_and_little_may_follow() {
    let early = [trace(&[&packet("packet_received", "0RTT", "", "")])];
    let later = [trace(&[&packet("packet_sent", "1RTT", "", "")])];
    assert!(ok(&Evidence::EarlyData { most_later: 100 }, &later, &early));
    assert!(!ok(&Evidence::EarlyData { most_later: 99 }, &later, &early));
    assert!(!ok(&Evidence::EarlyData { most_later: 100 }, &later, &later));
}

#[test]
fn frames_and_bits_are_found_in_the_right_direction() {
    let sent = |more: &str, frames: &str| trace(&[&packet("packet_sent", "1RTT", more, frames)]);
    let updated = [sent(r#","key_phase_bit":true"#, "")];
    let plain = [sent(r#","key_phase_bit":false"#, "")];
    assert!(ok(&Evidence::KeyPhase, &updated, &updated));
    assert!(!ok(&Evidence::KeyPhase, &updated, &plain) && !ok(&Evidence::KeyPhase, &plain, &updated));

    let marked = [sent("", r#"{"frame_type":"ack","ect0":3}"#)];
    assert!(ok(&Evidence::EcnCounts, &marked, &marked) && !ok(&Evidence::EcnCounts, &marked, &plain));

    let credit = [sent("", r#"{"frame_type":"max_stream_data"}"#)];
    assert!(ok(&Evidence::WindowsWidened, &credit, &[]) && !ok(&Evidence::WindowsWidened, &plain, &credit));

    let limit =
        r#"{"name":"quic:parameters_set","data":{"initiator":"local","initial_max_streams_bidi":128}}"#;
    let more = packet("packet_sent", "1RTT", "", r#"{"frame_type":"max_streams"}"#);
    assert!(ok(&Evidence::StreamLimit { most: 1000 }, &[], &[trace(&[limit, &more])]));
    assert!(!ok(&Evidence::StreamLimit { most: 127 }, &[], &[trace(&[limit, &more])]));
    assert!(!ok(&Evidence::StreamLimit { most: 1000 }, &[], &[trace(&[limit])]));
}

#[test]
fn addresses_are_followed() {
    let started = |ip: &str| {
        let (key, port) = if ip.contains(':') { ("ip_v6", "port_v6") } else { ("ip_v4", "port_v4") };
        let data = format!(r#"{{"{key}":"{ip}","{port}":443}}"#);
        format!(r#"{{"time":1,"name":"quic:connection_started","data":{{"local":{data},"remote":{data}}}}}"#)
    };
    assert!(ok(&Evidence::OnlyIpv6, &[trace(&[&started("fd00::1")])], &[]));
    assert!(!ok(&Evidence::OnlyIpv6, &[trace(&[&started("193.167.0.100")])], &[]));

    let moved = |port| {
        let remote = format!(r#"{{"ip_v4":"193.167.100.100","port_v4":{port}}}"#);
        format!(r#"{{"name":"quic:tuple_assigned","data":{{"tuple_id":"1","tuple_remote":{remote}}}}}"#)
    };
    assert!(ok(&Evidence::PreferredAddress, &[trace(&[&moved(4443)])], &[]));
    assert!(!ok(&Evidence::PreferredAddress, &[trace(&[&moved(443)])], &[]));
    assert!(!ok(&Evidence::PreferredAddress, &[trace(&[])], &[]));

    let challenge = packet("packet_sent", "1RTT", "", r#"{"frame_type":"path_challenge"}"#);
    let response = packet("packet_received", "1RTT", "", r#"{"frame_type":"path_response"}"#);
    let all = [moved(5000), challenge.clone(), response.clone()];
    let of = |records: &[&String]| [trace(&records.iter().map(|record| record.as_str()).collect::<Vec<_>>())];
    assert!(ok(&Evidence::PathsValidated, &[], &of(&[&all[0], &all[1], &all[2]])));
    for missing in 0..3 {
        let rest: Vec<_> =
            all.iter().enumerate().filter(|(at, _)| *at != missing).map(|(_, record)| record).collect();
        assert!(!ok(&Evidence::PathsValidated, &[], &of(&rest)), "{missing}");
    }
}
