//! The workloads whose instructions are counted.

use anabranch_transport::schedule::Algorithm;
use anabranch_transport::{MultipathConfig, Numbering, TransportConfig};
use anabranch_wire::Version;

use crate::{Error, handshakes, keep_alive, pages, receive, requests, send, transfer};

/// Number of packets of a bulk stream, and of datagrams in a batch that is received.
const PACKETS: usize = 6_000;
const BATCH: usize = 50;
/// Number of handshakes.
const HANDSHAKES: u64 = 40;
/// Number of idle connections, and of keep-alives on each.
const IDLE: usize = 100;
const KEEP_ALIVES: u64 = 20;
/// Number of requests.
const REQUESTS: usize = 2_000;
/// Bytes of the simulated download.
const BYTES: u64 = 2_000_000;

/// Work that is repeated.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    /// Name, without spaces.
    pub name: &'static str,
    /// Name of one operation.
    pub operation: &'static str,
    /// Pattern of the functions, calls of which are counted with all that they call. `*` is for any text. None of them calls another.
    pub counted: &'static str,
    /// Runs the work. Returns how many operations it counts.
    pub run: fn() -> Result<u64, Error>,
}

/// All workloads.
pub const WORKLOADS: &[Workload] = &[
    Workload { name: "receive", operation: "packet", counted: RECEIVE, run: || receive(Version::V1) },
    Workload {
        name: "receive-reverso",
        operation: "packet",
        counted: RECEIVE,
        run: || receive(Version::REVERSO),
    },
    Workload {
        name: "send",
        operation: "packet",
        counted: SEND,
        run: || send(receive::transport(Version::V1)),
    },
    Workload {
        name: "send-reverso",
        operation: "packet",
        counted: SEND,
        run: || send(receive::transport(Version::REVERSO)),
    },
    Workload {
        name: "send-two-paths",
        operation: "packet",
        counted: SEND,
        run: || two_paths(Numbering::Multiple),
    },
    Workload {
        name: "send-single-space",
        operation: "packet",
        counted: SEND,
        run: || two_paths(Numbering::Single),
    },
    Workload {
        name: "send-round-robin",
        operation: "packet",
        counted: SEND,
        run: || scheduled(MultipathConfig::default().with_scheduler(Algorithm::RoundRobin)),
    },
    Workload {
        name: "handshake",
        operation: "full handshake of the server",
        counted: HANDSHAKE,
        run: || handshakes::run(HANDSHAKES, false),
    },
    Workload {
        name: "resumption",
        operation: "resumed handshake of the server",
        counted: HANDSHAKE,
        run: || handshakes::run(HANDSHAKES, true),
    },
    Workload {
        name: "keep-alive",
        operation: "keep-alive of an idle connection, at the server",
        counted: "anabranch_workloads::keep_alive::acknowledge_at_server",
        run: || keep_alive::run(IDLE, KEEP_ALIVES),
    },
    Workload {
        name: "request",
        operation: "request at the server",
        counted: REQUEST,
        run: || requests::run(REQUESTS, 1),
    },
    Workload {
        name: "requests-at-once",
        operation: "request at the server",
        counted: REQUEST,
        run: || requests::run(REQUESTS, 50),
    },
    Workload {
        name: "responses",
        operation: "1,000 bytes of 80 responses in turns, at the client",
        counted: RESPONSES,
        run: || pages::run(Version::V1).map(|bytes| bytes / 1_000),
    },
    Workload {
        name: "responses-reverso",
        operation: "1,000 bytes of 80 responses in turns, at the client",
        counted: RESPONSES,
        run: || pages::run(Version::REVERSO).map(|bytes| bytes / 1_000),
    },
    Workload {
        name: "simulate",
        operation: "1,000 bytes, handshakes included",
        counted: "anabranch_workloads::transfer::simulate",
        run: || transfer::simulate(&transfer::two_paths(1, BYTES)).map(|_| BYTES / 1_000),
    },
];

const HANDSHAKE: &str = "anabranch_workloads::memory::*_at_server";
const RECEIVE: &str = "anabranch_workloads::receive::deliver";
const SEND: &str = "anabranch_workloads::send::poll";
const RESPONSES: &str = "anabranch_workloads::pages::take_at_client";
const REQUEST: &str = "anabranch_workloads::requests::*_at_server";

fn receive(version: Version) -> Result<u64, Error> {
    let mut flow = receive::Flow::new(version)?;
    while flow.spent.packets < PACKETS {
        flow.receive(BATCH)?;
    }
    Ok(flow.spent.packets as u64)
}

fn send(config: TransportConfig) -> Result<u64, Error> {
    let mut flow = send::Flow::new(config)?;
    flow.send(PACKETS)?;
    Ok(flow.spent.packets as u64)
}

fn two_paths(numbering: Numbering) -> Result<u64, Error> {
    scheduled(MultipathConfig::default().with_numbering(numbering))
}

fn scheduled(multipath: MultipathConfig) -> Result<u64, Error> {
    send(receive::transport(Version::V1).with_multipath(multipath))
}
