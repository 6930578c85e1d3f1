//! Faults of boxes between the client and the proxy.

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::ends::Ends;
use crate::inside::inside;
use crate::nat::{Nat, lose_long_packets};
use crate::network::{Link, lay};
use crate::scenes::{CARRIES, GAP, carries, two_links};

/// Maximum time without a byte if the NAT forgets the only path: the client says something of its own accord within 10 s.
const ONLY_PATH: Duration = Duration::from_secs(12);

#[test]
fn nat_rebinds() {
    inside(module_path!(), "nat_rebinds", &["nft"], || {
        let [first, second]: [Link; 2] = lay(2, false).try_into().unwrap();
        let nat = Nat::insert();
        let ends = Ends::start(&[], false);
        let flow = ends.download().unwrap();
        carries(first);
        carries(second);
        assert!(nat.mappings() >= 1);
        flow.longest_gap();
        nat.translate(30_000);
        flow.advances(5_000_000);
        let gap = flow.longest_gap();
        assert!(gap < GAP, "{gap:?}");
        carries(first);
        carries(second);
        assert!(nat.mappings() >= 1, "the first link has another port");
        eprintln!("nothing came for {gap:?}");
    });
}

#[test]
fn nat_rebinds_the_only_path() {
    inside(module_path!(), "nat_rebinds_the_only_path", &["nft"], || {
        let [only]: [Link; 1] = lay(1, false).try_into().unwrap();
        let nat = Nat::insert();
        let ends = Ends::start(&[], false);
        let flow = ends.download().unwrap();
        carries(only);
        flow.longest_gap();
        nat.translate(30_000);
        flow.advances(5_000_000);
        let gap = flow.longest_gap();
        assert!(gap < ONLY_PATH, "{gap:?}");
        assert!(nat.mappings() >= 1, "it has another port");
        eprintln!("nothing came for {gap:?}");
    });
}

#[test]
fn long_packets_lost_from_the_start() {
    inside(module_path!(), "long_packets_lost_from_the_start", &["nft"], || {
        let [first, second]: [Link; 2] = lay(2, false).try_into().unwrap();
        lose_long_packets(second, true);
        let ends = Ends::start(&[], false);
        let flow = ends.download().unwrap();
        carries(first);
        let (before, begin) = (second.received(), Instant::now());
        while begin.elapsed() < Duration::from_secs(3) {
            flow.advances(100_000);
        }
        // The path is not validated, so it carries no data.
        let came = second.received() - before;
        assert!(came < CARRIES / 10, "{came} bytes on a path that cannot be validated");
        lose_long_packets(second, false);
        carries(second);
    });
}

#[test]
fn long_packets_lost_later() {
    inside(module_path!(), "long_packets_lost_later", &["nft"], || {
        let ([first, second], _ends, flow) = two_links();
        lose_long_packets(first, true);
        flow.advances(5_000_000);
        let gap = flow.longest_gap();
        assert!(gap < GAP, "{gap:?}");
        carries(second);
        sleep(Duration::from_secs(2));
        lose_long_packets(first, false);
        carries(first);
        eprintln!("nothing came for {gap:?}");
    });
}
