use super::*;

/// A report with two paths, one of which was closed.
pub(in crate::status) fn sample() -> Report {
    let rated = |mbps| Rated { bytes: 5_000_000, mbps: Some(mbps) };
    let path = |interface: &str, id, state: &str| PathReport {
        id,
        interface: Some(interface.to_owned()),
        local: "192.0.2.1:5000".to_owned(),
        state: state.to_owned(),
        rtt_ms: id.map(|_| 25.04),
        sent: rated(1.0),
        received: rated(38.5),
        loss_percent: Some(0.5),
        ..PathReport::default()
    };
    let lost = PathReport { why: Some("silent\u{1b}[2J".to_owned()), ..path("wwan0", None, "closed") };
    let flow = FlowReport {
        kind: "tcp".to_owned(),
        target: "example.org:443".to_owned(),
        age_s: 130.0,
        sent: rated(0.1),
        received: rated(38.0),
    };
    let kind =
        KindReport { kind: "tcp".to_owned(), active: 1, opened: 9, failed: 2, ..KindReport::default() };
    let user = UserReport { user: "alice".to_owned(), flows: 3, ..UserReport::default() };
    Report {
        role: "connect".to_owned(),
        pid: 77,
        up_s: 12.0,
        proxy: Some("https://proxy.example".to_owned()),
        state: "connected".to_owned(),
        connections: 1,
        paths: vec![path("wlan0", Some(0), "open"), lost],
        flows: super::super::report::FlowsReport { kinds: vec![kind], top: vec![flow] },
        users: vec![user],
        ..Report::default()
    }
}

#[test]
fn a_report_is_a_head_and_tables() {
    let text = whole(&sample());
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[0], "connect https://proxy.example, process 77, up 12 s: connected, 1 connection");
    assert!(lines[1].starts_with("path  interface  local"), "{text}");
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words(lines[2]), ["0.0", "wlan0", "192.0.2.1:5000", "open", "25.0", "1.0", "38.5", "0.50"]);
    assert!(lines[3].contains("silent\\u{1b}[2J"), "escaped: {text}");
    assert_eq!(lines[4], "tunnels: 1 tcp (9 opened, 2 failed)");
    let dropped = Some(DropsReport { full: 3, expired: 4 });
    let late = flows(&Report { dropped, ..sample() });
    assert!(late.ends_with("failed); datagrams dropped: 4 too old, 3 for want of room"), "{late}");
    assert_eq!(words(lines[6])[..4], ["tcp", "example.org:443", "2", "min"]);
    assert_eq!(words(lines[8])[..2], ["alice", "3"]);
    let addresses = vec!["10.9.0.2".to_owned(), "fd09::2".to_owned()];
    let vpn = Report { addresses, ..sample() };
    assert!(head(&vpn).ends_with(": connected, 1 connection; 10.9.0.2 fd09::2"), "{}", head(&vpn));
    let line = line(&sample());
    assert!(line.starts_with("12.0 s connected; wlan0 open 1.0/38.5 Mbit/s 25.0 ms, wwan0 closed"), "{line}");
}
