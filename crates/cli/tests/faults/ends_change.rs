//! Changes at the ends: the server moves, the resolver dies, clocks jump.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

use crate::ends::Ends;
use crate::inside::inside;
use crate::network::{ELSEWHERE, Link, NAME, SERVER, lay, move_server, resolve};
use crate::scenes::{CARRIES, GAP, carries};

/// Starts both ends over two links, with a proxy that has a name.
fn named() -> ([Link; 2], Ends) {
    let links: [Link; 2] = lay(2, false).try_into().unwrap();
    let mut ends = Ends::prepare(NAME, &[]);
    resolve(&ends.file(""), Some(SERVER));
    ends.start_proxy();
    ends.start_client(&[]);
    (links, ends)
}

#[test]
fn server_moved() {
    inside(module_path!(), "server_moved", &[], || {
        let (links, mut ends) = named();
        let flow = ends.download().unwrap();
        flow.advances(CARRIES);
        ends.kill_proxy();
        move_server(SERVER, ELSEWHERE, &links);
        resolve(&ends.file(""), Some(ELSEWHERE));
        ends.start_proxy();
        // Nobody answers at the old address, so the connection ends by its idle timeout.
        assert_eq!(flow.breaks().kind(), ErrorKind::ConnectionReset);
        let took = ends.works_again();
        assert!(took < Duration::from_secs(20), "{took:?}");
        links.into_iter().for_each(|link| carries_again(&ends, link));
        eprintln!("a new tunnel carried data after {took:?}");
    });
}

/// Waits until a new download uses this link.
fn carries_again(ends: &Ends, link: Link) {
    let flow = ends.download().unwrap();
    carries(link);
    flow.advances(CARRIES);
}

#[test]
fn resolver_dead() {
    inside(module_path!(), "resolver_dead", &[], || {
        let (_links, mut ends) = named();
        let flow = ends.download().unwrap();
        flow.advances(CARRIES);
        // The network still works, only names cannot be resolved any longer. Questions get no answer.
        resolve(&ends.file(""), None);
        flow.advances(CARRIES);
        ends.kill_proxy();
        ends.start_proxy();
        assert_eq!(flow.breaks().kind(), ErrorKind::ConnectionReset);
        let took = ends.works_again();
        assert!(took < Duration::from_secs(20), "{took:?}");
        eprintln!("a new tunnel carried data after {took:?}");
    });
}

/// Returns the library that lets programs see another time, if it is installed.
fn libfaketime() -> Option<PathBuf> {
    let places = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib"];
    places
        .iter()
        .map(|place| PathBuf::from(place).join("faketime/libfaketimeMT.so.1"))
        .find(|file| file.exists())
}

#[test]
fn clocks_jump() {
    let Some(library) = libfaketime() else {
        eprintln!("skipped: clocks_jump (no libfaketime; the clock of this host is not touched)");
        return;
    };
    inside(module_path!(), "clocks_jump", &[], || {
        let links: [Link; 2] = lay(2, false).try_into().unwrap();
        let mut ends = Ends::prepare(SERVER, &[]);
        let clock = ends.file("clock");
        // Both ends see these clocks. Time that only goes forward is that of the kernel.
        std::fs::write(&clock, "+0").unwrap();
        ends.see_clock(&library, &clock);
        ends.start_proxy();
        ends.start_client(&["-vv"]);
        let flow = ends.download().unwrap();
        links.into_iter().for_each(carries);
        flow.longest_gap();
        for jump in ["+3600", "-3600", "+0"] {
            std::fs::write(&clock, jump).unwrap();
            flow.advances(3_000_000);
            ends.download().unwrap().advances(CARRIES);
        }
        let gap = flow.longest_gap();
        assert!(gap < GAP, "{gap:?}");
        // The client's log has seen each of the three hours.
        let log = ends.log("client.log");
        let hours: BTreeSet<_> =
            log.lines().filter(|line| line.starts_with("20")).filter_map(|line| line.get(..13)).collect();
        assert!(hours.len() >= 3, "{hours:?}");
        eprintln!("nothing came for {gap:?}");
    });
}
