//! Flags of the contract, which are the same for every peer. A peer rejects with status 127 the features that
//! its stack does not support.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

pub use crate::case::Case;
use crate::{Failure, failed};

/// Default stream receive window in bytes (`--window`). A connection's window is twice that.
pub const DEFAULT_WINDOW: u64 = 16 << 20;

/// Default idle timeout (`--idle-ms`).
pub const DEFAULT_IDLE: Duration = Duration::from_secs(30);

/// Command named by the first argument.
pub enum Command {
    /// `server …`
    Server(Server),
    /// `client …`
    Client(Client),
    /// Any other command, with its arguments: for commands that only one peer has.
    Other(String, Vec<String>),
}

/// Settings of both client and server.
pub struct Common {
    /// `--one-core K`: pin the process to CPU K and use one thread.
    pub one_core: Option<usize>,
    /// `--idle-ms N`
    pub idle: Duration,
    /// `--window BYTES`: stream receive window; the connection's is twice that.
    pub window: u64,
    /// `--no-gso`: one packet per system call.
    pub no_gso: bool,
    /// `--v2`: also support QUIC version 2 (RFC 9369).
    pub v2: bool,
    /// `--wire NAME`: wire format of packets.
    pub wire: Wire,
}

/// Wire format of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wire {
    /// `v1`: as in RFC 9000 and RFC 9369.
    #[default]
    V1,
    /// `reverso`: QUIC VReverso, whose frames are parsed from the end. Even the client's first packet has
    /// this version.
    Reverso,
}

impl FromStr for Wire {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "v1" => Ok(Self::V1),
            "reverso" => Ok(Self::Reverso),
            _ => Err(format!("unknown wire format {name}")),
        }
    }
}

impl Default for Common {
    fn default() -> Self {
        Self {
            one_core: None,
            idle: DEFAULT_IDLE,
            window: DEFAULT_WINDOW,
            no_gso: false,
            v2: false,
            wire: Wire::V1,
        }
    }
}

/// `server` and its flags.
pub struct Server {
    /// Settings of both client and server.
    pub common: Common,
    /// `--listen IP:PORT`
    pub listen: SocketAddr,
    /// `--cert PEM`
    pub cert: PathBuf,
    /// `--key PEM`
    pub key: PathBuf,
    /// `--root DIR`: folder of the files for `hq-interop` and `h3`.
    pub root: Option<PathBuf>,
    /// `--retry`: respond with Retry to every Initial packet without a token.
    pub retry: bool,
    /// `--no-migration`: send disable_active_migration. (`--migrate-ok`, the default, is also accepted.)
    pub migration: bool,
    /// `--preferred IP:PORT`: send preferred_address.
    pub preferred: Option<SocketAddr>,
    /// `--reset-key HEX`: key of the stateless reset tokens, so that they outlive the process.
    pub reset_key: Option<ResetKey>,
    /// `--tickets N`: number of session tickets for each full handshake; `None` for the stack's own number.
    pub tickets: Option<u32>,
}

impl Server {
    /// Returns whether the server issues tickets, for a stack that issues `own` of them or none.
    pub fn issues_tickets(&self, own: u32) -> Result<bool, Failure> {
        match self.tickets {
            None => Ok(own > 0),
            Some(count) if count == 0 || count == own => Ok(count > 0),
            Some(count) => {
                Err(Failure::Unsupported(format!("no server with {count} tickets, only with 0 or {own}")))
            }
        }
    }
}

/// Key of 32 bytes, given as 64 hexadecimal digits.
pub struct ResetKey(pub [u8; 32]);

impl FromStr for ResetKey {
    type Err = String;

    fn from_str(digits: &str) -> Result<Self, String> {
        let mut key = [0; 32];
        if digits.len() != 2 * key.len() || !digits.is_ascii() {
            return Err("a reset key has 64 hexadecimal digits".to_owned());
        }
        for (index, byte) in key.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&digits[2 * index..][..2], 16).map_err(|error| error.to_string())?;
        }
        Ok(Self(key))
    }
}

/// `client` and its flags.
pub struct Client {
    /// Settings of both client and server.
    pub common: Common,
    /// `--connect IP:PORT`
    pub connect: SocketAddr,
    /// `--name NAME`: server name for SNI and the certificate verification.
    pub name: String,
    /// `--ca PEM`
    pub ca: PathBuf,
    /// `--case NAME`
    pub case: Case,
    /// Work to do on the connection.
    pub work: Work,
}

/// Work of a client on its connections.
#[derive(Clone)]
pub enum Work {
    /// ALPN `perf`: `download` and `upload` bytes, divided evenly among the streams.
    Perf {
        /// `--download BYTES`
        download: u64,
        /// `--upload BYTES`
        upload: u64,
        /// `--streams N`
        streams: u64,
    },
    /// ALPN `hq-interop`, or `h3` with `--http3`: one request for each path. Responses are stored in `out`,
    /// or discarded.
    Fetch {
        /// `--http3`
        http3: bool,
        /// `--out DIR`
        out: Option<PathBuf>,
        /// Paths of the URLs.
        paths: Vec<String>,
    },
    /// `--http3 --requests N [--concurrency C] [--connections K]`: the same GET request repeatedly; responses
    /// are discarded.
    Requests(Requests),
    /// `--handshakes N [--concurrency C]`: full handshakes, sequentially in each of C lanes.
    Handshakes {
        /// Total number of handshakes.
        count: u64,
        /// Number of concurrent handshakes.
        concurrency: u64,
    },
    /// `--datagrams N`: send N DATAGRAM frames on ALPN `perf` and count the echoes.
    Datagrams {
        /// Number of DATAGRAM frames.
        count: u64,
    },
}

/// Small requests for a benchmark.
#[derive(Clone)]
pub struct Requests {
    /// Total number of requests.
    pub count: u64,
    /// Number of concurrent requests on each connection.
    pub concurrency: u64,
    /// Number of connections.
    pub connections: u64,
    /// Path of the URL.
    pub path: String,
}

impl Work {
    /// Returns the ALPN protocol for this work.
    pub fn alpn(&self) -> &'static str {
        match self {
            Self::Fetch { http3: true, .. } | Self::Requests(_) => "h3",
            Self::Fetch { http3: false, .. } => "hq-interop",
            _ => "perf",
        }
    }

    /// Divides the work between two connections: the first path on one, and the others on the other. Other
    /// work, or a single path, is done on both.
    pub fn halves(&self) -> (Self, Self) {
        match self {
            Self::Fetch { http3, out, paths } if paths.len() > 1 => {
                let of =
                    |paths: &[String]| Self::Fetch { http3: *http3, out: out.clone(), paths: paths.to_vec() };
                (of(&paths[..1]), of(&paths[1..]))
            }
            work => (work.clone(), work.clone()),
        }
    }
}

/// Command-line words: `--name value`, `--name`, or a word without a flag.
struct Words(VecDeque<String>);

impl Words {
    fn value<T: FromStr>(&mut self, flag: &str) -> Result<T, Failure> {
        let Some(word) = self.0.pop_front() else { return failed(format!("{flag} needs a value")) };
        word.parse().or_else(|_| failed(format!("{flag}: cannot use {word:?}")))
    }
}

impl Common {
    /// Handles `flag` if it is a setting of both client and server. Returns whether it is.
    fn take(&mut self, flag: &str, words: &mut Words) -> Result<bool, Failure> {
        match flag {
            "--one-core" => self.one_core = Some(words.value(flag)?),
            "--idle-ms" => self.idle = Duration::from_millis(words.value(flag)?),
            "--window" => self.window = words.value(flag)?,
            "--no-gso" => self.no_gso = true,
            "--v2" => self.v2 = true,
            "--wire" => self.wire = words.value(flag)?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// Parses the process's arguments, for a stack that supports only the wire format of RFC 9000.
pub fn parse() -> Result<Command, Failure> {
    let command = parse_from(std::env::args().skip(1))?;
    let wire = match &command {
        Command::Server(options) => options.common.wire,
        Command::Client(options) => options.common.wire,
        Command::Other(..) => Wire::V1,
    };
    match wire {
        Wire::V1 => Ok(command),
        Wire::Reverso => Err(Failure::Unsupported("no QUIC VReverso".to_owned())),
    }
}

/// Parses the process's arguments, for a stack that supports all wire formats.
pub fn parse_any_wire() -> Result<Command, Failure> {
    parse_from(std::env::args().skip(1))
}

/// Parses arguments without the program's name.
pub fn parse_from(args: impl IntoIterator<Item = String>) -> Result<Command, Failure> {
    let mut words = Words(args.into_iter().collect());
    match words.0.pop_front().as_deref() {
        Some("server") => server(words).map(Command::Server),
        Some("client") => client(words).map(Command::Client),
        Some(other) => Ok(Command::Other(other.to_owned(), words.0.into())),
        None => failed("usage: server|client --flags; see peers/README.md"),
    }
}

fn server(mut words: Words) -> Result<Server, Failure> {
    let mut common = Common::default();
    let (mut listen, mut cert, mut key, mut root, mut preferred) = (None, None, None, None, None);
    let (mut retry, mut migration, mut reset_key, mut tickets) = (false, true, None, None);
    while let Some(flag) = words.0.pop_front() {
        match flag.as_str() {
            "--listen" => listen = Some(words.value(&flag)?),
            "--cert" => cert = Some(words.value(&flag)?),
            "--key" => key = Some(words.value(&flag)?),
            "--root" => root = Some(words.value(&flag)?),
            "--preferred" => preferred = Some(words.value(&flag)?),
            "--reset-key" => reset_key = Some(words.value(&flag)?),
            "--tickets" => tickets = Some(words.value(&flag)?),
            "--retry" => retry = true,
            "--migrate-ok" => migration = true,
            "--no-migration" => migration = false,
            _ if common.take(&flag, &mut words)? => {}
            _ => return failed(format!("unknown flag {flag}")),
        }
    }
    let (Some(listen), Some(cert), Some(key)) = (listen, cert, key) else {
        return failed("a server needs --listen, --cert and --key");
    };
    Ok(Server { common, listen, cert, key, root, retry, migration, preferred, reset_key, tickets })
}

/// Values of a client's flags, before they are checked for consistency.
#[derive(Default)]
struct Wanted {
    alpn: Option<String>,
    http3: bool,
    download: u64,
    upload: u64,
    streams: Option<u64>,
    out: Option<PathBuf>,
    paths: Vec<String>,
    handshakes: Option<u64>,
    requests: Option<u64>,
    concurrency: Option<u64>,
    connections: Option<u64>,
    datagrams: Option<u64>,
}

impl Wanted {
    fn take(&mut self, flag: String, words: &mut Words) -> Result<(), Failure> {
        match flag.as_str() {
            "--alpn" => self.alpn = Some(words.value(&flag)?),
            "--http3" => self.http3 = true,
            "--download" => self.download = words.value(&flag)?,
            "--upload" => self.upload = words.value(&flag)?,
            "--streams" => self.streams = Some(words.value(&flag)?),
            "--out" => self.out = Some(words.value(&flag)?),
            "--handshakes" => self.handshakes = Some(words.value(&flag)?),
            "--requests" => self.requests = Some(words.value(&flag)?),
            "--concurrency" => self.concurrency = Some(words.value(&flag)?),
            "--connections" => self.connections = Some(words.value(&flag)?),
            "--datagrams" => self.datagrams = Some(words.value(&flag)?),
            _ if flag.starts_with("--") => return failed(format!("unknown flag {flag}")),
            _ => self.paths.push(flag),
        }
        Ok(())
    }

    fn work(mut self, case: Case) -> Result<Work, Failure> {
        let at_least_one = |count: Option<u64>| count.unwrap_or(1).max(1);
        let (http3, concurrency) = (self.http3, at_least_one(self.concurrency));
        let named = self.alpn.as_deref().is_some_and(|alpn| alpn == "hq-interop" || alpn == "h3");
        let work = if let Some(count) = self.handshakes {
            Work::Handshakes { count, concurrency }
        } else if let Some(count) = self.requests {
            let (Some(path), true) = (self.paths.pop(), http3 && self.paths.is_empty()) else {
                return failed("--requests needs --http3 and one path");
            };
            Work::Requests(Requests { count, concurrency, connections: at_least_one(self.connections), path })
        } else if self.datagrams.is_some() || case == Case::Datagram {
            Work::Datagrams { count: self.datagrams.unwrap_or(DEFAULT_DATAGRAMS) }
        } else if http3 || named || !self.paths.is_empty() {
            Work::Fetch { http3, out: self.out, paths: self.paths }
        } else {
            let streams = at_least_one(self.streams);
            Work::Perf { download: self.download, upload: self.upload, streams }
        };
        if self.alpn.is_some_and(|alpn| alpn != work.alpn()) {
            return failed(format!("this work needs --alpn {}", work.alpn()));
        }
        if http3 && work.alpn() != "h3" {
            return failed("this work is not done over HTTP/3");
        }
        Ok(work)
    }
}

fn client(mut words: Words) -> Result<Client, Failure> {
    let mut common = Common::default();
    let (mut connect, mut ca, mut case) = (None, None, None);
    let mut name = "localhost".to_owned();
    let mut wanted = Wanted::default();
    while let Some(flag) = words.0.pop_front() {
        match flag.as_str() {
            "--connect" => connect = Some(words.value(&flag)?),
            "--name" => name = words.value(&flag)?,
            "--ca" => ca = Some(words.value(&flag)?),
            "--case" => case = Some(words.value(&flag)?),
            _ if common.take(&flag, &mut words)? => {}
            _ => wanted.take(flag, &mut words)?,
        }
    }
    let (Some(connect), Some(ca)) = (connect, ca) else { return failed("a client needs --connect and --ca") };
    let case = case.unwrap_or(if common.v2 { Case::V2 } else { Case::Transfer });
    let work = wanted.work(case)?;
    Ok(Client { common, connect, name, ca, case, work })
}

/// Flags of a peer's own command, each with a value.
pub struct Values(BTreeMap<String, String>);

impl Values {
    /// Parses flags. Only those of `known` are allowed.
    pub fn parse(flags: Vec<String>, known: &[&str]) -> Result<Self, Failure> {
        let (mut words, mut values) = (Words(flags.into()), BTreeMap::new());
        while let Some(flag) = words.0.pop_front() {
            if !known.contains(&flag.as_str()) {
                return failed(format!("unknown flag {flag}; there are {}", known.join(", ")));
            }
            values.insert(flag.clone(), words.value(&flag)?);
        }
        Ok(Self(values))
    }

    /// Returns the value of a flag, or `None` if the flag is absent.
    pub fn get<T: FromStr>(&self, flag: &str) -> Result<Option<T>, Failure> {
        match self.0.get(flag).map(|value| value.parse()) {
            None => Ok(None),
            Some(Ok(value)) => Ok(Some(value)),
            Some(Err(_)) => failed(format!("{flag}: cannot use {:?}", self.0[flag])),
        }
    }

    /// Returns the value of a flag that must be present.
    pub fn need<T: FromStr>(&self, flag: &str) -> Result<T, Failure> {
        self.get(flag)?.map_or_else(|| failed(format!("{flag} is needed")), Ok)
    }
}

/// Default number of datagrams for `--case datagram` (`--datagrams`).
pub const DEFAULT_DATAGRAMS: u64 = 10;

#[cfg(test)]
mod tests;
