//! The lab's engine `linux`, which boots a kernel for each run.
//!
//! Runs are independent because each has a kernel of its own, whose randomness follows from the run's seed.
//! No state of an earlier run remains, such as caches, used ports or the phase of a timer.

use core::time::Duration;
use std::sync::OnceLock;

use anabranch_lab::design::{Change, PathDesign};
use anabranch_lab::experiment::Workload;
use anabranch_lab::record::Row;
use anabranch_lab::run::{self, Engine};

use crate::host::Host;
use crate::order::{Link, Order, Properties, Report, Way, Work};
use crate::stack::{Buffers, Control, Stack, Transport};

/// Linux as an engine of the lab.
#[derive(Clone, Debug)]
pub struct Linux {
    host: Host,
    version: String,
    /// Result of the check.
    checked: OnceLock<Result<(), String>>,
}

/// Maximum wall time of the boot that checks whether the kernel works.
const MAX_CHECK: Duration = Duration::from_secs(60);
/// Number of bytes that this boot downloads.
const CHECK_BYTES: u64 = 1000;

impl Linux {
    /// Creates the engine; `version` is that of the kernel.
    pub fn new(host: Host, version: &str) -> Self {
        Self { host, version: format!("linux-{version}"), checked: OnceLock::new() }
    }
}

impl Engine for Linux {
    fn name(&self) -> &'static str {
        "linux"
    }

    fn version(&self) -> &str {
        &self.version
    }

    fn check(&self) -> Result<(), String> {
        self.checked.get_or_init(|| check(&self.host)).clone()
    }

    fn run(&self, order: &run::Order<'_>, row: &mut Row) -> Result<(), String> {
        let order = convert(order)?;
        let report = self.host.boot(&order).map_err(|error| error.to_string())?;
        fill(row, &report, order.work);
        if report.failure.is_empty() { Ok(()) } else { Err(report.failure) }
    }
}

/// Boots the kernel once and downloads a little.
fn check(host: &Host) -> Result<(), String> {
    let first = Properties { rate_bps: 10_000_000, delay_ns: 1_000_000, loss: 0.0 };
    let way = Way { first, queue_packets: 10, changes: Vec::new() };
    let order = Order {
        stack: Stack { transport: Transport::Tcp(Control::Cubic), tls: None, buffers: Buffers::Default },
        paths: vec![Link { up: way.clone(), down: way }],
        work: Work::Download { bytes: CHECK_BYTES },
        deadline_ns: nanos(MAX_CHECK),
        seed: 1,
    };
    let host = Host { limit: MAX_CHECK.min(host.limit), ..host.clone() };
    let report = host.boot(&order).map_err(|error| error.to_string())?;
    if report.failure.is_empty() { Ok(()) } else { Err(report.failure) }
}

/// Returns the order for the guest.
fn convert(order: &run::Order<'_>) -> Result<Order, String> {
    let external = order.external;
    let name = if external.setup.is_empty() {
        external.stack.clone()
    } else {
        format!("{}-{}", external.stack, external.setup)
    };
    let stack: Stack = name.parse().map_err(|error: crate::stack::UnknownStack| error.to_string())?;
    let work = match *order.workload {
        Workload::Download { bytes, .. } => Work::Download { bytes },
        Workload::Upload { bytes } => Work::Upload { bytes },
        Workload::Requests { request, answer, every, count } => {
            Work::Requests { request: request.max(1), answer: answer.max(1), every_ns: nanos(every), count }
        }
        Workload::Competition { others, length, one_link } => Work::Competition {
            others,
            control: control(order, stack)?,
            length_ns: nanos(length.min(order.deadline)),
            one_link,
        },
    };
    let order = Order {
        stack,
        paths: order.paths.iter().map(|path| link(path)).collect::<Result<_, _>>()?,
        work,
        deadline_ns: nanos(order.deadline),
        seed: order.seed,
    };
    order.check().map_err(|error| error.to_string())?;
    Ok(order)
}

/// Returns the congestion control of the connections that compete with `stack`.
fn control(order: &run::Order<'_>, stack: Stack) -> Result<Control, String> {
    let Some(algorithm) = order.others_congestion else { return Ok(stack.control()) };
    match algorithm.name() {
        "newreno" => Ok(Control::Reno),
        "cubic" => Ok(Control::Cubic),
        "bbr1" => Ok(Control::Bbr),
        other => Err(format!("Linux has no `{other}` for the other connections: use newreno, cubic or bbr1")),
    }
}

/// Returns a path's link.
fn link(path: &PathDesign) -> Result<Link, String> {
    let up = path.up.as_deref().unwrap_or(path);
    Ok(Link { up: way(up)?, down: way(path)? })
}

fn way(path: &PathDesign) -> Result<Way, String> {
    let absent = [
        ("jitter", path.jitter_ms > 0.0),
        ("reordering", path.reorder_percent > 0.0),
        ("a trace of its rate", path.trace.is_some()),
    ];
    if let Some((what, _)) = absent.iter().find(|(_, wanted)| *wanted) {
        return Err(format!("a path has {what}, which the guest's links do not have"));
    }
    let mut now = Properties {
        rate_bps: bits(path.rate_mbps),
        delay_ns: millis(path.owd_ms),
        loss: path.loss_percent / 100.0,
    };
    let first = now;
    let mut changes = Vec::new();
    for Change { at, rate_mbps, owd_ms, loss_percent } in &path.changes {
        now.rate_bps = rate_mbps.map_or(now.rate_bps, bits);
        now.delay_ns = owd_ms.map_or(now.delay_ns, millis);
        now.loss = loss_percent.map_or(now.loss, |percent| percent / 100.0);
        changes.push((nanos(*at), now));
    }
    let queue_packets = u32::try_from(path.queue_packets).unwrap_or(u32::MAX);
    Ok(Way { first, queue_packets, changes })
}

/// Writes the measurements of `report` to `row`.
fn fill(row: &mut Row, report: &Report, work: Work) {
    let last = report.last_byte_ns.map(seconds);
    row.last_byte_s = last;
    row.transfer_time_s = last.filter(|_| report.failure.is_empty());
    row.handshake_s = report.handshake_ns.map(seconds);
    row.request_times_s = report.requests_ns.iter().map(|(made, _)| seconds(*made)).collect();
    row.request_delays_s = report.requests_ns.iter().map(|(_, delay)| seconds(*delay)).collect();
    row.path_bytes = report.paths.iter().map(|path| path.sent_bytes).collect();
    row.path_lost = report.paths.iter().map(|path| path.repeated_segments).collect();
    row.path_rtt_s = report.paths.iter().map(|path| path.rtt_us as f64 / 1e6).collect();
    row.path_overflows.clone_from(&report.overflows);
    if let Work::Competition { length_ns, .. } = work {
        let goodput = |bytes: &u64| *bytes as f64 * 8.0 / seconds(length_ns);
        row.flow_goodput_bps = report.flows.iter().map(goodput).collect();
    }
    row.lost_packets = (!report.paths.is_empty()).then(|| row.path_lost.iter().sum());
    if let Work::Download { bytes } | Work::Upload { bytes } = work {
        let sent: u64 = row.path_bytes.iter().sum();
        let again = sent.saturating_sub(bytes) as f64;
        row.retransmitted_percent = (sent > 0 && bytes > 0).then(|| 100.0 * again / bytes as f64);
    }
}

fn bits(mbps: f64) -> u64 {
    (mbps * 1e6).round() as u64
}

fn millis(ms: f64) -> u64 {
    (ms * 1e6).round() as u64
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

#[cfg(test)]
mod tests;
