//! Processor time of a long download over a fast, long link with little loss, in comparison with the same link without loss.

use std::time::Duration;

use anabranch_lab::link::LinkSpec;
use anabranch_lab::transfer::Transfer;
use anabranch_transport::TransportConfig;
use anabranch_workloads::transfer::MAX_UDP_PAYLOAD;
use clap::Args;
use serde_json::json;

use crate::Error;
use crate::child::Cost;
use crate::report::{BROKEN, Report, median, rounded};

/// Rate of the link in bits per second, and its round-trip time.
const RATE: u64 = 1_000_000_000;
const RTT: Duration = Duration::from_millis(100);
/// Share of packets that are lost.
const LOSS: f64 = 1e-4;
/// Maximum processor time with loss, as a multiple of that without.
const AT_MOST: f64 = 1.2;

#[derive(Args)]
pub(crate) struct Options {
    /// Number of rounds, each with one download without loss and one with it; the report contains medians
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// Bytes of the download
    #[arg(long, default_value_t = 1_000_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    bytes: u64,
}

/// Cost of one download.
struct Sample {
    /// Processor seconds for each GB: both ends, the network, and the harness.
    cpu: f64,
    /// Rate of the download in virtual time, in bits per second.
    rate: f64,
    retransmitted: f64,
    /// Number of packets that the link's full queue dropped.
    overflowed: f64,
}

pub(crate) fn run(options: &Options) -> Result<Report, Error> {
    let mut samples = [Vec::new(), Vec::new()];
    for seed in 0..options.rounds {
        for (loss, samples) in [0.0, LOSS].into_iter().zip(&mut samples) {
            samples.push(download(seed, loss, options.bytes)?);
        }
    }
    let middle = |of: &[Sample], value: fn(&Sample) -> f64| median(&of.iter().map(value).collect::<Vec<_>>());
    let cpu = samples.each_ref().map(|samples| middle(samples, |sample| sample.cpu));
    let ratio = cpu[1] / cpu[0];
    let row = |index: usize, name: &str, verdict: &str| {
        let of = &samples[index];
        vec![
            name.to_owned(),
            format!("{:.3}", cpu[index]),
            format!("{:.0}", middle(of, |sample| sample.rate) / 1e6),
            format!("{:.3}", middle(of, |sample| sample.retransmitted)),
            format!("{:.0}", middle(of, |sample| sample.overflowed)),
            format!("{:.2}", cpu[index] / cpu[0]),
            verdict.to_owned(),
        ]
    };
    let lossy = format!("{} % loss", 100.0 * LOSS);
    let verdict = if ratio <= AT_MOST { "kept" } else { BROKEN };
    Ok(Report {
        title: format!(
            "{} bytes over {} Mbit/s with a round trip of {} ms in virtual time, medians of {} rounds",
            options.bytes,
            RATE / 1_000_000,
            RTT.as_millis(),
            options.rounds
        ),
        columns: vec![
            "link",
            "CPU s/GB",
            "Mbit/s",
            "% sent again",
            "dropped by the queue",
            "CPU, no loss = 1",
            "verdict",
        ],
        rows: vec![row(0, "no loss", "shown"), row(1, &lossy, verdict)],
        json: json!({
            "bytes": options.bytes,
            "cpu_s_per_gb": rounded(cpu[0]),
            "lossy_cpu_s_per_gb": rounded(cpu[1]),
            "ratio": rounded(ratio),
            "mbit_per_s": rounded(middle(&samples[0], |sample| sample.rate) / 1e6),
            "lossy_mbit_per_s": rounded(middle(&samples[1], |sample| sample.rate) / 1e6),
        }),
    })
}

/// Runs one download.
fn download(seed: u64, loss: f64, bytes: u64) -> Result<Sample, Error> {
    let link = LinkSpec::new(RATE, RTT).mtu(MAX_UDP_PAYLOAD).loss(loss);
    let transport = TransportConfig::default();
    let transfer = Transfer { seed, links: vec![link], bytes, client: transport.clone(), server: transport };
    let before = Cost::so_far()?.cpu;
    let measured = transfer.run(false)?;
    let spent = Cost::so_far()?.cpu - before;
    Ok(Sample {
        cpu: spent * 1e9 / bytes as f64,
        rate: 8.0 * bytes as f64 / measured.finished.as_secs_f64(),
        retransmitted: measured.retransmitted_percent,
        overflowed: measured.overflowed as f64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_data_is_sent_again() {
        let [without, with] = [0.0, 0.01].map(|loss| download(1, loss, 3_000_000).unwrap());
        assert_eq!(without.retransmitted, 0.0);
        assert!(with.retransmitted > 0.2, "{}", with.retransmitted);
        assert!(without.cpu > 0.0 && with.rate > 0.0);
    }
}
