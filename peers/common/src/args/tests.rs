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
    assert_eq!((client.case, client.work.alpn()), (Case::ZeroRtt, "hq-interop"));
    assert!(matches!(client.work, Work::Fetch { http3: false, ref paths, .. } if paths.len() == 2));
    let Ok(client) = client_of("--http3 /a /b") else { panic!("h3") };
    assert_eq!(client.work.alpn(), "h3");
    let (Work::Fetch { http3: true, .. }, Work::Fetch { http3: true, .. }) = client.work.halves() else {
        panic!("both halves go over HTTP/3");
    };
    let Ok(client) = client_of("--http3 --requests 9 --concurrency 3 --connections 2 /a") else {
        panic!("requests")
    };
    let Work::Requests(requests) = client.work else { panic!("requests") };
    assert_eq!((requests.count, requests.concurrency, requests.connections), (9, 3, 2));
    assert_eq!(requests.path, "/a");
    let Ok(client) = client_of("--case datagram") else { panic!("datagram") };
    assert!(matches!(client.work, Work::Datagrams { count: DEFAULT_DATAGRAMS }));
}

#[test]
fn tickets_are_issued_as_the_stack_can() {
    let server = |line: &str| match parse_from(
        format!("server --listen 127.0.0.1:0 --cert c --key k {line}").split_whitespace().map(str::to_owned),
    ) {
        Ok(Command::Server(server)) => server,
        _ => panic!("not a server"),
    };
    let issued = |line: &str, own| server(line).issues_tickets(own).ok();
    assert_eq!(
        [issued("", 2), issued("--tickets 2", 2), issued("--tickets 0", 2)],
        [Some(true), Some(true), Some(false)]
    );
    assert_eq!(
        [issued("--tickets 1", 2), issued("", 0), issued("--tickets 1", 0)],
        [None, Some(false), None]
    );
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
        "--alpn hq-interop --http3 /a",
        "--http3 --handshakes 3",
        "--http3 --requests 3",
        "--http3 --requests 3 /a /b",
        "--requests 3 /a",
    ] {
        assert!(client_of(bad).is_err(), "{bad}");
    }
}
