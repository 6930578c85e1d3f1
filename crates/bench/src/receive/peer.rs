//! quiche's receive path, in a process of its own.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::{PACKETS, Sample};
use crate::Error;

/// Measures batches of `batch` datagrams.
pub(super) fn measure(program: &Path, batch: usize) -> Result<Sample, Error> {
    let mut command = Command::new(program);
    command.args(["receive", "--batch", &batch.to_string(), "--packets", &PACKETS.to_string()]);
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(format!("{} receive ended with {}", program.display(), output.status).into());
    }
    let result: Value = serde_json::from_slice(&output.stdout)?;
    let ns = result["ns_per_packet"].as_f64().ok_or("the quiche peer gave no ns_per_packet")?;
    Ok(Sample { ns_per_packet: ns, ack_ns_per_packet: None })
}
