//! Server process that holds connections and does nothing else.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use anabranch::{Endpoint, TransportConfig, random_config};
use clap::Args;

use super::process::Usage;
use crate::Error;
use crate::child::{Program, until_input_ends};
use crate::stacks::{Identity, IdentityFiles};

/// Application protocol, without any content.
pub(super) const ALPN: &str = "held";

/// Returns the idle timeout of both ends. It is shorter than a run, so that connections whose keep-alives are not acknowledged are lost.
pub(super) fn idle_timeout(keep_alive: Duration) -> Duration {
    keep_alive * 2
}

/// Server process. It is killed when this value is dropped.
pub(super) struct Server {
    pub(super) address: SocketAddr,
    program: Program,
}

impl Server {
    pub(super) fn start(identity: &Identity, options: &super::Options) -> Result<Self, Error> {
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args(["held-server", "--connections", &options.connections.to_string()])
            .args(["--keep-alive", &options.keep_alive.to_string()])
            .args(identity.flags());
        if options.huge_pages {
            command.env("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1");
        }
        let mut program = Program::start(&mut command)?;
        let said = program.line()?;
        let address = said.strip_prefix("listening ").ok_or("the server does not listen")?.parse()?;
        Ok(Self { address, program })
    }

    /// Returns the usage of the process so far.
    pub(super) fn usage(&self) -> Result<Usage, Error> {
        Usage::of(self.program.id())
    }

    pub(super) fn end(self) -> Result<(), Error> {
        self.program.end().map(drop)
    }
}

/// Options of the server process.
#[derive(Args)]
pub(crate) struct Options {
    #[arg(long)]
    connections: usize,
    #[arg(long)]
    keep_alive: u64,
    #[command(flatten)]
    identity: IdentityFiles,
}

/// Runs the server until the input of the process ends.
pub(crate) fn run(options: &Options) -> Result<(), Error> {
    until_input_ends(serve(options))
}

async fn serve(options: &Options) -> Result<(), Error> {
    let timeout = idle_timeout(Duration::from_secs(options.keep_alive));
    let transport = TransportConfig::default().with_max_idle_timeout(timeout);
    let server = options.identity.config(ALPN)?.with_transport(transport);
    let server = server.with_max_connections(options.connections);
    let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    let endpoint = Endpoint::new(&random_config()?, Some(server), socket)?;
    println!("listening {}", endpoint.local_addr()?);
    while let Some(incoming) = endpoint.accept().await {
        tokio::spawn(async move {
            // A handshake that fails is the client's to report.
            if let Ok(connection) = incoming.await {
                connection.closed().await;
            }
        });
    }
    Err("the server's socket failed".into())
}
