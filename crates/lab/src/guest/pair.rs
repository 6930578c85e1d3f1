//! Two guests with links between them.

use std::net::SocketAddr;

use anabranch_guest::{Hello, Path, Role, VERSION, Workload};
use anabranch_seeded::Identity;

use super::{Limits, Process, Programs};
use crate::link::LinkSpec;
use crate::network::{HostId, LinkId};
use crate::pair::{CLIENT_PORT, client_ip, server_address};
use crate::random::Seed;
use crate::sim::Simulation;
use crate::tls::{ALPN, SERVER_NAME};

/// A simulation whose client and server are guests.
pub struct GuestPair {
    /// The simulation.
    pub sim: Simulation,
    /// The host that connects.
    pub client: HostId,
    /// The host that accepts.
    pub server: HostId,
    /// The links, one for each path.
    pub links: Vec<LinkId>,
}

/// Returns the [`Hello`]s of client and server. They contain `paths` paths between the addresses of a
/// [`Pair`](crate::pair::Pair), and the certificate of all simulated servers.
///
/// # Errors
/// Fails if the certificate cannot be created, which would be a fault of this crate.
pub fn hellos(seed: u64, paths: u8, workload: Workload) -> Result<[Hello; 2], String> {
    let identity = Identity::new(1, &[SERVER_NAME]).map_err(|error| error.to_string())?;
    let addresses = |link| [SocketAddr::new(client_ip(link), CLIENT_PORT), server_address()];
    let hello = |role| Hello {
        version: VERSION,
        role,
        seed,
        paths: (0..paths)
            .map(addresses)
            .map(|[client, server]| match role {
                Role::Client => Path { local: client, remote: server },
                Role::Server => Path { local: server, remote: client },
            })
            .collect(),
        workload,
        server_name: SERVER_NAME.to_owned(),
        alpn: ALPN.to_owned(),
        certificate: identity.certificate.to_vec(),
        key: match role {
            Role::Client => Vec::new(),
            Role::Server => identity.key.secret_der().to_vec(),
        },
    };
    Ok([hello(Role::Client), hello(Role::Server)])
}

impl GuestPair {
    /// Starts both programs, and builds the links, each with one path.
    ///
    /// # Errors
    /// Fails with a message of one line if a program cannot be started or does not speak the protocol.
    pub fn new(
        seed: u64,
        links: impl IntoIterator<Item = LinkSpec>,
        workload: Workload,
        programs: &Programs,
        limits: Limits,
    ) -> Result<Self, String> {
        let links: Vec<LinkSpec> = links.into_iter().collect();
        let mut sim = Simulation::new(Seed(seed));
        let told = hellos(seed, links.len() as u8, workload)?;
        let mut add = |command: &[String], hello: &Hello| {
            let process = Process::start(command, hello, limits)?;
            let paths = hello.paths.iter().map(|path| (path.local, path.remote)).collect();
            Ok::<_, String>(sim.add_guest(Box::new(process), paths))
        };
        let client = add(&programs.client, &told[0])?;
        let server = add(&programs.server, &told[1])?;
        let links = (0..).zip(&links).map(|(index, spec)| {
            sim.add_link((client, client_ip(index)), (server, server_address().ip()), spec)
        });
        let links = links.collect();
        Ok(Self { sim, client, server, links })
    }

    /// Returns the first failure of the two guests, with the end that failed.
    pub fn failure(&self) -> Option<String> {
        let of = |end: &str, host| Some(format!("the {end} {}", self.sim.guest(host).failure()?));
        of("client", self.client).or_else(|| of("server", self.server))
    }
}
