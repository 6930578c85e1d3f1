//! `anabranch relay`: a UDP relay in front of a server that has the rate, the delay and the losses of a link.
//! It needs no privileges.

use std::net::SocketAddr;
use std::time::Instant;

use anabranch_lab::link::LinkSpec;
use anabranch_lab::random::Seed;
use clap::Args;

use crate::exit::{self, Exit, Failure, Result};
use crate::options::cannot_listen;
use crate::signal::Stop;

/// Maximum UDP payload on Ethernet over IPv4, in bytes.
const MTU: usize = 1_472;
/// Seed of the link's losses, so that they are the same in each run, as far as the timing of packets is.
const SEED: Seed = Seed(9_298);

/// Put a link with a rate, a delay and losses in front of a UDP server, to try several paths on one host
///
/// The link is a UDP relay on this host. It is dead as soon as this command ends.
/// `examples/tunnel/two-links.sh` uses two of them
#[derive(Args, Debug)]
#[command(after_help = exit::STATUSES)]
pub(crate) struct Relay {
    /// Rate and round-trip time of the link, and the share of packets that it loses: 50mbit/20ms or
    /// 50mbit/20ms/1%
    #[arg(value_name = "RATE/RTT[/LOSS]", value_parser = parse)]
    link: LinkSpec,
    /// Address of the server
    #[arg(value_name = "IP:PORT")]
    server: SocketAddr,
    /// Address at which clients find the link; port 0 lets the system choose
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
}

fn parse(text: &str) -> std::result::Result<LinkSpec, String> {
    text.parse::<LinkSpec>().map(|link| link.mtu(MTU)).map_err(|error| error.to_string())
}

pub(crate) async fn run(options: Relay) -> Result {
    if options.listen.is_ipv4() != options.server.is_ipv4() {
        let what = format!("{} and {} are of different families", options.listen, options.server);
        return Err(Failure::new(Exit::Usage, what).or("name two IPv4 or two IPv6 addresses"));
    }
    let mut stop = Stop::catch()?;
    let Relay { link, server, listen } = options;
    let relay = anabranch_lab::relay::Relay::start(listen, server, &link, SEED, Instant::now);
    let relay = relay.map_err(|error| cannot_listen(listen, &error))?;
    exit::say(format_args!("listening {}", relay.address()))?;
    stop.wait().await;
    Ok(())
}
