//! One QUIC connection inside the tunnel, which neither of its ends knows of.

use std::process::Command;
use std::thread;

use serde_json::Value;

use super::cases::Case;
use super::site::Site;
use super::{Figures, Settings};
use crate::Error;
use crate::child::Program;

/// Maximum wait of a packet for those that were sent before it, in milliseconds, as `--preset quic` sets it.
const HOLD_MS: u64 = 150;
/// Share of the links' sum that decides how long the download is.
const EXPECTED: f64 = 0.8;

/// Measures a download on one stream from a server of ours behind the proxy, on one path.
pub(super) fn measure(
    site: Site<'_>,
    case: &Case,
    settings: &Settings,
    ordered: bool,
) -> Result<Figures, Error> {
    let mut command = Command::new(site.program()?);
    command.args(["perf", "server", "--listen", "127.0.0.1:0"]).args(site.certificate());
    let mut server = Program::start(&mut command)?;
    let line = server.line()?;
    let target = line.strip_prefix("listening ").ok_or("the server does not listen")?;
    let route = format!("127.0.0.1:0={target}/udp");
    let rule = target.rsplit_once(':').map(|(_, port)| format!("udp:{port}={HOLD_MS}")).ok_or("no port")?;
    let more: &[&str] = if ordered { &["--ordered", &rule, &route] } else { &[&route] };
    let (client, port) = site.client(&["forward"], more, "forwarding ")?;
    thread::sleep(settings.settle);
    let seconds = settings.time.as_secs_f64();
    let len = (case.sum().ok_or("no links")? * EXPECTED * seconds * 125_000.0) as u64;
    let mut command = Command::new(site.program()?);
    command.args(["perf", "client", "--json", "--connect", &port.to_string(), "--name", "localhost"]);
    command.arg("--ca").arg(site.authority()).args(["--download", &len.to_string()]);
    let (said, _) = Program::start(&mut command)?.end()?;
    let said: Value = serde_json::from_str(said.lines().last().ok_or("the client said nothing")?)?;
    server.end()?;
    let cpu = site.end(client)?;
    Ok(Figures {
        mbps: said["goodput_mbps"].as_f64(),
        cpu_s_per_gb: Some(cpu / (len as f64 * 1e-9)),
        ..Figures::default()
    })
}
