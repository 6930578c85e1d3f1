use super::*;
use crate::design::PathDesign;
use crate::fluid::FluidPath;

const HEADER: &str = "run,rate_mbps_0,owd_ms_0,queue_packets_0,rate_mbps_1,owd_ms_1,queue_packets_1";

fn error(text: &str) -> String {
    parse("d.csv", text.as_bytes()).unwrap_err().to_string()
}

#[test]
fn every_path_that_has_columns_is_read() {
    let points = parse("d.csv", format!("{HEADER}\n7,21,29,199,79.5,71,1837\n").as_bytes()).unwrap();
    let path = |rate_mbps, owd_ms, queue_packets| PathDesign {
        rate_mbps,
        owd_ms,
        queue_packets,
        ..PathDesign::default()
    };
    assert_eq!(points, [Point { run: 7, paths: vec![path(21.0, 29.0, 199), path(79.5, 71.0, 1837)] }]);
    assert_eq!(points[0].fluid()[1], FluidPath { bits_per_second: 79_500_000.0, delay: 0.071 });
    let single = parse("d.csv", &b"owd_ms_0,run,rate_mbps_0,queue_packets_0,x\n1,2,3,4,5\n"[..]).unwrap();
    assert_eq!(single, [Point { run: 2, paths: vec![path(3.0, 1.0, 4)] }]);
}

/// The queue holds 50 ms at 12 Mbit/s, a round trip of 20 ms plus 30 ms: 50 packets of 1500 bytes.
#[test]
fn a_queue_may_be_given_as_a_delay() {
    let text = "run,rate_mbps_0,owd_ms_0,queuing_delay_ms_0,loss_percent_0\n0,12,10,30,1.5\n1,0.1,0,0,0\n";
    let points = parse("d.csv", text.as_bytes()).unwrap();
    let found = points.iter().map(|point| (point.paths[0].queue_packets, point.paths[0].loss_percent));
    assert_eq!(found.collect::<Vec<_>>(), [(50, 1.5), (10, 0.0)]);
}

#[test]
fn a_path_may_vary_and_differ_on_the_way_up() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/plans");
    let file = folder.join("d.csv").display().to_string();
    let text = "run,rate_mbps_0,mahimahi_0,owd_ms_0,queuing_delay_ms_0,jitter_ms_0,reorder_percent_0,reorder_ms_0,\
                trace_0,up_rate_mbps_0,up_mahimahi_0,up_loss_percent_0\n\
                0,12,,10,30,3,1,8,,2,,0.5\n\
                1,,lte.down,25,100,,,,,,lte.up,\n\
                2,20,,30,0,,,,train.csv,,,\n\
                3,20,,30,0,,,,train.csv,5,,\n";
    let points = parse(&file, text.as_bytes()).unwrap();
    let [radio, lte, train, slow] = [0, 1, 2, 3].map(|run: usize| &points[run].paths[0]);
    let up = radio.up.as_ref().unwrap();
    assert_eq!((radio.jitter_ms, radio.reorder_percent, radio.reorder_ms), (3.0, 1.0, 8.0));
    assert_eq!((radio.queue_packets, radio.loss_percent), (50, 0.0));
    // At 2 instead of 12 Mbit/s the queue holds a sixth, but at least ten packets.
    assert_eq!((up.rate_mbps, up.owd_ms, up.queue_packets), (2.0, 10.0, 10));
    assert_eq!((up.jitter_ms, up.loss_percent), (3.0, 0.5));
    assert!(lte.trace.is_some() && lte.up.as_ref().unwrap().trace != lte.trace);
    assert!(train.up.is_none() && train.changes.iter().any(|change| change.rate_mbps.is_some()));
    // A direction with its own rate ignores rate changes of the other direction, but not its delay changes.
    let up = slow.up.as_ref().unwrap();
    assert!(up.changes.iter().all(|change| change.rate_mbps.is_none()));
    assert!(up.changes.iter().any(|change| change.owd_ms.is_some()));

    let fault = |line: &str| {
        let (head, _) = text.split_once('\n').unwrap();
        parse(&file, format!("{head}\n{line}\n").as_bytes()).unwrap_err().to_string()
    };
    assert!(
        fault("0,12,,10,30,-1,,,,,,").ends_with("`-1` in column `jitter_ms_0` is not a time from 0 to 10000")
    );
    assert!(
        fault("0,12,,10,30,,1,,,,,").contains("column `reorder_percent_0` is not together with the other")
    );
    assert!(fault("0,12,lte.down,10,30,,,,,,,").contains("column `mahimahi_0` is not empty"));
    assert!(fault("0,,,10,30,,,,,,,").contains("`` in column `rate_mbps_0` is not a rate"));
    assert!(fault("0,,none,10,30,,,,,,,").contains("none: "));
    assert!(fault("0,,lte.down,10,30,,,,train.csv,,,").contains("is not a trace without rates"));
}

#[test]
fn what_is_wrong_is_said_in_one_line() {
    assert_eq!(error("run,rate_mbps_0,owd_ms_0\n0,1,1\n"), "d.csv: column `queue_packets_0` is missing");
    assert_eq!(error("rate_mbps_0,owd_ms_0,queue_packets_0\n1,1,1\n"), "d.csv: column `run` is missing");
    assert_eq!(
        error("run,rate_mbps_0,owd_ms_0,queue_packets_0,owd_ms_1\n0,1,1,1,1\n"),
        "d.csv: column `rate_mbps_1` is missing"
    );
    assert_eq!(
        error(&format!("{HEADER}\n0,1,1,1,fast,1,1\n")),
        "d.csv, line 2: `fast` in column `rate_mbps_1` is not a rate from 0.001 to 1000000"
    );
    assert_eq!(
        error(&format!("{HEADER}\n0,1,1,1,1,1,1\n1,1,-1,1,1,1,1\n")),
        "d.csv, line 3: `-1` in column `owd_ms_0` is not a delay from 0 to 100000"
    );
    assert_eq!(
        error(&format!("{HEADER}\n4,1,1,1,1,1,1\n4,1,1,1,1,1,1\n")),
        "d.csv, line 3: `4` in column `run` is not a number of its own"
    );
    assert_eq!(
        error(&format!("{HEADER}\n4294967296,1,1,1,1,1,1\n")),
        "d.csv, line 2: `4294967296` in column `run` is not a number from 0 to 4294967295"
    );
    assert_eq!(error(&format!("{HEADER}\n")), "d.csv: no points");
    assert!(error(&format!("{HEADER}\n0,1\n")).lines().count() == 1);
    assert!(error(&format!("{HEADER}\n0,nan,1,1,1,1,1\n")).contains("`nan`"));
    assert!(read(Path::new("/no/such/file.csv")).unwrap_err().to_string().starts_with("/no/such/file.csv: "));
}
