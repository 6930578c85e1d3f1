use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;
use anabranch_lab::profile::External;

fn converted(external: &str, paths: &[PathDesign], workload: &Workload) -> Result<Order, String> {
    beside(None, external, paths, workload)
}

/// Converts a run that competes with other connections. Their congestion controller is `others`.
fn beside(
    others: Option<&str>,
    external: &str,
    paths: &[PathDesign],
    workload: &Workload,
) -> Result<Order, String> {
    let external: External = external.parse().unwrap();
    let deadline = Duration::from_secs(60);
    convert(&run::Order {
        external: &external,
        paths: paths.iter().collect(),
        workload,
        others_congestion: others.map(|name| name.parse().unwrap()),
        deadline,
        seed: 3,
    })
}

#[test]
fn a_point_becomes_an_order() {
    let change = Change { at: Duration::from_secs(3), loss_percent: Some(100.0), ..Change::default() };
    let first = PathDesign {
        rate_mbps: 37.25,
        owd_ms: 7.5,
        queue_packets: 12,
        changes: vec![change],
        ..PathDesign::default()
    };
    let up = Some(Box::new(PathDesign { rate_mbps: 1.0, ..first.clone() }));
    let second = PathDesign { loss_percent: 2.5, up, ..first.clone() };
    let download = Workload::Download { bytes: 9, until: anabranch_lab::experiment::End::LastByte };
    let order = converted("linux/mptcp/tls12", &[first.clone(), second], &download).unwrap();
    assert_eq!((order.stack.to_string().as_str(), order.work), ("mptcp-tls12", Work::Download { bytes: 9 }));
    let properties = Properties { rate_bps: 37_250_000, delay_ns: 7_500_000, loss: 0.0 };
    let changes = vec![(3_000_000_000, Properties { loss: 1.0, ..properties })];
    let way = Way { first: properties, queue_packets: 12, changes };
    assert_eq!(order.paths[0], Link { up: way.clone(), down: way });
    assert_eq!((order.paths[1].up.first.rate_bps, order.paths[1].down.first.loss), (1_000_000, 0.025));
}

#[test]
fn what_linux_cannot_do_is_the_failure_of_the_row() {
    let path = PathDesign { rate_mbps: 1.0, queue_packets: 10, ..PathDesign::default() };
    let jitter = PathDesign { jitter_ms: 1.0, ..path.clone() };
    let upload = Workload::Upload { bytes: 1 };
    let competition = Workload::Competition { others: 1, length: Duration::from_secs(1), one_link: true };
    for (fault, words) in [
        (converted("linux/tcp-vegas", core::slice::from_ref(&path), &upload), "use tcp-cubic"),
        (converted("linux/tcp-cubic", &[path.clone(), path.clone()], &upload), "uses one path"),
        (converted("linux/tcp-cubic", &[jitter], &upload), "jitter"),
        (
            beside(Some("olia"), "linux/mptcp", &[path], &competition),
            "no `olia` for the other connections: use newreno, cubic or bbr1",
        ),
    ] {
        let fault = fault.unwrap_err();
        assert!(fault.contains(words) && fault.lines().count() == 1, "{fault}");
    }
}

#[test]
fn others_compete_with_their_own_congestion_control_or_with_the_same() {
    let path = PathDesign { rate_mbps: 1.0, queue_packets: 10, ..PathDesign::default() };
    let length = Duration::from_secs(70);
    let competition = Workload::Competition { others: 2, length, one_link: true };
    for (others, control) in [
        (Some("newreno"), Control::Reno),
        (Some("cubic"), Control::Cubic),
        (Some("bbr1"), Control::Bbr),
        (None, Control::Cubic),
    ] {
        let order = beside(others, "linux/mptcp", &[path.clone(), path.clone()], &competition).unwrap();
        // The run ends at its deadline of a minute.
        let expected = Work::Competition { others: 2, control, length_ns: 60_000_000_000, one_link: true };
        assert_eq!((order.work, order.links(), order.link_of(1)), (expected, 1, 0));
    }
    let report = Report { flows: vec![7_500_000, 15_000_000], ..Report::default() };
    let mut row = Row::default();
    let work =
        Work::Competition { others: 1, control: Control::Reno, length_ns: 60_000_000_000, one_link: true };
    fill(&mut row, &report, work);
    assert_eq!(row.flow_goodput_bps, [1e6, 2e6]);
}

#[test]
fn a_kernel_that_does_not_boot_fails_its_check_once() {
    let dir = tempfile::tempdir().unwrap();
    let kernel = dir.path().join("kernel");
    let count = dir.path().join("boots");
    let script = format!(
        "#!/bin/sh\necho boot >> {}\necho 'Kernel panic - not syncing: no memory'\n",
        count.display()
    );
    fs::write(&kernel, script).unwrap();
    fs::set_permissions(&kernel, fs::Permissions::from_mode(0o755)).unwrap();
    let program = "/bin/true".into();
    let host = Host { kernel, program, arguments: Vec::new(), before: Vec::new(), limit: MAX_CHECK };
    let linux = Linux::new(host, "6.12");
    for _ in 0..2 {
        let fault = linux.check().unwrap_err();
        assert!(
            fault.contains("Kernel panic - not syncing: no memory") && fault.lines().count() == 1,
            "{fault}"
        );
    }
    assert_eq!(fs::read_to_string(count).unwrap(), "boot\n");
}
