//! State of a running client or server, which is published as one JSON object on each line.

use serde::{Deserialize, Serialize};

/// State of a process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Report {
    /// Command: `connect`, `forward`, `vpn` or `serve`.
    pub(crate) role: String,
    pub(crate) version: String,
    pub(crate) pid: u32,
    /// Seconds since the start.
    pub(crate) up_s: f64,
    /// URL of a client's proxy; `None` for a server.
    pub(crate) proxy: Option<String>,
    /// State of a client's connection, or of the server.
    pub(crate) state: String,
    /// Reason for the state, if it is a failure.
    pub(crate) why: Option<String>,
    /// Number of connections between clients and the proxy.
    pub(crate) connections: usize,
    /// Addresses of this host in the tunnel of a VPN.
    pub(crate) addresses: Vec<String>,
    pub(crate) paths: Vec<PathReport>,
    pub(crate) flows: FlowsReport,
    /// Datagrams that a client dropped; `None` for a server, which counts them by user.
    pub(crate) dropped: Option<DropsReport>,
    /// Users of a server, those with the most traffic first.
    pub(crate) users: Vec<UserReport>,
}

/// A path, or an attempt to open one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct PathReport {
    /// Number of the connection, counted from the start of the process.
    pub(crate) connection: u64,
    /// Path ID; `None` if there is no path yet.
    pub(crate) id: Option<u32>,
    /// Interface of a client; `None` if it is not known.
    pub(crate) interface: Option<String>,
    pub(crate) local: String,
    pub(crate) remote: String,
    pub(crate) state: String,
    /// Reason why no packets are sent on the path at present.
    pub(crate) idle: Option<String>,
    /// Reason why the path was closed, or could not be opened.
    pub(crate) why: Option<String>,
    pub(crate) rtt_ms: Option<f64>,
    pub(crate) sent: Rated,
    pub(crate) received: Rated,
    pub(crate) sent_packets: u64,
    pub(crate) lost_packets: u64,
    /// Share of the sent packets that were lost; `None` if none was sent.
    pub(crate) loss_percent: Option<f64>,
}

/// A number of bytes, and their rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Rated {
    pub(crate) bytes: u64,
    /// Rate since the previous report, in Mbit/s; `None` in the first report.
    pub(crate) mbps: Option<f64>,
}

/// Tunnels for programs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct FlowsReport {
    pub(crate) kinds: Vec<KindReport>,
    /// Open tunnels with the most traffic at present.
    pub(crate) top: Vec<FlowReport>,
}

/// Tunnels of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct KindReport {
    /// `tcp` or `udp` for clients, `all` for servers.
    pub(crate) kind: String,
    pub(crate) active: u64,
    pub(crate) opened: u64,
    pub(crate) failed: u64,
    pub(crate) sent: Rated,
    pub(crate) received: Rated,
}

/// Numbers of datagrams that were dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct DropsReport {
    /// Those for which there was no room, in a queue of either direction or in a packet.
    pub(crate) full: u64,
    /// Those that had waited too long to be sent.
    pub(crate) expired: u64,
}

/// An open tunnel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct FlowReport {
    pub(crate) kind: String,
    pub(crate) target: String,
    /// Seconds since the tunnel was opened.
    pub(crate) age_s: f64,
    pub(crate) sent: Rated,
    pub(crate) received: Rated,
}

/// A user of a server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct UserReport {
    pub(crate) user: String,
    pub(crate) flows: usize,
    pub(crate) sent: Rated,
    pub(crate) received: Rated,
    pub(crate) dropped_datagrams: u64,
}

impl Rated {
    /// Returns the rate, 0 if it is not known.
    pub(crate) fn rate(&self) -> f64 {
        self.mbps.unwrap_or(0.0)
    }
}
