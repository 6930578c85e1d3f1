//! Programs under comparison: ours, and those of the peers that are built.

use std::path::{Path, PathBuf};
use std::process::Command;

use anabranch::{ServerConfig, config};
use clap::{Args, ValueEnum};
use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256};
use serde_json::Value;

use crate::Error;
use crate::child::{Cost, Program};
use crate::report::median;

/// CPU core of every server.
const SERVER_CORE: &str = "0";

/// CPU core of every client.
const CLIENT_CORE: &str = "1";

/// Name of our stack in the tables.
pub(crate) const OURS: &str = "anabranch";

/// Peers, in the order of the tables.
const PEERS: &[&str] = &["quinn", "s2n-quic", "msquic", "quiche", "quic-go"];

/// Environment variable that chooses the allocator of the peers in Rust.
const PEER_ALLOCATOR: &str = "PEER_ALLOCATOR";

/// Command that builds our program with mimalloc, and the flags, a folder after them, with which it builds the
/// program with the system's allocator. The other features are the same.
const BUILD: &str = "cargo build --release -p anabranch-cli";
const SYSTEM_FLAGS: &str = "--no-default-features --features lab,vpn --target-dir";

/// Settings of the stacks that cost much, for the tables (`peers/README.md`).
pub(crate) const SETTINGS: &str = "\
Sockets: segmentation offload (GSO) is on for all stacks; coalesced datagrams (GRO) are on for all but quic-go; all receive several \
datagrams with one system call. Tickets: `handshakes` chooses for all stacks (`--tickets`); in the other benchmarks, anabranch, quinn \
and quiche issue two for each connection, s2n-quic and quic-go one, msquic none.";

#[derive(Args, Default)]
pub(crate) struct Choice {
    /// Measure only these stacks (anabranch, quinn, s2n-quic, msquic, quiche, quic-go)
    #[arg(long, value_delimiter = ',')]
    stacks: Vec<String>,
    /// Allocator of Rust code in all stacks; quic-go has Go's own
    #[arg(long, value_enum, default_value_t = Allocator::System)]
    pub(crate) allocator: Allocator,
    /// Our command with the system's allocator [default: `system/release/anabranch` below the target folder]
    #[arg(long, value_name = "PROGRAM")]
    anabranch_system: Option<PathBuf>,
    #[command(flatten)]
    ours: Ours,
}

/// Allocator of the Rust code in both programs of a stack. C code inside a stack uses `malloc` with either.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Allocator {
    /// The system's
    #[default]
    System,
    /// mimalloc
    Mimalloc,
}

impl Allocator {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Mimalloc => "mimalloc",
        }
    }

    /// Checks that a program which names its allocator in its `result` used this one.
    fn check(self, result: &Value) -> Result<(), Error> {
        match result["allocator"].as_str() {
            Some(used) if used != self.name() => {
                Err(format!("the program's allocator is {used}, not {}", self.name()).into())
            }
            _ => Ok(()),
        }
    }
}

/// Formats the allocator for the title of a table.
impl std::fmt::Display for Allocator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::System => f.write_str("the system's allocator"),
            Self::Mimalloc => f.write_str("mimalloc (C code: malloc)"),
        }?;
        f.write_str(", Go's own for quic-go")
    }
}

/// Location of our own stack.
#[derive(Args, Default)]
pub(crate) struct Ours {
    /// Our command [default: `anabranch` beside this program]
    #[arg(long, value_name = "PROGRAM")]
    anabranch: Option<PathBuf>,
}

/// Program of one stack. All programs accept the same flags (see peers/README.md).
#[derive(Clone)]
pub(crate) struct Stack {
    pub(crate) name: &'static str,
    program: PathBuf,
    /// Arguments before `server` or `client`.
    prefix: &'static [&'static str],
    /// Allocator of both its programs; `None`: whichever it has.
    allocator: Option<Allocator>,
    /// Additional arguments of this stack's server.
    serving: Vec<String>,
}

/// Returns the path of the peer `name`'s program, as built by `peers/build.sh`.
pub(crate) fn peer(name: &str) -> PathBuf {
    let peers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../peers").join(name);
    if name == "quic-go" {
        peers.join("peer-quic-go")
    } else {
        peers.join(format!("target/release/peer-{name}"))
    }
}

/// Returns the target folder of our program with the system's allocator: `system` below that of this program.
fn system_folder() -> Result<PathBuf, Error> {
    let program = std::env::current_exe()?;
    let target = program.parent().and_then(Path::parent).ok_or("this program is in no target folder")?;
    Ok(target.join("system"))
}

impl Ours {
    /// Returns the path of our command, which may not be built.
    pub(crate) fn program(&self) -> Result<PathBuf, Error> {
        let beside = std::env::current_exe()?.with_file_name("anabranch");
        Ok(self.anabranch.clone().unwrap_or(beside))
    }

    /// Returns our stack, which may not be built.
    pub(crate) fn stack(&self) -> Result<Stack, Error> {
        let program = self.program()?;
        Ok(Stack { name: OURS, program, prefix: &["perf"], allocator: None, serving: Vec::new() })
    }
}

impl Choice {
    /// Returns our stack with the chosen allocator, which may not be built.
    fn ours(&self) -> Result<Stack, Error> {
        let mut ours = Stack { allocator: Some(self.allocator), ..self.ours.stack()? };
        if self.allocator == Allocator::System {
            let usual = system_folder()?.join("release/anabranch");
            ours.program = self.anabranch_system.clone().unwrap_or(usual);
        }
        Ok(ours)
    }

    /// Says that our `program` is not built, and which command builds it.
    fn missing(&self, program: &Path) -> Result<String, Error> {
        let build = match self.allocator {
            Allocator::Mimalloc => BUILD.to_owned(),
            Allocator::System => format!("{BUILD} {SYSTEM_FLAGS} {}", system_folder()?.display()),
        };
        Ok(format!("{} is not built; this builds our command: {build}", program.display()))
    }

    /// Checks that our own program is built.
    fn check_ours(&self) -> Result<(), Error> {
        let program = self.ours()?.program;
        if program.is_file() { Ok(()) } else { Err(self.missing(&program)?.into()) }
    }

    /// Returns the chosen stacks that are built; prints the names of the others to standard error. Our own must
    /// be built.
    pub(crate) fn built(&self) -> Result<Vec<Stack>, Error> {
        let mut all = vec![self.ours()?];
        let allocator = Some(self.allocator);
        all.extend(PEERS.iter().map(|&name| Stack {
            name,
            program: peer(name),
            prefix: &[],
            allocator,
            serving: Vec::new(),
        }));
        if let Some(unknown) = self.stacks.iter().find(|name| !all.iter().any(|stack| stack.name == **name)) {
            return Err(format!("unknown stack {unknown}").into());
        }
        all.retain(|stack| self.stacks.is_empty() || self.stacks.iter().any(|name| name == stack.name));
        if all.iter().any(|stack| stack.name == OURS) {
            self.check_ours()?;
        }
        let (built, missing): (Vec<_>, Vec<_>) = all.into_iter().partition(|stack| stack.program.is_file());
        for stack in missing {
            eprintln!("skipped: {} ({} is not built)", stack.name, stack.program.display());
        }
        if built.is_empty() { Err("no stack is built".into()) } else { Ok(built) }
    }
}

/// Checks that our own programs are built, with each allocator.
///
/// # Errors
///
/// One is not. The error names the command that builds it.
pub(crate) fn check_ours() -> Result<(), Error> {
    [Allocator::System, Allocator::Mimalloc]
        .into_iter()
        .try_for_each(|allocator| Choice { allocator, ..Choice::default() }.check_ours())
}

/// Costs of a server and its client, and the client's output.
pub(crate) struct Measured {
    pub(crate) server: Cost,
    pub(crate) client: Cost,
    pub(crate) result: Value,
}

/// Operations per second of one stack: medians over its rounds.
pub(crate) struct Rates {
    /// Rate per CPU second of the server.
    pub(crate) server: f64,
    /// Rate per CPU second of the client.
    pub(crate) client: f64,
    /// Rate per second of wall time.
    pub(crate) wall: f64,
}

impl Rates {
    /// Computes the rates of rounds with `count` operations each.
    pub(crate) fn new(count: u64, runs: &[Measured]) -> Self {
        let middle = |seconds: &dyn Fn(&Measured) -> f64| {
            median(&runs.iter().map(|run| count as f64 / seconds(run)).collect::<Vec<_>>())
        };
        Self {
            server: middle(&|run| run.server.cpu),
            client: middle(&|run| run.client.cpu),
            wall: middle(&|run| run.result["seconds"].as_f64().unwrap_or(f64::NAN)),
        }
    }

    /// Returns the cells of the table's row.
    pub(crate) fn cells(&self) -> [String; 3] {
        [self.server, self.client, self.wall].map(|rate| format!("{rate:.0}"))
    }
}

/// Returns the stack `name`, whose client is used with every server; `None` if `name` is `None`.
pub(crate) fn client_of_all(stacks: &[Stack], name: Option<&str>) -> Result<Option<Stack>, Error> {
    let Some(name) = name else { return Ok(None) };
    let found = stacks.iter().find(|stack| stack.name == name);
    Ok(Some(found.ok_or("the stack of that client is not built")?.clone()))
}

impl Stack {
    /// Returns this stack's program under another name, for a different task.
    pub(crate) fn named(&self, name: &'static str) -> Self {
        Self { name, ..self.clone() }
    }

    /// Returns this stack's program with additional arguments for its server.
    pub(crate) fn serving(self, words: &[&str]) -> Self {
        Self { serving: words.iter().map(|&word| word.to_owned()).collect(), ..self }
    }

    fn command(&self, role: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.args(self.prefix).arg(role);
        if let Some(allocator) = self.allocator {
            command.env(PEER_ALLOCATOR, allocator.name());
        }
        command
    }

    /// Runs this stack's server with the client of `client`, each on a separate core.
    pub(crate) fn run(&self, client: &Self, identity: &Identity, work: &[String]) -> Result<Measured, Error> {
        let named = |error: Error| -> Error { format!("{}: {error}", self.name).into() };
        self.run_pair(client, identity, work).map_err(named)
    }

    fn run_pair(&self, client: &Self, identity: &Identity, work: &[String]) -> Result<Measured, Error> {
        let mut command = self.command("server");
        command.args(["--listen", "127.0.0.1:0", "--one-core", SERVER_CORE]);
        command.arg("--cert").arg(identity.certificate()).arg("--key").arg(identity.key());
        command.args(&self.serving);
        let mut server = Program::start(&mut command)?;
        let line = server.line()?;
        let address = line.strip_prefix("listening ").ok_or_else(|| format!("the server said {line:?}"))?;
        let mut command = client.command("client");
        command
            .args(["--connect", address, "--one-core", CLIENT_CORE])
            .arg("--ca")
            .arg(identity.certificate());
        if client.name == OURS || client.prefix == ["perf"] {
            command.arg("--json");
        }
        let (output, client) =
            Program::start(command.args(work))?.doing(format!("{} {}", client.name, work.join(" "))).end()?;
        let (last, server) = server.end()?;
        let result = said(&output).ok_or("the client said no result")?;
        for result in [Some(&result), said(&last).as_ref()].into_iter().flatten() {
            self.allocator.map_or(Ok(()), |allocator| allocator.check(result))?;
        }
        Ok(Measured { server, client, result })
    }
}

/// Returns the JSON in the last line of a program's output. Our server says its result in words.
fn said(output: &str) -> Option<Value> {
    serde_json::from_str(output.lines().last()?).ok()
}

/// Files of an [`Identity`], as arguments of a server of this program.
#[derive(Args)]
pub(crate) struct IdentityFiles {
    #[arg(long)]
    cert: PathBuf,
    #[arg(long)]
    key: PathBuf,
}

impl IdentityFiles {
    /// Returns the configuration of a server with this identity.
    pub(crate) fn config(&self, alpn: &str) -> Result<ServerConfig, Error> {
        Ok(config::server(config::certificates(&self.cert)?, config::private_key(&self.key)?, [alpn])?)
    }
}

/// Self-signed P-256 certificate in a temporary folder, which is removed when this value is dropped.
pub(crate) struct Identity(PathBuf);

impl Identity {
    pub(crate) fn new() -> Result<Self, Error> {
        let folder = std::env::temp_dir().join(format!("anabranch-bench-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let identity = Self(folder);
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let names = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
        let certificate = CertificateParams::new(names)?.self_signed(&key)?;
        std::fs::write(identity.certificate(), certificate.pem())?;
        std::fs::write(identity.key(), key.serialize_pem())?;
        Ok(identity)
    }

    /// Returns the flags that pass the certificate and its key to a program.
    pub(crate) fn flags(&self) -> [String; 4] {
        let path = |path: PathBuf| path.display().to_string();
        ["--cert".to_owned(), path(self.certificate()), "--key".to_owned(), path(self.key())]
    }

    /// Returns the identity's folder. Other files in it are removed as well.
    pub(crate) fn folder(&self) -> &Path {
        &self.0
    }

    /// Returns the file with the certificate.
    pub(crate) fn certificate(&self) -> PathBuf {
        self.0.join("cert.pem")
    }

    /// Returns the file with the certificate's key.
    pub(crate) fn key(&self) -> PathBuf {
        self.0.join("key.pem")
    }
}

impl Drop for Identity {
    fn drop(&mut self) {
        // A folder that cannot be removed does no harm among the temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs `measure` for every stack in every round, in an order that is rotated by one in each round. Returns
/// the results of each stack. A peer that fails is reported on standard error and omitted; a failure of our
/// own stack is an error.
pub(crate) fn rotate<T>(
    rounds: u32,
    stacks: Vec<Stack>,
    mut measure: impl FnMut(&Stack) -> Result<T, Error>,
) -> Result<Vec<(Stack, Vec<T>)>, Error> {
    let mut results: Vec<(Stack, Option<Vec<T>>)> =
        stacks.into_iter().map(|stack| (stack, Some(Vec::new()))).collect();
    for round in 0..rounds as usize {
        for turn in 0..results.len() {
            let index = (turn + round) % results.len();
            let (stack, Some(done)) = &mut results[index] else { continue };
            eprintln!("round {} of {rounds}: {}", round + 1, stack.name);
            match measure(stack) {
                Ok(result) => done.push(result),
                Err(error) if stack.name == OURS => return Err(error),
                Err(error) => {
                    eprintln!("skipped: {error}");
                    results[index].1 = None;
                }
            }
        }
    }
    Ok(results.into_iter().filter_map(|(stack, done)| Some((stack, done?))).collect())
}

#[cfg(test)]
mod tests;
