//! Receive paths of other stacks, in separate processes.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::{PACKETS, Sample};
use crate::Error;

/// Measures batches of `batch` datagrams with the program of a peer. `more` is appended to its arguments.
pub(super) fn measure(program: &Path, batch: usize, more: &[String]) -> Result<Sample, Error> {
    let mut command = Command::new(program);
    command.args(["receive", "--batch", &batch.to_string(), "--packets", &PACKETS.to_string()]).args(more);
    let ns = said(&mut command)?["ns_per_packet"].as_f64().ok_or("a peer gave no ns_per_packet")?;
    Ok(Sample { ns_per_packet: ns, ack_ns_per_packet: None, bytes: None })
}

/// Runs a program and parses its output as JSON.
pub(super) fn said(command: &mut Command) -> Result<Value, Error> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        let program = command.get_program().display();
        return Err(format!("{program} ended with {}", output.status).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}
