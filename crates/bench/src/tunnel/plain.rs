//! One download over HTTP/3 without a tunnel, for comparison.

use std::process::Command;
use std::time::{Duration, Instant};

use super::{Figures, Settings};
use crate::Error;
use crate::child::Program;
use crate::stacks::{Identity, Ours};

/// Name of the file that is fetched.
const FILE: &str = "zeros";

/// Measures a download of as many bytes as 2 Gbit/s carry in the settings' time.
pub(super) fn measure(ours: &Ours, settings: &Settings) -> Result<Figures, Error> {
    let identity = Identity::new()?;
    let len = settings.time.as_secs().max(1) * 250_000_000;
    // A sparse file takes no room on the disk.
    std::fs::File::create(identity.folder().join(FILE))?.set_len(len)?;
    let mut command = Command::new(ours.program()?);
    command.current_dir(identity.folder()).args(["serve", ".", "--listen", "127.0.0.1:0", "--log", "none"]);
    command.args(identity.flags());
    let mut server = Program::start(&mut command)?;
    let line = server.line()?;
    let address = line.strip_prefix("listening ").ok_or("the server does not listen")?;
    let port = address.rsplit(':').next().unwrap_or_default();
    let mut command = Command::new(ours.program()?);
    command.current_dir(identity.folder()).args([
        "get",
        "--ca",
        "cert.pem",
        "--output",
        "/dev/null",
        "--path",
        "lo",
    ]);
    command.arg(format!("https://localhost:{port}/{FILE}"));
    let begin = Instant::now();
    let (_, cost) = Program::start(&mut command)?.end()?;
    let seconds = begin.elapsed().max(Duration::from_millis(1)).as_secs_f64();
    let cpu = cost.cpu + server.terminate()?.cpu;
    Ok(Figures {
        mbps: Some(len as f64 * 8e-6 / seconds),
        cpu_s_per_gb: Some(cpu / (len as f64 * 1e-9)),
        ..Figures::default()
    })
}
