//! Downloads over a link in virtual time: `cargo run --release -p anabranch-lab --example download -- LINK
//! [BYTES [SEED]]`, for example `50mbit/30ms/0.1% 50000000`.

use std::process::ExitCode;

use anabranch_lab::app::{Dial, DownloadClient, DownloadServer};
use anabranch_lab::link::LinkSpec;
use anabranch_lab::pair::{Pair, PairConfig};
use anabranch_lab::sim::Simulation;
use anabranch_transport::Handle;
use anabranch_wire::Time;

/// Simulated time after which a download counts as stuck.
const DEADLINE: Time = Time::from_millis(24 * 3_600_000);

fn main() -> ExitCode {
    match run() {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("download: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<String, String> {
    let mut arguments = std::env::args().skip(1);
    let link: LinkSpec =
        arguments.next().ok_or("LINK is missing")?.parse().map_err(|error| format!("{error}"))?;
    let mut number = |default: u64| match arguments.next() {
        Some(text) => text.parse().map_err(|_| format!("`{text}` is not a number")),
        None => Ok(default),
    };
    let (bytes, seed) = (number(50_000_000)?, number(1)?);
    let config = PairConfig::new(seed, [link]);
    let client = |_: &Simulation, client, tuple| DownloadClient::new(Dial::new(client, tuple), &[bytes]);
    let pair = Pair::new(&config, client, DownloadServer::default(), |_| ());
    let mut pair = pair.map_err(|error| error.to_string())?;
    let host = pair.client;
    let outcome = pair.sim.run(DEADLINE, |sim| sim.application::<DownloadClient>(host).is_done());
    let client = pair.sim.application::<DownloadClient>(host);
    if let Some(failure) = &client.failure {
        return Err(failure.clone());
    }
    let finished = client.finished.ok_or_else(|| format!("not finished: {outcome:?}"))?;
    let seconds = finished.as_nanos() as f64 / 1e9;
    let lost = pair.sim.network().counters(pair.links[0])[1].lost_in_all();
    let stats =
        pair.sim.with_endpoint(pair.server, |_, server| server.connection(Handle(0)).map(|c| c.stats()));
    let path =
        stats.as_ref().and_then(|stats| stats.paths.first()).ok_or("the server's connection is gone")?;
    Ok(format!(
        "{bytes} bytes in {seconds:.6} s ({:.3} Mbit/s): {} datagrams sent, {lost} lost on the way, {} declared lost, {} of \
         them wrongly; {} events",
        bytes as f64 * 8e-6 / seconds,
        path.datagrams_sent,
        path.recovery.lost_packets,
        path.recovery.spurious_losses,
        pair.sim.network().trace().events(),
    ))
}
