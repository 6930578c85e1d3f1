use super::*;

fn client_of(line: &str) -> Result<Client, Failure> {
    let all = format!("client --connect 127.0.0.1:1 --ca ca.pem {line}");
    match parse_from(all.split_whitespace().map(str::to_owned))? {
        Command::Client(client) => Ok(client),
        _ => failed("not a client"),
    }
}

#[test]
fn the_work_follows_from_the_flags() {
    let Ok(client) = client_of("--download 9 --streams 3") else { panic!("perf") };
    assert!(matches!(client.work, Work::Perf { download: 9, upload: 0, streams: 3 }));
    let Ok(client) = client_of("--case zerortt --out d /a /b") else { panic!("hq") };
    assert_eq!(client.case, Case::ZeroRtt);
    assert!(matches!(client.work, Work::Hq { ref paths, .. } if paths.len() == 2));
    let Ok(client) = client_of("--case datagram") else { panic!("datagram") };
    assert!(matches!(client.work, Work::Datagrams { count: DEFAULT_DATAGRAMS }));
}

#[test]
fn a_reset_key_has_64_digits() {
    let key = "0f".repeat(32).parse::<ResetKey>();
    assert!(matches!(key, Ok(ResetKey(bytes)) if bytes == [0x0f; 32]));
    assert!("0f".repeat(31).parse::<ResetKey>().is_err());
    assert!("0g".repeat(32).parse::<ResetKey>().is_err());
}

#[test]
fn contradictions_and_unknown_flags_are_refused() {
    for bad in [
        "--alpn perf /a",
        "--nonsense",
        "--case nonsense",
        "--download many",
        "--alpn hq-interop --handshakes 3",
    ] {
        assert!(client_of(bad).is_err(), "{bad}");
    }
}
