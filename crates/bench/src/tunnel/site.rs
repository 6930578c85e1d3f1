//! Both ends of a tunnel as processes, and the links between them.

use std::io::Write;
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use anabranch_lab::random::Seed;
use anabranch_lab::relay::Relay;

use crate::Error;
use crate::child::{Cost, Program};
use crate::stacks::{Identity, Ours};
use anabranch_lab::tunnel::Link;

/// Name and, below, secret of the proxy's only user.
const USER: &str = "bench";
const SECRET: &str = "not-a-secret";

/// A proxy process, and the links to it, which end when this value is dropped.
pub(super) struct Site<'a> {
    ours: &'a Ours,
    identity: Identity,
    proxy: Program,
    links: Vec<Relay>,
    /// Port to which clients connect: that of the first link, or the proxy's own without links.
    port: u16,
}

impl<'a> Site<'a> {
    /// Starts a proxy behind these links.
    pub(super) fn start(ours: &'a Ours, links: &[Link], seed: u64) -> Result<Self, Error> {
        let identity = Identity::new()?;
        let users = format!(
            "[[user]]\nname = \"{USER}\"\nsecret = \"{}\"\nflows = 100000\nconnections = 1000\n",
            hash(ours)?
        );
        std::fs::write(identity.folder().join("users.toml"), users)?;
        std::fs::write(identity.folder().join("token"), format!("{USER}.{SECRET}\n"))?;
        // The links start first, because the proxy has to announce the addresses of the further ones. Its port is chosen here.
        let server = UdpSocket::bind("127.0.0.1:0")?.local_addr()?;
        let relays = links.iter().zip(seed..).map(|(link, seed)| {
            Relay::start(([127, 0, 0, 1], 0).into(), server, &link.spec(), Seed(seed), Instant::now)
        });
        let links = relays.collect::<Result<Vec<_>, _>>()?;
        let listen = format!("0.0.0.0:{}", server.port());
        let mut command = Command::new(ours.program()?);
        command
            .current_dir(identity.folder())
            .args(["proxy", "serve", "--listen", &listen])
            .args(identity.flags());
        command.args(["--users", "users.toml", "--allow", "127.0.0.0/8", "--no-tcp", "--log", "none"]);
        command.args(["--drain", "1"]);
        for link in links.iter().skip(1) {
            command.args(["--announce", &link.address().to_string()]);
        }
        let mut proxy = Program::start(&mut command)?;
        expect(&mut proxy, "listening ")?;
        let port = links.first().map_or(server.port(), |link| link.address().port());
        Ok(Self { ours, identity, proxy, links, port })
    }

    /// Starts a client of the proxy with further arguments. Returns the client, and the address that it prints in a line that
    /// begins with `word`.
    pub(super) fn client(
        &self,
        command: &[&str],
        more: &[&str],
        word: &str,
    ) -> Result<(Program, SocketAddr), Error> {
        let mut client = Command::new(self.ours.program()?);
        let url = format!("https://localhost:{}", self.port);
        client.current_dir(self.identity.folder()).args(command).arg(url);
        client.args(["--token-file", "token", "--ca", "cert.pem", "--path", "lo"]).args(more);
        let mut client = Program::start(&mut client)?;
        let said = expect(&mut client, word)?;
        let address = said.split(' ').next().unwrap_or_default().parse()?;
        Ok((client, address))
    }

    /// Returns the path of our command.
    pub(super) fn program(&self) -> Result<PathBuf, Error> {
        self.ours.program()
    }

    /// Returns the flags that pass the certificate and its key to a further server.
    pub(super) fn certificate(&self) -> [String; 4] {
        self.identity.flags()
    }

    /// Returns the file with the certificate that clients trust.
    pub(super) fn authority(&self) -> PathBuf {
        self.identity.certificate()
    }

    pub(super) fn link(&self, index: usize) -> Option<&Relay> {
        self.links.get(index)
    }

    /// Returns the proxy's resident memory, in bytes.
    pub(super) fn memory(&self) -> Result<f64, Error> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.proxy.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib: f64 =
            line.and_then(|line| line.trim().strip_suffix(" kB")).ok_or("no VmRSS")?.trim().parse()?;
        Ok(kib * 1024.0)
    }

    /// Ends both processes. Returns the CPU time of both, in seconds.
    pub(super) fn end(self, client: Program) -> Result<f64, Error> {
        let costs: [Cost; 2] = [client.terminate()?, self.proxy.terminate()?];
        Ok(costs.iter().map(|cost| cost.cpu).sum())
    }
}

/// Waits for a line that begins with `word`. Returns the rest of the line.
fn expect(program: &mut Program, word: &str) -> Result<String, Error> {
    loop {
        let line = program.line()?;
        if let Some(rest) = line.strip_prefix(word) {
            return Ok(rest.to_owned());
        }
        if line.is_empty() {
            return Err(format!("the program did not say '{}'", word.trim()).into());
        }
    }
}

/// Returns the hash of the user's secret.
fn hash(ours: &Ours) -> Result<String, Error> {
    let mut command = Command::new(ours.program()?);
    command.args(["proxy", "hash"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn()?;
    child.stdin.take().ok_or("no input")?.write_all(SECRET.as_bytes())?;
    let output = child.wait_with_output()?;
    let text = String::from_utf8(output.stdout)?;
    if output.status.success() { Ok(text.trim().to_owned()) } else { Err("no hash".into()) }
}
