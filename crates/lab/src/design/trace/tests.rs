use super::*;

/// The trace has four packets in ten milliseconds, two of them at the same time.
#[test]
fn a_trace_of_mahimahi_says_when_packets_leave() {
    let trace = RateTrace::parse("t", "2\n5\n5\n10\n").unwrap();
    assert!((trace.mean_mbps() - 4.8).abs() < 1e-9);
    let rate = trace.rate();
    let mut free = Time::ZERO;
    let mut leave = || {
        free = rate.finish(free, 1500);
        free.as_nanos() as f64 / 1e6
    };
    let times: Vec<f64> = std::iter::repeat_with(&mut leave).take(9).collect();
    assert_eq!(times, [2.0, 4.5, 5.0, 10.0, 12.0, 14.5, 15.0, 20.0, 22.0]);
    // A packet of half the size uses half an opportunity; a waiting packet can use the rest.
    assert_eq!(rate.finish(Time::from_millis(1), 750), Time::from_nanos(1_500_000));
    // A packet that arrives after the opportunity waits for the next one.
    assert_eq!(rate.finish(Time::from_millis(2), 1500), Time::from_nanos(4_500_000));
}

#[test]
fn what_is_no_trace_is_one_line() {
    let fault = |text: &str| RateTrace::parse("t.down", text).unwrap_err().to_string();
    assert_eq!(fault("1\nx\n"), "t.down, line 2: `x` is not a number of milliseconds");
    assert_eq!(fault("1\n-4\n"), "t.down, line 2: `-4` is not a number of milliseconds");
    assert_eq!(
        fault("5\n\n4\n"),
        "t.down, line 3: `4` is not a time that is not before that of the line above"
    );
    assert_eq!(fault(""), "t.down: no times above 0");
    assert_eq!(fault("0\n0\n"), "t.down: no times above 0");
}

#[test]
fn a_table_is_a_list_of_changes() {
    let changes = parse_changes("t.csv", "at_s,owd_ms,rate_mbps\n0,20,5\n1.5,,0\n2,35,\n").unwrap();
    let found: Vec<_> = changes
        .iter()
        .map(|change| (change.at.as_millis(), change.rate_mbps, change.owd_ms, change.loss_percent))
        .collect();
    assert_eq!(
        found,
        [(0, Some(5.0), Some(20.0), None), (1500, Some(0.0), None, None), (2000, None, Some(35.0), None)]
    );
    let fault = |text: &str| parse_changes("t.csv", text).unwrap_err().to_string();
    assert_eq!(
        fault("at_s,rate\n0,1\n"),
        "t.csv: unknown column `rate`: use some of at_s, rate_mbps, owd_ms, loss_percent"
    );
    assert_eq!(fault("rate_mbps\n1\n"), "t.csv: column `at_s` is missing");
    assert_eq!(fault("at_s\n1\n"), "t.csv: column `rate_mbps` is missing");
    assert_eq!(
        fault("at_s,rate_mbps\n1,1\n0,1\n"),
        "t.csv, line 3: `0` in column `at_s` is not in order of time"
    );
    assert_eq!(
        fault("at_s,owd_ms\n1,far\n"),
        "t.csv, line 2: `far` in column `owd_ms` is not a delay from 0 to 100000"
    );
    assert_eq!(fault("at_s,owd_ms\n"), "t.csv: no changes");
}
