//! The faults, one test each.

use std::io::ErrorKind;
use std::thread::sleep;
use std::time::Duration;

use crate::ends::{Ends, Flow, eventually};
use crate::inside::inside;
use crate::network::{Link, lay, state};

/// Number of received bytes by which a link is known to carry data, because control traffic has fewer.
const CARRIES: u64 = 300_000;
/// Maximum time without a byte while one of two links is lost, on a busy machine.
const GAP: Duration = Duration::from_millis(1_500);

/// Waits until data arrives on a link.
fn carries(link: Link) {
    let before = link.received();
    let has = || (link.received() >= before + CARRIES).then_some(());
    eventually(&format!("data on {}", link.name()), has);
}

/// Starts the proxy and the client with two links, and a download that uses both.
fn two_links() -> ([Link; 2], Ends, Flow) {
    let links: [Link; 2] = lay(2, false).try_into().unwrap();
    let ends = Ends::start(&[], false);
    let flow = ends.download().unwrap();
    links.into_iter().for_each(carries);
    flow.longest_gap();
    (links, ends, flow)
}

/// Checks that a download goes on after `fault` has disabled the first link, and uses the link again after `remedy`.
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
    inside("link_deleted", || survives(Link::delete, |link| link.make(false)));
}

#[test]
fn admin_down() {
    inside("admin_down", || survives(Link::down, Link::up));
}

#[test]
fn address_deleted() {
    inside("address_deleted", || survives(|link| link.delete_address(1), |link| link.add_address(1)));
}

#[test]
fn address_changed() {
    inside("address_changed", || {
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
    inside("silent_link", || survives(|link| link.silence(true), |link| link.silence(false)));
}

#[test]
fn carrier_flaps_100_times() {
    inside("carrier_flaps_100_times", || {
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
    inside("first_path_dead", || {
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
    inside("both_dead_for_10_s", || {
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
    inside("both_dead_for_35_s", || {
        let (links, ends, flow) = two_links();
        links.into_iter().for_each(|link| link.silence(true));
        // The program's connection is reset, so that the program does not take the loss for the end of the data.
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
    inside("server_restarted", || {
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
    inside("eight_paths", || {
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
    inside("ipv6_only", || {
        let links = lay(2, true);
        let ends = Ends::start(&[], true);
        let flow = ends.download().unwrap();
        links.into_iter().for_each(carries);
        flow.advances(CARRIES);
    });
}

#[test]
fn client_killed() {
    inside("client_killed", || {
        let _links = lay(2, false);
        let before = state();
        let mut ends = Ends::start(&[], false);
        let flow = ends.download().unwrap();
        flow.advances(CARRIES);
        ends.client = None;
        // The kernel closes the connections of programs.
        assert!([ErrorKind::ConnectionReset, ErrorKind::UnexpectedEof].contains(&flow.breaks().kind()));
        assert_eq!(state(), before, "it leaves nothing behind");
        // The next client can bind the same port at once.
        ends.start_client(&[]);
        let again = ends.download().unwrap();
        again.advances(CARRIES);
    });
}
