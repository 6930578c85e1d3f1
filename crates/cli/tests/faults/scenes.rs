//! The faults, one test each.

use std::io::ErrorKind;
use std::thread::sleep;
use std::time::Duration;

use crate::ends::{Ends, Flow, eventually};
use crate::inside::inside;
use crate::network::{Link, lay, state};

/// Number of bytes that shows that a link carries data. It exceeds all control traffic.
pub(crate) const CARRIES: u64 = 300_000;
/// Maximum time without a byte while one of two links is lost, on a busy machine.
pub(crate) const GAP: Duration = Duration::from_millis(1_500);

/// Waits until data arrives on a link.
pub(crate) fn carries(link: Link) {
    let before = link.received();
    let has = || (link.received() >= before + CARRIES).then_some(());
    eventually(&format!("data on {}", link.name()), has);
}

/// Starts both ends over two links, and a download that uses both.
pub(crate) fn two_links() -> ([Link; 2], Ends, Flow) {
    let links: [Link; 2] = lay(2, false).try_into().unwrap();
    let ends = Ends::start(&[], false);
    let flow = ends.download().unwrap();
    links.into_iter().for_each(carries);
    flow.longest_gap();
    (links, ends, flow)
}

/// Checks that the flow goes on while `fault` has taken the first link, and that the link is used again after `remedy`.
fn survives(fault: impl FnOnce(Link), remedy: impl FnOnce(Link)) {
    let ([first, second], _ends, flow) = two_links();
    fault(first);
    carries(second);
    flow.advances(5_000_000);
    let gap = flow.longest_gap();
    assert!(gap < GAP, "{gap:?}");
    remedy(first);
    carries(first);
    carries(second);
    eprintln!("nothing came for {gap:?}");
}

#[test]
fn link_deleted() {
    inside(module_path!(), "link_deleted", &[], || survives(Link::delete, |link| link.make(false)));
}

#[test]
fn admin_down() {
    inside(module_path!(), "admin_down", &[], || survives(Link::down, Link::up));
}

#[test]
fn address_deleted() {
    inside(module_path!(), "address_deleted", &[], || {
        survives(|link| link.delete_address(1), |link| link.add_address(1));
    });
}

#[test]
fn address_changed() {
    inside(module_path!(), "address_changed", &[], || {
        survives(
            |link| {
                link.delete_address(1);
                link.add_address(7);
            },
            |_| {},
        );
    });
}

#[test]
fn silent_link() {
    inside(module_path!(), "silent_link", &[], || {
        survives(|link| link.silence(true), |link| link.silence(false));
    });
}

#[test]
fn carrier_flaps_100_times() {
    inside(module_path!(), "carrier_flaps_100_times", &[], || {
        let ([first, second], _ends, flow) = two_links();
        for _ in 0..100 {
            first.pull();
            sleep(Duration::from_millis(60));
            first.plug();
            sleep(Duration::from_millis(60));
        }
        flow.advances(1_000_000);
        let gap = flow.longest_gap();
        assert!(gap < GAP, "{gap:?}");
        // Path IDs have not run out.
        carries(first);
        carries(second);
        eprintln!("nothing came for {gap:?}");
    });
}

#[test]
fn first_path_dead() {
    inside(module_path!(), "first_path_dead", &[], || {
        let [first, second] = lay(2, false).try_into().unwrap();
        Link::silence(first, true);
        let ends = Ends::start(&[], false);
        let flow = ends.download().unwrap();
        carries(second);
        Link::silence(first, false);
        carries(first);
        flow.advances(CARRIES);
    });
}

#[test]
fn both_dead_for_10_s() {
    inside(module_path!(), "both_dead_for_10_s", &[], || {
        let (links, _ends, flow) = two_links();
        links.into_iter().for_each(|link| link.silence(true));
        sleep(Duration::from_secs(10));
        links.into_iter().for_each(|link| link.silence(false));
        // The same tunnel goes on.
        flow.advances(5_000_000);
        eprintln!("nothing came for {:?}", flow.longest_gap());
        links.into_iter().for_each(carries);
    });
}

#[test]
fn both_dead_for_35_s() {
    inside(module_path!(), "both_dead_for_35_s", &[], || {
        let (links, ends, flow) = two_links();
        links.into_iter().for_each(|link| link.silence(true));
        // Programs are told, and do not take it for an end.
        assert_eq!(flow.breaks().kind(), ErrorKind::ConnectionReset);
        sleep(Duration::from_secs(5));
        links.into_iter().for_each(|link| link.silence(false));
        let took = ends.works_again();
        assert!(
            ends.log("client.log").contains("connected to the proxy again"),
            "{}",
            ends.log("client.log")
        );
        eprintln!("a new tunnel carried data after {took:?}");
    });
}

#[test]
fn server_restarted() {
    inside(module_path!(), "server_restarted", &[], || {
        let (links, mut ends, flow) = two_links();
        ends.kill_proxy();
        ends.start_proxy();
        assert_eq!(flow.breaks().kind(), ErrorKind::ConnectionReset);
        let took = ends.works_again();
        assert!(took < Duration::from_secs(20), "{took:?}");
        let again = ends.download().unwrap();
        links.into_iter().for_each(carries);
        again.advances(CARRIES);
        eprintln!("a new tunnel carried data after {took:?}");
    });
}

#[test]
fn eight_paths() {
    inside(module_path!(), "eight_paths", &[], || {
        let links = lay(8, false);
        let ends = Ends::start(&["--max-paths", "8"], false);
        let flow = ends.download().unwrap();
        links.iter().copied().for_each(carries);
        flow.longest_gap();
        links.iter().take(7).for_each(|link| link.down());
        flow.advances(3_000_000);
        links.iter().take(7).for_each(|link| link.up());
        links.into_iter().for_each(carries);
    });
}

#[test]
fn ipv6_only() {
    inside(module_path!(), "ipv6_only", &[], || {
        let links = lay(2, true);
        let ends = Ends::start(&[], true);
        let flow = ends.download().unwrap();
        links.into_iter().for_each(carries);
        flow.advances(CARRIES);
    });
}

#[test]
fn client_killed() {
    inside(module_path!(), "client_killed", &[], || {
        let _links = lay(2, false);
        let before = state();
        let mut ends = Ends::start(&[], false);
        let flow = ends.download().unwrap();
        flow.advances(CARRIES);
        ends.client = None;
        // The system closes the connections of programs.
        assert!([ErrorKind::ConnectionReset, ErrorKind::UnexpectedEof].contains(&flow.breaks().kind()));
        assert_eq!(state(), before, "it leaves nothing behind");
        // The next one has the same port at once.
        ends.start_client(&[]);
        let again = ends.download().unwrap();
        again.advances(CARRIES);
    });
}
