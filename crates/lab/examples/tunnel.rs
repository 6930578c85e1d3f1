//! A QUIC connection inside the tunnel, in virtual time: `cargo run --release -p anabranch-lab --example tunnel -- [SECONDS [SEEDS]]`.
//!
//! For each pair of links of `anabranch-bench -- tunnel`: the rate of a download through the tunnel over each link alone, over both as
//! the packets arrive, and over both in order. The download has the size of 80 % of what the links carry in SECONDS (15), and the
//! rate is the median of SEEDS (5) runs, in Mbit/s.

use core::time::Duration;
use std::process::ExitCode;

use anabranch_lab::tunnel::{Carriage, Link, PROFILES, TunnelledDownload};
use anabranch_transport::TransportConfig;
use anabranch_transport::datagram::Terms;
use anabranch_transport::recovery::Algorithm;

/// Maximum wait for packets that were sent earlier, as `--preset quic` sets it.
const HOLD: Duration = Duration::from_millis(150);
/// Lifetime of a message, as the tunnel sets it.
const LIFETIME: Duration = Duration::from_millis(250);

fn main() -> ExitCode {
    let mut numbers = std::env::args().skip(1).map(|argument| argument.parse::<u64>());
    let (Ok(seconds), Ok(seeds)) = (numbers.next().unwrap_or(Ok(15)), numbers.next().unwrap_or(Ok(5))) else {
        eprintln!("usage: tunnel [SECONDS [SEEDS]]");
        return ExitCode::from(2);
    };
    println!(
        "| Links | Inner controller | First link | Second link | Both | Both, in order | Sum of the links |"
    );
    println!("|---|---|---|---|---|---|---|");
    for (name, links) in PROFILES {
        for algorithm in [Algorithm::Bbr, Algorithm::Cubic] {
            let rate = |links: &[Link], order| median(links, order, algorithm, seconds, seeds);
            let rates = [
                rate(&links[..1], None),
                rate(&links[1..], None),
                rate(links, None),
                rate(links, Some(HOLD)),
            ];
            let rates = rates.map(|rate| format!("{rate:.1}")).join(" | ");
            println!(
                "| {name} | {algorithm} | {rates} | {} |",
                links.iter().map(|link| link.mbps).sum::<f64>()
            );
        }
    }
    ExitCode::SUCCESS
}

/// Returns the median rate of downloads over `links`, in Mbit/s; zero if TLS refused its configuration.
fn median(links: &[Link], order: Option<Duration>, algorithm: Algorithm, seconds: u64, seeds: u64) -> f64 {
    let sum: f64 = links.iter().map(|link| link.mbps).sum();
    let config = TransportConfig::default();
    let recovery = config.recovery().clone().with_congestion(algorithm);
    let terms = Terms::default().with_flow(0).with_lifetime(LIFETIME);
    let terms = if order.is_some() { terms.with_restored_order() } else { terms };
    let download = |seed| TunnelledDownload {
        seed,
        links: links.iter().map(Link::spec).collect(),
        carriage: Carriage { terms, order },
        inner: config.clone().with_recovery(recovery.clone()),
        len: (0.8 * sum * 125_000.0) as u64 * seconds,
    };
    let mut rates: Vec<_> = (0..seeds).map(|seed| download(seed).run().unwrap_or_default()).collect();
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied().unwrap_or_default()
}
