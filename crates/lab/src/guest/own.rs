//! The library's own stack as a guest: the node that other hosts of the simulation use, driven by the guest
//! protocol.

use std::any::Any;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;

use anabranch_guest::{Hello, Outgoing, Progress, Role, Stack, Step, Workload, serve};
use anabranch_seeded::{VirtualClock, seed_thread};
use anabranch_transport::{
    ClientConfig, Endpoint, EndpointConfig, FourTuple, Handle, ServerConfig, TransportConfig,
};
use anabranch_wire::{Ecn, Time, Version};

use crate::app::{Application, Dial, DownloadClient, DownloadServer, PathOpener};
use crate::network::HostId;
use crate::node::{Node, Outlet, Spinning};
use crate::packet::Packet;
use crate::random::Seed;
use crate::tls;
use crate::transfer::Meter;

/// Plays the end that the lab asks for over standard input and output, with this transport.
pub fn play(transport: TransportConfig) -> ExitCode {
    serve(concat!("anabranch ", env!("CARGO_PKG_VERSION")), |hello| Own::new(hello, transport))
}

/// An endpoint with its application.
pub struct Own {
    node: Node,
    clock: Arc<VirtualClock>,
    meter: Meter,
    role: Role,
    bytes: u64,
    deadline: Option<u64>,
}

impl Own {
    /// Builds the end that `hello` describes, with the configuration `transport`. Seeds the thread's TLS with
    /// the seed of `hello`.
    ///
    /// # Errors
    /// Fails if `hello` has no paths, or if TLS refuses its configuration, which would be a fault of this
    /// crate.
    pub fn new(hello: &Hello, transport: TransportConfig) -> Result<Self, String> {
        seed_thread(hello.seed);
        let clock = VirtualClock::new();
        let (client, server) = tls::pair(&clock).map_err(|error| error.to_string())?;
        let Workload::Download { bytes } = hello.workload;
        let config = |label| EndpointConfig::new(Seed(hello.seed).rng(label).bytes()).with_cid_len(8);
        let tuple = |path: &anabranch_guest::Path| FourTuple { local: path.local, remote: path.remote };
        let first = hello.paths.first().map(tuple).ok_or("a hello without paths")?;
        let (endpoint, application): (_, Box<dyn Application>) = match hello.role {
            Role::Client => {
                let client =
                    ClientConfig::new(client).with_transport(transport).with_initial_version(Version::V1);
                let opener = PathOpener::new(hello.paths.iter().skip(1).map(tuple));
                let client = DownloadClient::new(Dial::new(client, first).with_paths(opener), &[bytes]);
                (Endpoint::new(&config("client"), None), Box::new(client))
            }
            Role::Server => {
                let server = Arc::new(ServerConfig::new(server).with_transport(transport));
                let mut endpoint = Endpoint::new(&config("server"), Some(server));
                endpoint.set_auto_accept(true);
                (endpoint, Box::new(DownloadServer::default()))
            }
        };
        let mut node = Node::new(HostId(usize::from(hello.role == Role::Server)), endpoint, application);
        let meter = Meter::default();
        let watched = meter.clone();
        node.observe(Box::new(move |_| Box::new(watched.clone())));
        Ok(Self { node, clock, meter, role: hello.role, bytes, deadline: None })
    }

    fn progress(&self) -> Progress {
        let application: &dyn Any = &*self.node.application;
        let client = application.downcast_ref::<DownloadClient>();
        let refused = client.and_then(|client| client.dial.paths.refused.as_ref());
        let refused = refused.map(|refused| format!("a path was not opened: {refused}"));
        let (stream_bytes, lost) = self
            .meter
            .look(|totals| (totals.stream_bytes, totals.paths.values().map(|path| path.lost_packets).sum()));
        Progress {
            deadline: self.deadline,
            delivered: client.map_or(0, |client| client.received),
            repeated: (self.role == Role::Server).then(|| stream_bytes.saturating_sub(self.bytes)),
            lost: Some(lost),
            connected: client.is_some_and(|client| client.connected.is_some()),
            done: client.is_some_and(|client| client.finished.is_some()),
            failure: client.and_then(|client| client.failure.clone()).or(refused),
        }
    }
}

impl Stack for Own {
    fn step(&mut self, step: &Step<'_>, out: &mut Outgoing<'_>) -> Progress {
        let now = Time::from_nanos(step.now);
        self.clock.set(now);
        let mut outlet = Answering { out, deadline: None, overflowed: false };
        let mut packets: Vec<Packet> = step
            .datagrams
            .iter()
            .map(|datagram| Packet {
                source: datagram.remote,
                destination: datagram.local,
                ecn: Ecn::from_bits(datagram.ecn),
                payload: datagram.payload.to_vec(),
            })
            .collect();
        let rested = match (step.number, &packets[..]) {
            (0, _) => self.node.start(now, &mut outlet),
            (_, []) => self.node.wake(now, &mut outlet),
            (_, [..]) => self.node.arrive(now, &mut packets, &mut outlet),
        };
        let (deadline, overflowed) = (outlet.deadline, outlet.overflowed);
        self.deadline = deadline;
        match rested {
            Err(Spinning(_)) => Progress::failed("the endpoint does not come to rest"),
            Ok(()) if overflowed => Progress::failed("more datagrams at one instant than an answer holds"),
            Ok(()) => self.progress(),
        }
    }
}

/// Outlet of the node that writes its datagrams and its deadline to the answer to a step.
struct Answering<'a, 'b> {
    out: &'a mut Outgoing<'b>,
    deadline: Option<u64>,
    overflowed: bool,
}

impl Outlet for Answering<'_, '_> {
    fn send(&mut self, _now: Time, tuple: (SocketAddr, SocketAddr), ecn: Option<Ecn>, payload: &[u8]) {
        let ecn = ecn.map_or(0, |ecn| ecn as u8);
        self.overflowed |= !self.out.send(tuple.0, tuple.1, ecn, payload);
    }

    fn noted(&mut self, _now: Time, _handle: Handle) {}

    fn wake(&mut self, at: Time) {
        self.deadline = Some(at.as_nanos());
    }
}
