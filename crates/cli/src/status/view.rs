//! Reports as text.

use super::report::{DropsReport, FlowReport, KindReport, PathReport, Rated, Report, UserReport};
use crate::exit::one_line;
use crate::table::table;

/// Header of the table of paths and, below, the indices of its columns with words. The other tables have the
/// same.
pub(super) const PATHS: [&str; 9] =
    ["path", "interface", "local", "state", "RTT ms", "up Mbit/s", "down Mbit/s", "loss %", "why"];
const PATHS_WORDS: [usize; 5] = [0, 1, 2, 3, 8];
/// Header of the table of tunnels.
pub(super) const FLOWS: [&str; 6] = ["kind", "target", "age", "up Mbit/s", "down Mbit/s", "MB"];
const FLOWS_WORDS: [usize; 2] = [0, 1];
/// Header of the table of users.
pub(super) const USERS: [&str; 6] = ["user", "flows", "up Mbit/s", "down Mbit/s", "MB", "dropped"];
const USERS_WORDS: [usize; 1] = [0];

/// Returns the whole report, on several lines.
pub(super) fn whole(report: &Report) -> String {
    let mut parts = vec![head(report)];
    if !report.paths.is_empty() {
        let mut header = PATHS;
        if report.role == "serve" {
            header[2] = "client";
        }
        parts.push(table(&header, &PATHS_WORDS, report.paths.iter().map(path)));
    }
    parts.push(flows(report));
    if !report.flows.top.is_empty() {
        parts.push(table(&FLOWS, &FLOWS_WORDS, report.flows.top.iter().map(flow)));
    }
    if !report.users.is_empty() {
        parts.push(table(&USERS, &USERS_WORDS, report.users.iter().map(user)));
    }
    parts.join("\n")
}

/// Returns the first line: the process, and its state.
pub(super) fn head(report: &Report) -> String {
    let proxy = report.proxy.as_ref().map(|proxy| format!(" {proxy}")).unwrap_or_default();
    let why = report.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
    let Report { role, pid, state, connections, addresses, .. } = report;
    let addresses = if addresses.is_empty() { String::new() } else { format!("; {}", addresses.join(" ")) };
    let connections = match connections {
        1 => "1 connection".to_owned(),
        connections => format!("{connections} connections"),
    };
    let up = age(report.up_s);
    one_line(&format!("{role}{proxy}, process {pid}, up {up}: {state}{why}, {connections}{addresses}"))
}

/// Returns the numbers of tunnels.
pub(super) fn flows(report: &Report) -> String {
    let kind = |kind: &KindReport| {
        let KindReport { kind, active, opened, failed, .. } = kind;
        format!("{active} {kind} ({opened} opened, {failed} failed)")
    };
    let kinds: Vec<_> = report.flows.kinds.iter().map(kind).collect();
    let kinds = if kinds.is_empty() { "none".to_owned() } else { kinds.join(", ") };
    let dropped = match report.dropped {
        Some(DropsReport { full, expired }) if full + expired > 0 => {
            format!("; datagrams dropped: {expired} too old, {full} for want of room")
        }
        _ => String::new(),
    };
    one_line(&format!("tunnels: {kinds}{dropped}"))
}

/// Returns the report on one line.
pub(super) fn line(report: &Report) -> String {
    let path = |path: &PathReport| {
        let name = path.interface.as_deref().unwrap_or(&path.remote);
        let rtt = path.rtt_ms.map(|rtt| format!(" {rtt:.1} ms")).unwrap_or_default();
        let why = path.why.as_ref().or(path.idle.as_ref()).map(|why| format!(" ({why})")).unwrap_or_default();
        format!("{name} {}{why} {:.1}/{:.1} Mbit/s{rtt}", path.state, path.sent.rate(), path.received.rate())
    };
    let paths: Vec<_> = report.paths.iter().map(path).collect();
    one_line(&format!("{:.1} s {}; {}; {}", report.up_s, report.state, paths.join(", "), flows(report)))
}

/// Returns the cells of a path's row.
pub(super) fn path(path: &PathReport) -> Vec<String> {
    let id = match path.id {
        Some(id) => format!("{}.{id}", path.connection),
        None => "–".to_owned(),
    };
    let place = if path.interface.is_none() { &path.remote } else { &path.local };
    let number = |number: Option<f64>| number.map_or_else(|| "–".to_owned(), |number| format!("{number:.1}"));
    let cells = [
        id,
        path.interface.clone().unwrap_or_else(|| "–".to_owned()),
        place.clone(),
        path.state.clone(),
        number(path.rtt_ms),
        number(path.sent.mbps),
        number(path.received.mbps),
        path.loss_percent.map_or_else(|| "–".to_owned(), |loss| format!("{loss:.2}")),
        path.why.clone().or_else(|| path.idle.clone()).unwrap_or_default(),
    ];
    cells.map(|cell| one_line(&cell)).to_vec()
}

/// Returns the cells of a tunnel's row.
pub(super) fn flow(flow: &FlowReport) -> Vec<String> {
    let cells = [flow.kind.clone(), flow.target.clone(), age(flow.age_s)];
    let [up, down, megabytes] = moved(flow.sent, flow.received);
    cells.into_iter().map(|cell| one_line(&cell)).chain([up, down, megabytes]).collect()
}

/// Returns the cells of a user's row.
pub(super) fn user(user: &UserReport) -> Vec<String> {
    let [up, down, megabytes] = moved(user.sent, user.received);
    let dropped = user.dropped_datagrams.to_string();
    vec![one_line(&user.user), user.flows.to_string(), up, down, megabytes, dropped]
}

/// Returns both rates in Mbit/s, and the sum of the bytes in MB.
fn moved(sent: Rated, received: Rated) -> [String; 3] {
    let megabytes = (sent.bytes + received.bytes) as f64 * 1e-6;
    [format!("{:.1}", sent.rate()), format!("{:.1}", received.rate()), format!("{megabytes:.1}")]
}

/// Formats a duration in seconds, minutes, hours or days.
fn age(seconds: f64) -> String {
    match seconds {
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7_200.0 => format!("{:.0} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.0} h", s / 3_600.0),
        s => format!("{:.0} d", s / 86_400.0),
    }
}

#[cfg(test)]
pub(super) mod tests;
