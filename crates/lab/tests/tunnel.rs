//! A QUIC connection inside a tunnel over several links, which it does not know of.
#![expect(clippy::unwrap_used, reason = "a test fails where it fails")]

use core::time::Duration;

use anabranch_lab::tunnel::{Carriage, Link, PROFILES, TunnelledDownload};
use anabranch_transport::TransportConfig;
use anabranch_transport::datagram::Terms;

/// Seconds for which the links carry a download at 80 % of their rates.
const SECONDS: f64 = 8.0;

/// Returns the rate of a download over `links`, in Mbit/s: with packets as they arrive, or in order with this maximum wait.
fn rate(links: &[Link], order: Option<Duration>) -> f64 {
    let sum: f64 = links.iter().map(|link| link.mbps).sum();
    let terms = Terms::default().with_flow(0).with_lifetime(Duration::from_millis(250));
    let terms = if order.is_some() { terms.with_restored_order() } else { terms };
    let download = TunnelledDownload {
        seed: 1,
        links: links.iter().map(Link::spec).collect(),
        carriage: Carriage { terms, order },
        inner: TransportConfig::default(),
        len: (0.8 * sum * SECONDS * 125_000.0) as u64,
    };
    download.run().unwrap()
}

/// Rates of a download in Mbit/s: over the better link alone, over both, and over both in order.
fn rates(name: &str) -> [f64; 3] {
    let (_, links) = PROFILES.iter().find(|(other, _)| *other == name).unwrap();
    let better = rate(&links[..1], None).max(rate(&links[1..], None));
    let rates = [better, rate(links, None), rate(links, Some(Duration::from_millis(150)))];
    println!(
        "{name}: {:.1} over the better link, {:.1} over both, {:.1} in order",
        rates[0], rates[1], rates[2]
    );
    rates
}

/// Links of which one loses 2 % of the packets. That is where BBR takes losses for congestion, so chance decides how fast the inner
/// connection is, without a tunnel, too. `--example tunnel` has medians.
const CHANCE: [&str; 2] = ["loss-2", "congested"];

#[test]
fn a_connection_inside_the_tunnel_is_no_slower_over_two_links_than_over_the_better_one() {
    let mut slower = Vec::new();
    for (name, _) in PROFILES.iter().filter(|(name, _)| !CHANCE.contains(name)) {
        let [better, both, ordered] = rates(name);
        if both.min(ordered) < 0.98 * better {
            slower.push(name);
        }
        if *name == "delay-70" {
            // A sender like BBR never fills the queue of the quicker link so far that the other one would be as quick.
            assert!(ordered > 1.5 * both, "only a flow in order may use the other link before that");
        }
    }
    assert!(slower.is_empty(), "{slower:?}");
}
