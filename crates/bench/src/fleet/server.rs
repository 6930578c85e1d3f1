//! Servers of the fleet: processes of the command, or of this program.

use std::net::SocketAddr;
use std::process::Command;

use anabranch::{
    Connection, Endpoint, LoadBalancing, MultipathConfig, RecvStream, SendStream, ServerId, TransportConfig,
    VarInt, random_config,
};
use clap::Args;

use crate::Error;
use crate::child::{Program, until_input_ends};
use crate::stacks::{Identity, IdentityFiles, Ours};

/// Application protocol: HTTP/0.9, which the command speaks, too.
pub(super) const ALPN: &str = "hq-interop";
/// Length of a file, in bytes.
pub(super) const FILE: usize = 50_000;
/// Name of the file that contains the server's number.
pub(super) const WHO: &str = "/who";
/// Name of the file of [`FILE`] bytes.
pub(super) const DATA: &str = "/data";
/// Number of the configuration, length of nonces, and key: that of the draft's test vectors.
const CONFIG: u8 = 3;
const NONCE_LEN: usize = 8;
const KEY: [u8; 16] =
    [0x8f, 0x95, 0xf0, 0x92, 0x45, 0x76, 0x5f, 0x80, 0x25, 0x69, 0x34, 0xe5, 0x0c, 0x66, 0x20, 0x7f];

/// Returns the ID of the server with this number.
#[expect(clippy::expect_used, reason = "two bytes are a server ID")]
pub(super) fn id(number: u16) -> ServerId {
    ServerId::new(&number.to_be_bytes()).expect("two bytes")
}

/// Returns the configuration of QUIC-LB of the server with this number.
pub(super) fn balancing(number: u16) -> LoadBalancing {
    // The balancer leads no packets of a living server to another one.
    LoadBalancing::new(CONFIG, id(number), NONCE_LEN).with_key(KEY).with_resets_for_others(true)
}

/// A server process. It is killed when this value is dropped.
pub(super) struct Server {
    pub(super) address: SocketAddr,
    program: Program,
    is_own: bool,
}

impl Server {
    /// Starts the server with this number: a process of the command, or of this program if there is none.
    pub(super) fn start(number: u16, identity: &Identity, ours: Option<&Ours>) -> Result<Self, Error> {
        let mut command = match ours {
            Some(ours) => command(number, identity, ours)?,
            None => {
                let mut command = Command::new(std::env::current_exe()?);
                command.args(["fleet-server", "--number", &number.to_string()]).args(identity.flags());
                command
            }
        };
        let mut program = Program::start(&mut command)?;
        let said = program.line()?;
        let address =
            said.strip_prefix("listening ").ok_or("a server of the fleet does not listen")?.parse()?;
        Ok(Self { address, program, is_own: ours.is_none() })
    }

    /// Asks the server to end, and waits for its end.
    pub(super) fn end(self) -> Result<(), Error> {
        match self.is_own {
            true => self.program.end().map(drop),
            false => self.program.terminate().map(drop),
        }
    }
}

/// Returns `anabranch serve` with the files of the server with this number.
fn command(number: u16, identity: &Identity, ours: &Ours) -> Result<Command, Error> {
    let folder = identity.folder();
    let root = folder.join(format!("server-{number}"));
    std::fs::create_dir_all(&root)?;
    std::fs::write(root.join(&WHO[1..]), number.to_string())?;
    std::fs::write(root.join(&DATA[1..]), vec![b'.'; FILE])?;
    let key: String = KEY.iter().map(|byte| format!("{byte:02x}")).collect();
    let config = format!(
        "config-id = {CONFIG}\nserver-id = \"{}\"\nnonce-length = {NONCE_LEN}\ncid-key = \"{key}\"\nresets-for-others = true\n",
        id(number)
    );
    let file = folder.join(format!("server-{number}.toml"));
    std::fs::write(&file, config)?;
    let mut command = Command::new(ours.program()?);
    command.args(["serve", "--no-tcp", "--log", "none", "--drain", "1", "--listen", "127.0.0.1:0"]);
    command.arg("--lb-config").arg(file).arg("--ticket-key").arg(folder.join("tickets"));
    command.args(identity.flags()).arg("--root").arg(root);
    Ok(command)
}

/// Options of a server of this program.
#[derive(Args)]
pub(crate) struct Options {
    #[arg(long)]
    number: u16,
    #[command(flatten)]
    identity: IdentityFiles,
}

/// Runs a server until the input of the process ends.
pub(crate) fn run(options: &Options) -> Result<(), Error> {
    until_input_ends(serve(options))
}

async fn serve(options: &Options) -> Result<(), Error> {
    let transport = TransportConfig::default().with_multipath(MultipathConfig::default());
    let server = options.identity.config(ALPN)?.with_transport(transport);
    // All servers have the same secrets, but no two the same seed.
    let secrets = random_config()?.with_reset_key(KEY32).with_token_key(KEY32);
    let secrets = secrets.with_load_balancing(balancing(options.number));
    let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    let endpoint = Endpoint::new(&secrets, Some(server), socket)?;
    println!("listening {}", endpoint.local_addr()?);
    let number = options.number;
    while let Some(incoming) = endpoint.accept().await {
        tokio::spawn(async move {
            if let Ok(connection) = incoming.await {
                respond(&connection, number).await;
            }
        });
    }
    Err("the server's socket failed".into())
}

/// Secret of stateless resets and of address tokens.
const KEY32: [u8; 32] = [0x5a; 32];

/// Responds to the requests of a connection until it ends.
async fn respond(connection: &Connection, number: u16) {
    while let Ok((send, receive)) = connection.accept_bi().await {
        tokio::spawn(async move {
            // An error means that the client has gone.
            let _ = response(send, receive, number).await;
        });
    }
    connection.close(VarInt::ZERO, b"");
}

async fn response(mut send: SendStream, mut receive: RecvStream, number: u16) -> Result<(), Error> {
    let request = receive.read_to_end(1_000).await?;
    let is_data = String::from_utf8_lossy(&request).contains(DATA);
    let body = if is_data { vec![b'.'; FILE] } else { number.to_string().into_bytes() };
    send.write_all(&body).await?;
    Ok(send.finish()?)
}
