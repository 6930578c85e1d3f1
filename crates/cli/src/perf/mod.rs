//! `anabranch perf`: bulk transfers, handshakes and interoperability cases, with the flags that all peers share.
//!
//! The protocol is draft-banks-quic-performance: a stream begins with eight bytes, big endian, that say how many to send
//! back; whatever follows is dropped. DATAGRAM frames are echoed. Over HTTP/3, `/bytes/N` is answered with N bytes.

pub(crate) mod client;
pub(crate) mod http3;
mod recv;
pub(crate) mod server;
mod work;

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use crate::exit::{self, Exit, Failure, Result};

/// Name of the application protocol.
pub(crate) const ALPN: &str = "perf";

/// Measure transfers and handshakes
#[derive(Subcommand, Debug)]
pub(crate) enum Perf {
    Server(server::Server),
    Client(client::Client),
}

/// Where it runs.
#[derive(Args, Clone, Debug)]
pub(crate) struct Place {
    /// Run on this CPU only, on one thread
    #[arg(long, value_name = "CPU")]
    pub(crate) one_core: Option<usize>,
}

impl Perf {
    pub(crate) fn place(&self) -> &Place {
        match self {
            Self::Server(server) => &server.place,
            Self::Client(client) => &client.place,
        }
    }
}

impl Place {
    /// Pins the process, before it has threads.
    pub(crate) fn settle(&self) -> Result {
        let Some(cpu) = self.one_core else { return Ok(()) };
        let mut cpus = nix::sched::CpuSet::new();
        let pinned =
            cpus.set(cpu).and_then(|()| nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &cpus));
        pinned.map_err(|error| Failure::new(Exit::Usage, format!("cannot run on CPU {cpu}: {error}")))
    }
}

/// User and system time of this process so far.
fn cpu_seconds() -> f64 {
    use nix::sys::resource::{UsageWho, getrusage};
    let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else { return 0.0 };
    let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    seconds(usage.user_time()) + seconds(usage.system_time())
}

/// What was observed, as one line of JSON on standard output.
#[derive(Debug, Default)]
struct Report(Map<String, Value>);

impl Report {
    fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.0.insert(key.to_owned(), value.into());
        self
    }

    /// `goodput_mbps` is 10^6 bits of application data per second.
    fn goodput(self, bytes: u64, seconds: f64) -> Self {
        let mbps = bytes as f64 * 8.0 / seconds.max(1e-9) / 1e6;
        self.with("bytes", bytes).with("seconds", seconds).with("goodput_mbps", mbps)
    }

    fn print(self) -> Result {
        exit::say(json!(self.with("cpu_seconds", cpu_seconds()).0))
    }
}
