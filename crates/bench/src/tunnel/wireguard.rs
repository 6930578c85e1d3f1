//! One flow of UDP datagrams through WireGuard in user space, for comparison.

use std::net::UdpSocket;
use std::process::Command;

use super::{Figures, Settings, udp};
use crate::Error;
use crate::child::Program;
use crate::stacks::peer;

/// Name of the peer's folder.
const PEER: &str = "boringtun";

/// Measures a flow through `peer-boringtun`; no figures if it is not built.
pub(super) fn measure(mbps: f64, len: usize, settings: &Settings) -> Result<Figures, Error> {
    let program = peer(PEER);
    if !program.is_file() {
        eprintln!("skipped: {PEER} ({} is not built)", program.display());
        return Ok(Figures::default());
    }
    let target = UdpSocket::bind("127.0.0.1:0")?;
    let mut command = Command::new(program);
    command.arg("tunnel").arg("--target").arg(target.local_addr()?.to_string());
    let mut tunnel = Program::start(&mut command)?;
    let line = tunnel.line()?;
    let port = line.strip_prefix("listening ").ok_or("the peer does not listen")?.parse()?;
    let flow = udp::carry(port, target, mbps, len, settings.time)?;
    let (_, cost) = tunnel.end()?;
    flow.figures(cost.cpu)
}
