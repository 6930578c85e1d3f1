//! Evidence in the qlog traces of both endpoints.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

/// Evidence that the traces must contain.
#[derive(Clone, Debug)]
pub(super) enum Evidence {
    /// Client and server agree that there was a Retry.
    Retry,
    /// The server's flight on the second connection is too short for a certificate.
    NoSecondCertificate,
    /// 0-RTT packets arrived, and the client sent at most `most_later` bytes in 1-RTT packets.
    EarlyData { most_later: u64 },
    /// The first packet had version 1, and the Handshake packets had version 2.
    Upgrade,
    /// The client sent flow control credit during the transfer.
    WindowsWidened,
    /// The server initially allowed at most `most` streams, and more later.
    StreamLimit { most: u64 },
    /// Both endpoints sent packets of the second key phase.
    KeyPhase,
    /// Both endpoints reported received ECN marks.
    EcnCounts,
    /// All addresses are IPv6 addresses.
    OnlyIpv6,
    /// The client sent its ClientHello more than once.
    HelloRepeated,
    /// The server sent PATH_CHALLENGE to the client at more than one address, and received the responses.
    PathsValidated,
    /// The client migrated to the server's other port.
    PreferredAddress,
}

/// Packets in one direction in the trace of one endpoint.
#[derive(Clone, Debug, Default)]
struct Packets {
    /// Numbers of packets and bytes, by packet type.
    kinds: BTreeMap<String, [u64; 2]>,
    /// Numbers of frames, by frame type.
    frames: BTreeMap<String, u64>,
    /// Versions of the Initial and Handshake packets, by packet type.
    versions: BTreeMap<String, Vec<String>>,
    /// Number of packets of the second key phase.
    updated: u64,
    /// `true` if an ACK frame reported ECT(0).
    marked: bool,
    /// Number of CRYPTO frames at offset 0 in Initial packets.
    hellos: u64,
    /// Bytes of CRYPTO frames in Handshake packets.
    handshake_bytes: u64,
}

/// Trace of one connection from one of its endpoints.
#[derive(Clone, Debug, Default)]
pub(super) struct Trace {
    began: f64,
    alpn: Option<String>,
    sent: Packets,
    received: Packets,
    /// Number of streams that this endpoint initially allowed.
    streams: u64,
    /// `true` if the server's transport parameters proved that it had sent a Retry (RFC 9000 §7.3).
    retried: bool,
    /// Remote addresses to which paths migrated.
    moves: Vec<String>,
    /// Initial addresses of the connection.
    addresses: Vec<String>,
    error: Option<String>,
}

impl Trace {
    fn read(text: &str) -> Self {
        let mut trace = Self::default();
        let records = text.lines().map(|line| line.trim_start_matches('\u{1e}'));
        for record in records.filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
            trace.learn(&record);
        }
        trace
    }

    fn learn(&mut self, record: &Value) {
        let data = &record["data"];
        match record["name"].as_str().unwrap_or_default() {
            "quic:connection_started" => {
                self.began = record["time"].as_f64().unwrap_or_default();
                self.addresses = [&data["local"], &data["remote"]].into_iter().filter_map(address).collect();
            }
            "quic:alpn_information" => {
                self.alpn = data["chosen_alpn"]["string_value"].as_str().map(str::to_owned);
            }
            "quic:parameters_set" if data["initiator"] == "local" => {
                self.streams = data["initial_max_streams_bidi"].as_u64().unwrap_or_default();
            }
            "quic:parameters_set" => self.retried = data["retry_source_connection_id"].is_string(),
            "quic:packet_sent" => self.sent.learn(data),
            "quic:packet_received" => self.received.learn(data),
            "quic:tuple_assigned" => self.moves.extend(address(&data["tuple_remote"])),
            "quic:connection_closed" if data["trigger"] != "application" => {
                let text = |key: &str| data[key].as_str().unwrap_or_default();
                self.error = Some(format!("{} {}", text("trigger"), text("connection_error")));
            }
            _ => {}
        }
    }
}

impl Packets {
    fn learn(&mut self, data: &Value) {
        let header = &data["header"];
        let kind = header["packet_type"].as_str().unwrap_or_default().to_owned();
        let count = self.kinds.entry(kind.clone()).or_default();
        *count = [count[0] + 1, count[1] + data["raw"]["length"].as_u64().unwrap_or_default()];
        self.updated += u64::from(header["key_phase_bit"] == true);
        if let Some(version) = header["version"].as_str() {
            self.versions.entry(kind.clone()).or_default().push(version.to_owned());
        }
        for frame in data["frames"].as_array().into_iter().flatten() {
            let name = frame["frame_type"].as_str().unwrap_or_default();
            *self.frames.entry(name.to_owned()).or_default() += 1;
            self.marked |= frame["ect0"].as_u64().is_some_and(|marks| marks > 0);
            if name == "crypto" {
                self.hellos += u64::from(kind == "initial" && frame["offset"] == 0);
                let length = frame["raw"]["length"].as_u64().unwrap_or_default();
                self.handshake_bytes += if kind == "handshake" { length } else { 0 };
            }
        }
    }

    fn count(&self, kind: &str) -> u64 {
        self.kinds.get(kind).map_or(0, |count| count[0])
    }

    fn bytes(&self, kind: &str) -> u64 {
        self.kinds.get(kind).map_or(0, |count| count[1])
    }

    fn frames(&self, name: &str) -> u64 {
        self.frames.get(name).copied().unwrap_or_default()
    }

    /// Returns whether there were packets of this type, all of this version.
    fn only(&self, kind: &str, version: &str) -> bool {
        self.versions.get(kind).is_some_and(|seen| seen.iter().all(|one| one == version))
    }
}

/// Returns the IP address and port of an endpoint in a trace, separated by a space.
fn address(endpoint: &Value) -> Option<String> {
    let of = |ip: &str, port: &str| Some((endpoint[ip].as_str()?.to_owned(), endpoint[port].as_u64()?));
    of("ip_v4", "port_v4").or_else(|| of("ip_v6", "port_v6")).map(|(ip, port)| format!("{ip} {port}"))
}

/// Reads the traces in a folder, in the order in which their connections began.
pub(super) fn read_all(folder: &Path) -> Vec<Trace> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let texts = files.filter_map(|file| fs::read_to_string(file.path()).ok());
    let mut traces: Vec<_> = texts.map(|text| Trace::read(&text)).collect();
    traces.sort_by(|one, other| one.began.total_cmp(&other.began));
    traces
}

/// Checks the conditions of every case: the client made this number of connections, with the right protocol
/// and without an error.
pub(super) fn verify_all(traces: &[Trace], connections: usize, alpn: &str) -> Result<(), String> {
    if let Some(error) = traces.iter().find_map(|trace| trace.error.as_ref()) {
        return Err(format!("a client's connection ended with {error}"));
    }
    let complete = traces.iter().filter(|trace| trace.alpn.as_deref() == Some(alpn)).count();
    if complete != connections || traces.len() != connections {
        return Err(format!("{complete} of {} connections over {alpn}, not {connections}", traces.len()));
    }
    Ok(())
}

/// Checks that the traces contain the evidence. The error describes their actual content.
pub(super) fn verify(evidence: &Evidence, client: &[Trace], server: &[Trace]) -> Result<(), String> {
    match evidence {
        Evidence::Retry => {
            let all = client.iter().all(|trace| trace.retried);
            ensure(all, &|| "the server's parameters speak of no Retry".to_owned())
        }
        Evidence::NoSecondCertificate => {
            let flights: Vec<_> = client.iter().map(|trace| trace.received.handshake_bytes).collect();
            let shorter = matches!(flights[..], [first, second] if second > 0 && second < first / 2);
            ensure(shorter, &|| format!("Handshake CRYPTO bytes of the connections: {flights:?}"))
        }
        Evidence::EarlyData { most_later } => {
            let arrived = sum(server, &|trace| trace.received.count("0RTT"));
            ensure(arrived > 0, &|| "no 0-RTT packet arrived".to_owned())?;
            let later = sum(client, &|trace| trace.sent.bytes("1RTT"));
            ensure(later <= *most_later, &|| format!("the client sent {later} bytes in 1-RTT packets"))
        }
        Evidence::Upgrade => {
            let first = |trace: &Trace| trace.sent.versions.get("initial")?.first().cloned();
            let began = client.iter().all(|trace| first(trace).as_deref() == Some(VERSION_1));
            ensure(began, &|| "the client did not begin with version 1".to_owned())?;
            let upgraded = client.iter().chain(server).all(|trace| trace.sent.only("handshake", VERSION_2));
            ensure(upgraded, &|| "not all Handshake packets have version 2".to_owned())
        }
        Evidence::OnlyIpv6 => {
            let v4 = client.iter().flat_map(|trace| &trace.addresses).find(|address| address.contains('.'));
            ensure(v4.is_none(), &|| format!("an address of version 4: {v4:?}"))
        }
        Evidence::HelloRepeated => {
            let hellos = sum(client, &|trace| trace.sent.hellos);
            ensure(hellos > 1, &|| format!("the client said hello {hellos} times"))
        }
        _ => verify_later(evidence, client, server),
    }
}

/// Checks evidence from after the handshake.
fn verify_later(evidence: &Evidence, client: &[Trace], server: &[Trace]) -> Result<(), String> {
    match evidence {
        Evidence::WindowsWidened => {
            let credit =
                sum(client, &|trace| trace.sent.frames("max_stream_data") + trace.sent.frames("max_data"));
            ensure(credit > 0, &|| "the client's windows were large enough from the start".to_owned())
        }
        Evidence::StreamLimit { most } => {
            let first: Vec<_> = server.iter().map(|trace| trace.streams).collect();
            ensure(first.iter().all(|limit| (1..=*most).contains(limit)), &|| {
                format!("stream limits {first:?}")
            })?;
            let raised = sum(server, &|trace| trace.sent.frames("max_streams"));
            ensure(raised > 0, &|| "the server never allowed more streams".to_owned())
        }
        Evidence::KeyPhase => {
            let both = [client, server].map(|end| sum(end, &|trace| trace.sent.updated));
            ensure(!both.contains(&0), &|| format!("packets of the second key phase: {both:?}"))
        }
        Evidence::EcnCounts => {
            let told = |end: &[Trace]| end.iter().any(|trace| trace.sent.marked);
            ensure(told(client) && told(server), &|| {
                format!("ECN counts sent: client {}, server {}", told(client), told(server))
            })
        }
        Evidence::PathsValidated => {
            let moves = sum(server, &|trace| trace.moves.len() as u64);
            ensure(moves > 0, &|| "the server stayed with the client's first address".to_owned())?;
            let challenges = sum(server, &|trace| trace.sent.frames("path_challenge"));
            let responses = sum(server, &|trace| trace.received.frames("path_response"));
            let answered = challenges > 0 && responses > 0;
            ensure(answered, &|| format!("{challenges} challenges of the server, {responses} responses"))
        }
        Evidence::PreferredAddress => {
            let moves: Vec<_> = client.iter().flat_map(|trace| &trace.moves).collect();
            let moved = client.iter().all(|trace| {
                let port = |address: &String| address.rsplit(' ').next().map(str::to_owned);
                trace.moves.last().and_then(port).is_some_and(|port| port != FIRST_PORT)
            });
            ensure(moved, &|| format!("the client moved to {moves:?}"))
        }
        // These are checked by `verify`.
        Evidence::Retry
        | Evidence::NoSecondCertificate
        | Evidence::EarlyData { .. }
        | Evidence::Upgrade
        | Evidence::OnlyIpv6
        | Evidence::HelloRepeated => Ok(()),
    }
}

fn ensure(held: bool, broken: &dyn Fn() -> String) -> Result<(), String> {
    if held { Ok(()) } else { Err(broken()) }
}

fn sum(traces: &[Trace], of: &dyn Fn(&Trace) -> u64) -> u64 {
    traces.iter().map(of).sum()
}

const VERSION_1: &str = "00000001";
const VERSION_2: &str = "6b3343cf";
/// Port on which every connection begins.
const FIRST_PORT: &str = "443";

#[cfg(test)]
mod tests;
