//! Work of a client, from the command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::http3;
use super::recv::Recv;
use crate::{hq, size};

/// Work of a client, and its output.
#[derive(Args, Debug)]
pub(crate) struct Load {
    /// Case to run
    #[arg(long, value_enum, default_value_t = Case::Transfer)]
    pub(crate) case: Case,
    /// Application protocol [default: the one that the work needs]
    #[arg(long, value_parser = [super::ALPN, hq::ALPN, http3::ALPN])]
    pub(crate) alpn: Option<String>,
    /// Send for this many seconds [default: 10, if no other work is given]
    #[arg(short, long, value_name = "SECONDS", value_parser = seconds, conflicts_with_all = ["download", "upload"])]
    pub(crate) time: Option<Duration>,
    /// Receive instead of sending, with --time
    #[arg(short = 'R', long, conflicts_with_all = ["download", "upload"])]
    pub(crate) reverse: bool,
    /// Show progress every this many seconds, 0 for never [default: every second for people, with --time]
    #[arg(short, long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) interval: Option<Duration>,
    /// Bytes to receive, split over the streams: 5000000, 10M, 1GiB
    #[arg(long, value_name = "BYTES", value_parser = size::parse)]
    pub(crate) download: Option<u64>,
    /// Bytes to send, split over the streams
    #[arg(long, value_name = "BYTES", value_parser = size::parse)]
    pub(crate) upload: Option<u64>,
    /// Number of streams
    #[arg(short = 'P', long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) streams: u64,
    /// Directory for the files of hq-interop; without it their content is discarded
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Paths to fetch over hq-interop, or over HTTP/3, each on a stream of its own
    #[arg(value_name = "PATH")]
    pub(crate) paths: Vec<String>,
    /// Fetch over HTTP/3
    #[arg(long)]
    pub(crate) http3: bool,
    /// Make this many requests for the path over HTTP/3, and nothing else
    #[arg(long, value_name = "N", requires = "http3")]
    pub(crate) requests: Option<u64>,
    /// Number of connections for these requests
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) connections: u64,
    /// Make this many full handshakes, and nothing else
    #[arg(long, value_name = "N")]
    pub(crate) handshakes: Option<u64>,
    /// Number of concurrent handshakes, or of concurrent requests on each connection
    #[arg(long, value_name = "C", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) concurrency: u64,
    /// Number of datagrams of --case datagram
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) datagrams: u64,
    /// Number of datagrams that one system call receives
    #[arg(long, value_enum, default_value_t = Recv::Many, hide = true)]
    pub(crate) recv: Recv,
}

/// Case that a client runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "lower")]
pub(crate) enum Case {
    /// Connect and do the work, if any
    Handshake,
    /// Do the work
    Transfer,
    /// Do the work on many streams
    Multiplexing,
    /// Do the second half of the work on a resumed connection
    Resumption,
    /// Do the second half of the work on a resumed connection, beginning with early data
    ZeroRtt,
    /// Update keys in the middle
    KeyUpdate,
    /// Offer only ChaCha20-Poly1305
    ChaCha20,
    /// Begin with QUIC version 2
    V2,
    /// Begin with version 1 and let the server choose another version (that of --wire, version 2 with --v2)
    Upgrade,
    /// Change the port in the middle, as a NAT does
    Rebind,
    /// Migrate to another socket in the middle
    Migration,
    /// Send datagrams and count their echoes
    Datagram,
    /// Begin with version 2 at a server that does not support it
    VersionNegotiation,
    /// Check that the server reports ECN marks as they were sent
    Ecn,
}

/// Parses a number of seconds, with an optional fraction.
fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.strip_suffix('s').unwrap_or(text).parse::<f64>().map_err(|error| error.to_string())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}
