//! Options about several paths at once (RFC 10069), and what is said about paths.

use std::net::SocketAddr;

use anabranch::transport::{MAX_PATHS, Numbering, NumberingChoice};
use anabranch::{Connection, MultipathConfig, PathInfo, PathPolicy, PathRule, Way, schedule};
use clap::Args;
use serde_json::{Value, json};

/// How several paths are used.
#[derive(Args, Clone, Debug)]
pub(crate) struct Sharing {
    /// Paths that may be open at the same time; by itself it lets a client offer several and open none
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_PATHS)))]
    max_paths: Option<u32>,
    /// Which path the next packet takes
    #[arg(long, value_name = "NAME", default_value = MultipathConfig::default().scheduler.name())]
    scheduler: schedule::Algorithm,
    /// Packet number spaces: `multiple` or `single`. A client that is told so insists on it, a server prefers it; unless
    /// told, a client offers both and a server prefers `multiple`
    #[arg(long, value_name = "NAME")]
    numbering: Option<Numbering>,
}

impl Sharing {
    fn config(&self, choice: fn(Numbering) -> NumberingChoice) -> MultipathConfig {
        let chosen = |mut config: MultipathConfig| {
            config.max_paths = self.max_paths.unwrap_or(config.max_paths);
            config.scheduler = self.scheduler;
            config.numbering = self.numbering.map_or(config.numbering, choice);
            config
        };
        chosen(MultipathConfig::default())
    }
}

/// A client's paths: one unless it is told otherwise.
#[derive(Args, Clone, Debug)]
pub(crate) struct ClientPaths {
    /// Use every network that this host is in, if the server uses several paths, too; containers, virtual machines and
    /// tunnels are left out
    #[arg(long)]
    multipath: bool,
    /// Use these interfaces or addresses, in order of preference; may be repeated, and means --multipath
    #[arg(long = "path", value_name = "IF|ADDR[,backup][,weight=N][,count=N]")]
    rules: Vec<PathRule>,
    #[command(flatten)]
    sharing: Sharing,
}

impl ClientPaths {
    /// One path; with `max_paths` the server is told that there could be more.
    pub(crate) fn offering(max_paths: Option<u32>) -> Self {
        let scheduler = MultipathConfig::default().scheduler;
        Self {
            multipath: false,
            rules: Vec::new(),
            sharing: Sharing { max_paths, scheduler, numbering: None },
        }
    }

    pub(crate) fn config(&self) -> Option<MultipathConfig> {
        (self.is_managed() || self.sharing.max_paths.is_some())
            .then(|| self.sharing.config(NumberingChoice::Only))
    }

    fn is_managed(&self) -> bool {
        self.multipath || !self.rules.is_empty()
    }

    fn policy(&self) -> PathPolicy {
        PathPolicy {
            allow: self.rules.clone(),
            max_paths: self.sharing.max_paths.unwrap_or(MultipathConfig::default().max_paths) as usize,
            ..PathPolicy::default()
        }
    }

    /// The ways to a server with these addresses, in the order in which they are to be tried.
    pub(crate) async fn ways(&self, remotes: &[SocketAddr]) -> Vec<Way> {
        match self.is_managed() {
            true => self.policy().ways(remotes).await,
            false => Way::to_any_of(remotes),
        }
    }

    /// Has paths opened on a connection, and followed as interfaces come and go, if several are wanted.
    pub(crate) fn manage(&self, connection: &Connection) {
        if self.is_managed() {
            // It goes on until the connection ends.
            connection.manage_paths(self.policy());
        }
    }
}

/// A server's paths: as many as its clients want, up to a limit.
#[derive(Args, Clone, Debug)]
pub(crate) struct ServerPaths {
    /// Do not let clients use several paths at once
    #[arg(long)]
    no_multipath: bool,
    #[command(flatten)]
    sharing: Sharing,
}

impl ServerPaths {
    pub(crate) fn config(&self) -> Option<MultipathConfig> {
        (!self.no_multipath).then(|| self.sharing.config(NumberingChoice::Prefer))
    }
}

/// A path of a connection, with what it has carried so far.
pub(crate) fn facts(path: &PathInfo) -> Value {
    json!({
        "id": path.id.0,
        "local": path.tuple.local.to_string(),
        "remote": path.tuple.remote.to_string(),
        "bytes": path.bytes_received,
        "bytes_sent": path.bytes_sent,
        "rtt_ms": path.smoothed_rtt.as_secs_f64() * 1e3,
        "lost_packets": path.recovery.lost_packets,
        "state": path.state.name(),
        "idle": path.idle.map(|idle| idle.name()),
    })
}

/// A path in a few words for people.
pub(crate) fn words(path: &PathInfo) -> String {
    let idle = path.idle.map(|idle| format!(", idle: {idle}")).unwrap_or_default();
    format!(
        "path {} from {}: {} bytes, RTT {:.1} ms, {}{idle}",
        path.id.0,
        path.tuple.local.ip(),
        path.bytes_received,
        path.smoothed_rtt.as_secs_f64() * 1e3,
        path.state,
    )
}
